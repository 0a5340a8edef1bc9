// The switcher: the same section of the page in another language, and the choice kept for the start page.
const choiceOfLanguage = "cheap-inference-language";

// The anchor of what is being read: the one in the address, else the last heading that has been passed.
function sectionInView() {
  if (location.hash) return location.hash;
  const passed = [...document.querySelectorAll("article section[id]")].filter(
    (section) => section.getBoundingClientRect().top < innerHeight / 3
  );
  return passed.length > 1 ? `#${passed.at(-1).id}` : "";
}

document.addEventListener("click", (event) => {
  const link = event.target.closest(".ci-languages a");
  if (link) {
    link.hash = sectionInView();
    try {
      localStorage.setItem(choiceOfLanguage, link.lang);
    } catch {
      // Storage may be switched off: the link works without it.
    }
  }
  const open = document.querySelector(".ci-languages[open]");
  if (open && !open.contains(event.target)) open.open = false;
});
document.addEventListener("keydown", (event) => {
  const open = document.querySelector(".ci-languages[open]");
  if (event.key !== "Escape" || !open) return;
  open.open = false;
  open.querySelector("summary").focus();
});
