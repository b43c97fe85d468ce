// Formulas and pictures are laid out after the browser has gone to an anchor, and move it away. Until
// the reader acts, stay there.
addEventListener("DOMContentLoaded", () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const article = document.querySelector("article");
  if (!target || !article) return;
  const stay = new ResizeObserver(() => target.scrollIntoView({ behavior: "instant" }));
  stay.observe(article);
  for (const kind of ["wheel", "touchstart", "keydown", "pointerdown", "hashchange"])
    addEventListener(kind, () => stay.disconnect(), { once: true, passive: true });
});
