// For the keyboard and for screen readers; and for reading from disk.
(() => {
  "use strict";

  // The search quotes pages that it fetches, which a browser forbids for files.
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

  // What is wider than its frame gets a tab stop, so that arrow keys can scroll it. (The theme does
  // this for code, late, when the window has another size.)
  const frames =
    "pre, .math, .katex-display, .output, .pst-scrollable-table-container, article p";

  function update(frame) {
    const scrolls =
      frame.scrollWidth > frame.clientWidth &&
      ["auto", "scroll"].includes(getComputedStyle(frame).overflowX);
    if (scrolls && frame.tabIndex < 0) {
      frame.tabIndex = 0;
      frame.dataset.scrolls = "";
    } else if (!scrolls && "scrolls" in frame.dataset) {
      frame.removeAttribute("tabindex");
      delete frame.dataset.scrolls;
    }
  }

  // A link that consists of a formula has no name: browsers give MathML none. Its letters are one.
  function name(link) {
    const words = link.cloneNode(true);
    words.querySelectorAll(".katex").forEach((formula) => formula.remove());
    if (words.textContent.trim() || link.hasAttribute("aria-label")) return;
    const letters = [...link.querySelectorAll("math")].map((math) => math.textContent);
    link.setAttribute("aria-label", letters.join(" "));
  }

  async function start() {
    // the arrow beside a chapter in the sidebar: what it opens
    for (const arrow of document.querySelectorAll(".bd-sidebar .toctree-toggle")) {
      arrow.removeAttribute("role");
      const chapter = arrow.closest("li").querySelector("a").textContent.trim();
      arrow.parentElement.setAttribute("aria-label", `Pages of ${chapter}`);
    }
    document.querySelectorAll("a:has(.katex)").forEach(name);
    await document.fonts.ready;
    // frames change with the window and when a box is opened; what is in them, with its fonts
    const observer = new ResizeObserver((entries) => {
      new Set(entries.map((entry) => entry.target.closest(frames))).forEach(update);
    });
    for (const frame of document.querySelectorAll(frames)) {
      observer.observe(frame);
      if (frame.matches(".katex-display")) observer.observe(frame.firstElementChild);
    }
  }

  document.addEventListener("DOMContentLoaded", start);
})();
