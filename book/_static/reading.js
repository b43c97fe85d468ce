// Figures can be enlarged and played, wide formulas are fitted, and Escape closes a preview.
(() => {
  "use strict";

  function button(kind, words) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = kind;
    made.textContent = words;
    return made;
  }

  // --- enlarging: one dialog for all figures; the browser gives it Escape and returns the focus ---

  let dialog;

  function makeDialog() {
    dialog = document.createElement("dialog");
    dialog.className = "mf-dialog";
    dialog.setAttribute("aria-label", "Figure, enlarged");
    const close = button("mf-close", "Close");
    const frame = document.createElement("div");
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", "The figure; arrow keys scroll it");
    dialog.append(close, frame);
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    document.body.append(dialog);
  }

  function enlarge(picture) {
    if (!dialog) makeDialog();
    const large = new Image();
    large.src = picture.currentSrc || picture.src;
    large.alt = picture.alt;
    // at the width that it was drawn for, its text is as large as that of a caption
    const drawn = parseFloat(picture.style.width);
    large.style.width = `max(100%, ${drawn || large.naturalWidth / 2}px)`;
    dialog.querySelector("div").replaceChildren(large);
    dialog.showModal();
    dialog.querySelector("div").scrollTo(0, 0);
  }

  function enlargeable(picture) {
    if (picture.closest(".mf-explore, .mf-frames-all")) return;
    const link = picture.closest("a.image-reference"); // to the picture alone
    const open = button("mf-enlarge", "Enlarge");
    const frames = picture.closest("figure.mf-frames");
    open.setAttribute("aria-label", `Enlarge the figure: ${picture.alt.slice(0, 60)}`);
    open.addEventListener("click", () => enlarge(picture));
    (link ?? picture).addEventListener("click", (event) => {
      event.preventDefault();
      enlarge(picture);
    });
    let frame = link;
    if (!link) { // on a phone the picture is moved in its frame
      frame = Object.assign(document.createElement("div"), { className: "mf-scroll", tabIndex: 0 });
      picture.replaceWith(frame);
      frame.append(picture);
    }
    if (frames) {
      controls(frames).append(open);
      open.setAttribute("aria-label", `Enlarge the picture: ${frames.querySelector("input").ariaLabel}`);
    } else frame.after(open);
  }

  // --- playing: the slider moves by itself, until it is touched or at its end ---

  function controls(figure) {
    let row = figure.querySelector(":scope > .mf-controls");
    if (!row) {
      row = document.createElement("div");
      row.className = "mf-controls";
      figure.querySelector("label").after(row);
    }
    return row;
  }

  function playable(figure) {
    const slider = figure.querySelector("input[type=range]");
    const play = button("mf-play", "Play");
    let timer = 0;
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
    };
    const show = (value) => {
      slider.value = value;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    };
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (slider.value === slider.max) show(slider.min);
      play.textContent = "Pause";
      timer = setInterval(() => {
        show(Number(slider.value) + 1);
        if (slider.value === slider.max) stop();
      }, 1000);
    });
    for (const kind of ["pointerdown", "keydown"]) slider.addEventListener(kind, stop);
    play.setAttribute("aria-label", `Play: ${slider.ariaLabel}`);
    controls(figure).prepend(play);
  }

  // --- formulas wider than the text: down to seven tenths; what is wider still fades at its edge ---

  const LEAST = 0.7;
  const WIDE = ".katex, .output.text_html, .pst-scrollable-table-container, figure > a.image-reference, .mf-scroll";
  const BLOCK = "p, li, td, th, dd, figcaption, summary, div, section";

  const frameOf = (formula) => formula.closest(".katex-display") ?? formula;

  function edge(frame) {
    const rest = frame.scrollWidth - frame.clientWidth - frame.scrollLeft;
    return rest > 3 && frame.clientWidth > 0;
  }

  // What is read of all frames is read before anything is written: each change lays out the page anew.
  function fit(frames) {
    for (const frame of frames) {
      if (!frame.matches(".mf-small")) continue;
      frame.style.fontSize = "";
      frame.classList.remove("mf-small", "mf-wide");
      if (frame.matches(".katex")) frame.removeAttribute("tabindex");
    }
    const wide = frames.filter((frame) => /katex/.test(frame.className)).map((frame) => {
      if (frame.matches(".katex-display")) return [frame, frame.clientWidth, frame.scrollWidth];
      // a line can be broken between the parts of a formula
      const parts = [...frame.querySelectorAll(".base")].map((part) => part.getBoundingClientRect().width);
      return [frame, frame.closest(BLOCK).clientWidth, Math.max(...parts)];
    }).filter(([, room, needs]) => room && needs > room + 1);
    for (const [frame, room, needs] of wide) {
      const size = parseFloat(getComputedStyle(frame).fontSize);
      frame.style.fontSize = `${Math.max(room / needs - 0.01, LEAST) * size}px`;
      frame.classList.add("mf-small");
      frame.classList.toggle("mf-wide", frame.matches(".katex"));
    }
    // accessibility.js gives displays a tab stop
    for (const [frame] of wide)
      if (frame.matches(".katex") && frame.scrollWidth > frame.clientWidth + 1) frame.tabIndex = 0;
    const more = frames.map(edge);
    frames.forEach((frame, i) => frame.classList.toggle("mf-more", more[i]));
  }

  async function start() {
    document.querySelectorAll("article :is(.cell_output, figure) img").forEach(enlargeable);
    document.querySelectorAll("figure.mf-frames").forEach(playable);
    addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      for (const tip of document.querySelectorAll("[data-tippy-root]")) tip._tippy?.hide();
    });
    await document.fonts.ready;
    // by the block whose width decides; what is folded has none until it is opened
    const inside = new Map();
    const widths = new Map();
    for (const found of document.querySelectorAll(`article :is(${WIDE})`)) {
      const frame = frameOf(found);
      const block = frame.closest(`.katex-display, .output, .pst-scrollable-table-container, ${BLOCK}`);
      inside.set(block, [...(inside.get(block) ?? []), frame]);
      if (frame !== found || !found.matches(".katex"))
        frame.addEventListener("scroll", () => frame.classList.toggle("mf-more", edge(frame)), { passive: true });
    }
    const observer = new ResizeObserver((entries) => {
      const changed = entries.filter(({ target, contentRect }) => contentRect.width !== widths.get(target));
      for (const { target, contentRect } of changed) widths.set(target, contentRect.width);
      fit(changed.flatMap(({ target }) => inside.get(target)));
    });
    for (const block of inside.keys()) observer.observe(block);
    // a face of the formulas may come with what is opened, after its width has been taken
    document.fonts.addEventListener("loadingdone", () => {
      fit([...inside].flatMap(([block, frames]) => (widths.get(block) ? frames : [])));
    });
  }

  document.addEventListener("DOMContentLoaded", start);
})();
