// The sum of the section "fits" in the reader's browser: the same rule as cheap_inference.fits, no server.
(() => {
  const page = document.currentScript.closest(".ci-calculator");
  const form = page.querySelector("form");
  const { models, gib, mib, reserve, mostTokens, units, words } = JSON.parse(page.dataset.rules);
  const language = document.documentElement.lang || "en";

  const cacheBytes = (model, tokens, bits) => {
    const elements = model.cache.reduce((sum, [layers, heads, dimension, window]) => {
      const kept = window === null ? tokens : Math.min(tokens, window - 1);
      return sum + 2 * layers * heads * dimension * kept;
    }, 0);
    return Math.ceil((elements * bits) / 8);
  };

  // Most tokens whose cache fits into the room, by halving: the cache never shrinks as tokens are added.
  const longest = (model, room, bits) => {
    let [fits, fails] = [-1, mostTokens + 1];
    while (fails - fits > 1) {
      const middle = Math.floor((fits + fails) / 2);
      if (cacheBytes(model, middle, bits) <= room) fits = middle;
      else fails = middle;
    }
    return Math.max(0, fits);
  };

  const fit = (model, asked) => {
    const card = Math.round(asked.card * gib);
    const kept = Math.min(reserve, card);
    const weights = Math.ceil((model.parameters * asked.bits) / 8);
    const room = card - kept - weights;
    const user = cacheBytes(model, asked.context, asked.cache);
    const users = Math.floor(Math.max(0, room) / user);
    return { card, kept, weights, room, user, users, tokens: longest(model, room, asked.cache) };
  };

  const number = (value, options) => new Intl.NumberFormat(language, { numberingSystem: "latn", ...options }).format(value);
  const size = (bytes) => {
    const [scale, unit] = Math.abs(bytes) < gib ? [mib, units.mib] : [gib, units.gib];
    return `${number(bytes / scale, { maximumSignificantDigits: 4 })}\u00a0${unit}`;
  };
  const verdict = (found) => {
    if (found.room < 0) return words.weights;
    return found.users === 0 ? words.cache : words.fits;
  };

  const show = () => {
    const valid = form.checkValidity();
    page.querySelector("dl").hidden = !valid;
    const said = page.querySelector("output");
    if (!valid) {
      said.textContent = words.invalid;
      return;
    }
    const asked = Object.fromEntries(["bits", "card", "cache", "context"].map((name) => [name, form[name].valueAsNumber]));
    const found = fit(models[form.model.selectedIndex], asked);
    Object.assign(page.dataset, { users: found.users, tokens: found.tokens, weights: found.weights, room: found.room });
    const rows = {
      weights: size(found.weights),
      reserve: size(found.kept),
      room: size(found.room),
      user: size(found.user),
      users: number(found.users),
      tokens: found.tokens === mostTokens ? words.endless : number(found.tokens),
    };
    for (const [name, text] of Object.entries(rows)) page.querySelector(`dd[data-row="${name}"]`).textContent = text;
    said.textContent = verdict(found);
  };

  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  page.hidden = false;
  show();
})();
