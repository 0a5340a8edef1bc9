// The same place in another language: a link of the switcher takes the anchor along.
document.addEventListener("click", (event) => {
  const link = event.target.closest(".ci-languages a");
  if (link) link.hash = location.hash;
  const open = document.querySelector(".ci-languages[open]");
  if (open && !open.contains(event.target)) open.open = false;
});
document.addEventListener("keydown", (event) => {
  const open = document.querySelector(".ci-languages[open]");
  if (event.key !== "Escape" || !open) return;
  open.open = false;
  open.querySelector("summary").focus();
});
