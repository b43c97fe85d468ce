// Drawing and controls of the figures that compute in the page.
//
//   explore.register(name, (figure, parameters) => { ... })   what a figure's own file calls
//   explore.frames[name]                                      milliseconds of its last 120 frames
//   explore.number, explore.counts                            helpers
//
// On load each <div class="mf-explore" data-explore="name" data-parameters="{json}"> whose name is
// registered gets its live figure in place of the stored picture. A figure has panels (SVG, laid out
// in CSS pixels for every width), controls (native inputs), values, a player, and a text that says
// what is seen. Reset builds it again, so nothing can be forgotten. Colours are in explore.css.
(() => {
  "use strict";
  const builders = new Map(), figures = new Set(), frames = {}, canvas = document.createElement("canvas").getContext("2d");
  const STACK = 560, GAP = 18, SMALL = 12, KEPT = 120; // pixels, pixels, size of text, frames
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const clamp = (v, low, high) => Math.min(Math.max(v, low), high);
  const width = (text) => { canvas.font = `${SMALL}px sans-serif`; return canvas.measureText(text).width * 1.06; };
  let names = 0;

  function make(tag, attributes = {}, parent = null, text = "") {
    const drawn = /^(svg|g|path|rect|line|circle|text|tspan|clipPath)$/.test(tag);
    const node = drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== "") write(node, text);
    parent?.append(node);
    return node;
  }

  // Text with subscripts: "λ_c", "x_{10}".
  function write(node, text) {
    node.textContent = "";
    const drawn = node.namespaceURI.endsWith("svg");
    let low = false; // an SVG shift stays until it is taken back
    for (const piece of String(text).split(/(_(?:\{[^}]*\}|[^\s{]))/)) {
      if (piece === "") continue;
      const sub = piece[0] === "_" && piece.length > 1, plain = sub ? piece.slice(1).replace(/[{}]/g, "") : piece;
      if (!drawn) sub ? make("sub", {}, node).append(plain) : node.append(plain);
      else {
        const shift = sub === low ? 0 : sub ? 3 : -3;
        make("tspan", { dy: shift, ...(sub ? { class: "ex-sub" } : {}) }, node).append(plain);
        low = sub;
      }
    }
  }
  const bare = (text) => String(text).replace(/_\{([^}]*)\}|_(\S)/g, "$1$2"); // for screen readers

  // As the tables of the book print numbers.
  function number(x, digits = 3) {
    if (!Number.isFinite(x)) return Number.isNaN(x) ? "–" : x > 0 ? "∞" : "−∞";
    if (x <= 0) return x ? `−${number(-x, digits)}` : "0";
    const exponent = Math.floor(Math.log10(Math.abs(Number(x.toPrecision(digits)))));
    if (exponent >= -4 && exponent < Math.max(digits, 5)) return String(exponent >= digits ? Math.round(x) : Number(x.toPrecision(digits)));
    const [front, power] = x.toExponential(digits - 1).split("e");
    return `${Number(front)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  }
  const power = (k) => (k === 0 ? "1" : k === 1 ? "10" : "10" + String(k).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])));

  // How many of the values lie in each of equal bins.
  function counts(values, min, max, bins) {
    const found = new Float64Array(bins);
    for (const v of values) if (v >= min && v <= max) found[Math.min(bins - 1, Math.floor(((v - min) / (max - min)) * bins))]++;
    return found;
  }

  class Axis { // from values to pixels: linear, log, or names (0, 1, ... in the middle of their bands)
    constructor({ label = "", name, min = 0, max = 1, scale = "linear", names = null, format = number }) {
      Object.assign(this, { label, name: name ?? (label || "value").split(" (")[0], min, max, scale: names ? "linear" : scale, names, format });
      if (names) [this.min, this.max] = [-0.5, names.length - 0.5];
      this.low = 0; this.high = 1;
    }
    raw(v) { return this.scale === "log" ? Math.log10(Math.max(v, 1e-300)) : v; }
    part(v) { return (this.raw(v) - this.raw(this.min)) / (this.raw(this.max) - this.raw(this.min)); }
    value(part) { const u = this.raw(this.min) + part * (this.raw(this.max) - this.raw(this.min)); return this.scale === "log" ? 10 ** u : u; }
    at(v) { return this.low + this.part(v) * (this.high - this.low); }
    back(pixel) { return this.value(clamp((pixel - this.low) / (this.high - this.low), 0, 1)); }
    says(v) { return `${bare(this.name)} = ${this.names ? this.names[Math.round(v)] : this.format(v)}`; }
    ticks(most) {
      if (this.names) return this.names.map((text, i) => [i, text]);
      if (this.scale === "log") {
        const first = Math.ceil(Math.log10(this.min) - 1e-9), last = Math.floor(Math.log10(this.max) + 1e-9);
        if (last - first >= 1) {
          const step = Math.ceil((last - first + 1) / most), found = [];
          for (let k = first; k <= last; k++) if (k % step === 0) found.push([10 ** k, power(k)]);
          return found;
        }
      }
      const rough = (this.max - this.min) / most, unit = 10 ** Math.floor(Math.log10(rough));
      const step = unit * ([1, 2, 5].find((s) => s * unit >= rough) ?? 10), digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), found = [];
      for (let i = Math.ceil(this.min / step - 1e-9); i * step <= this.max + 1e-9 * step; i++) found.push([i * step, (i * step || 0).toFixed(digits).replace("-", "−")]);
      return found;
    }
  }

  const SHAPES = { // of size r about the origin
    circle: (r) => `m${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
    square: (r) => `m${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
    triangle: (r) => `m0,${-1.3 * r}l${1.2 * r},${2.1 * r}h${-2.4 * r}z`,
    diamond: (r) => `m0,${-1.4 * r}l${1.4 * r},${1.4 * r}l${-1.4 * r},${1.4 * r}l${-1.4 * r},${-1.4 * r}z`,
    cross: (r) => `m${-r},${-r}l${2 * r},${2 * r}m0,${-2 * r}l${-2 * r},${2 * r}`,
  };
  const SHAPE_OF = { second: "triangle", fluctuation: "square", sharpened: "diamond", bound: "diamond", leading: "cross", reference: "circle" };
  const fixed = (v) => clamp(v, -1e5, 1e5).toFixed(1);
  // The outline of a mark in pixels, from its data.
  const OUTLINE = {
    line({ x, y }, _, xs, ys) {
      let d = "", pen = "M";
      for (let i = 0; i < xs.length; i++) {
        if (!Number.isFinite(xs[i]) || !Number.isFinite(ys[i])) { pen = "M"; continue; }
        d += `${pen}${fixed(x.at(xs[i]))},${fixed(y.at(ys[i]))}`;
        pen = "L";
      }
      return d;
    },
    points({ x, y }, { size = 4, shape }, xs, ys, sizes) {
      let d = "";
      for (let i = 0; i < xs.length; i++) {
        const [u, v] = [x.part(xs[i]), y.part(ys[i])];
        if (u >= -1e-9 && u <= 1 + 1e-9 && v >= -1e-9 && v <= 1 + 1e-9) d += `M${fixed(x.at(xs[i]))},${fixed(y.at(ys[i]))}` + SHAPES[shape](sizes ? sizes[i] : size);
      }
      return d;
    },
    bars({ x, y }, { fill = 0.8 }, at, lengths) { // lying where the names are on the y axis
      const lying = Boolean(y.names), [along, across] = lying ? [y, x] : [x, y];
      const half = (fill / 2) * (at.length > 1 ? Math.abs(along.at(at[1]) - along.at(at[0])) : Math.abs(along.high - along.low) / (along.names ? 1 : 8));
      const foot = across.at(across.scale === "log" ? across.min : clamp(0, across.min, across.max));
      return Array.from(at, (place, i) => {
        const p = along.at(place), tip = clamp(across.at(lengths[i]), Math.min(across.low, across.high), Math.max(across.low, across.high));
        return lying ? `M${fixed(foot)},${fixed(p - half)}H${fixed(tip)}v${fixed(2 * half)}H${fixed(foot)}z` : `M${fixed(p - half)},${fixed(foot)}V${fixed(tip)}h${fixed(2 * half)}V${fixed(foot)}z`;
      }).join("");
    },
    band(panel, options, xs, low, high) {
      const there = OUTLINE.line(panel, options, xs, high), back = OUTLINE.line(panel, options, Array.from(xs).reverse(), Array.from(low).reverse());
      return there && `${there}${back.replace("M", "L")}z`;
    },
    rule({ x, y }, _, { x: u, y: v }) {
      return u !== undefined ? `M${fixed(x.at(u))},${y.low}V${y.high}` : v !== undefined ? `M${x.low},${fixed(y.at(v))}H${x.high}` : "";
    },
  };

  class Panel {
    constructor(figure, options) {
      const { title = "", x = {}, y = {}, read = "x", click = null } = options;
      Object.assign(this, { figure, options, read, click, x: new Axis(x), y: new Axis(y), marks: [], handles: [], clip: `ex-clip-${++names}` });
      this.svg = make("svg", { role: "group", "aria-label": bare(title || y.label || "panel") }, figure.panelBox);
      this.frame = make("g", { class: "ex-frame" }, this.svg);
      this.mask = make("rect", {}, make("clipPath", { id: this.clip }, this.svg));
      this.inside = make("g", { "clip-path": `url(#${this.clip})` }, this.svg);
      this.above = make("g", {}, this.svg);
      this.over = make("rect", { class: "ex-over", fill: "transparent" }, this.svg);
      this.held = make("g", {}, this.svg);
      this.cross = make("g", { class: "ex-cross", "aria-hidden": "true" }, this.svg);
      if (read || click) this.listen(title || y.label);
    }
    mark(kind, options = {}) {
      const role = options.role ?? "measured", own = { shape: SHAPE_OF[role] ?? "circle", ...options };
      const node = make("path", { class: `ex-${kind} ex-${role}${kind === "points" && own.shape === "cross" ? " ex-open" : ""}` }, kind === "points" ? this.above : this.inside);
      if (own.dash) node.style.strokeDasharray = own.dash;
      const render = () => { if (mark.data) node.setAttribute("d", OUTLINE[kind](this, own, ...mark.data)); };
      const mark = { kind, role, ...own, node, render, data: null, set(...data) { mark.data = data; render(); } };
      this.marks.push(mark);
      this.figure.explain(mark);
      return mark;
    }
    line(options) { return this.mark("line", options); }       // set(xs, ys); NaN breaks it
    points(options) { return this.mark("points", options); }   // set(xs, ys, sizes?)
    bars(options) { return this.mark("bars", options); }       // set(places, lengths)
    band(options) { return this.mark("band", options); }       // set(xs, low, high)
    rule(options) { return this.mark("rule", options); }       // set({x}) or set({y})
    text({ role = "reference", anchor = "start" } = {}) {      // set(x, y, words)
      const node = make("text", { class: `ex-words ex-${role}`, "text-anchor": anchor }, this.above);
      const mark = { kind: "text", data: null, set(...data) { mark.data = data; mark.render(); }, render: () => {
        if (!mark.data) return;
        const [u, v, words] = mark.data, half = width(bare(words)), [left, right] = { start: [0, half], middle: [half / 2, half / 2], end: [half, 0] }[anchor];
        node.setAttribute("x", clamp(this.x.at(u), this.x.low + left, Math.max(this.x.low + left, this.x.high - right)));
        node.setAttribute("y", clamp(this.y.at(v), this.y.high + SMALL, this.y.low - 4));
        write(node, words);
      } };
      this.marks.push(mark);
      return mark;
    }
    // set(values, columns, rows): row 0 below; equal neighbours of a row become one rectangle.
    // colours "sequential" or "diverging" with min and max, or kinds: [[name, role], ...] for 0, 1, ...
    heat({ colours = "sequential", levels = 11, min = 0, max = 1, kinds = null, label = "" } = {}) {
      const count = kinds ? kinds.length : levels, group = make("g", {}, this.inside);
      this.inside.prepend(group);
      const looks = Array.from({ length: count }, (_, k) => (kinds ? `ex-kind ex-${kinds[k][1]}` : `ex-heat ex-${colours === "diverging" ? (2 * k < count ? "low" : "high") : "high"}`));
      const strength = (k) => (kinds ? 0.18 + 0.5 * (k / count) : colours === "diverging" ? Math.abs((2 * k) / (count - 1) - 1) : 0.04 + (0.92 * k) / (count - 1));
      const paths = looks.map((look, k) => make("path", { class: look, style: `fill-opacity:${strength(k).toFixed(3)}` }, group));
      const heat = { kind: "heat", min, max, data: null, set(...data) { heat.data = data; heat.render(); }, render: () => {
        if (!heat.data) return;
        const [values, columns, rows] = heat.data, { x, y } = this, w = (x.high - x.low) / columns, h = (y.low - y.high) / rows, d = new Array(count).fill("");
        const level = (v) => (kinds ? v : clamp(Math.floor(((v - heat.min) / (heat.max - heat.min)) * count), 0, count - 1));
        for (let r = 0; r < rows; r++) for (let c = 0, from = 0; c < columns; c = from) {
          const k = level(values[r * columns + c]);
          for (from = c + 1; from < columns && level(values[r * columns + from]) === k; from++);
          if (d[k] !== undefined) d[k] += `M${fixed(x.low + c * w)},${fixed(y.low - (r + 1) * h)}h${fixed((from - c) * w + 0.3)}v${fixed(h + 0.3)}H${fixed(x.low + c * w)}z`;
        }
        paths.forEach((path, k) => path.setAttribute("d", d[k]));
      } };
      this.marks.push(heat);
      if (kinds) kinds.forEach(([name], k) => this.figure.explain({ kind: "heat", role: looks[k], label: name, opacity: strength(k) }));
      else if (label) [0, 0.5, 1].forEach((part) => { const k = Math.round(part * (count - 1));
        this.figure.explain({ kind: "heat", role: looks[k], opacity: strength(k), label: `${label} ${number(min + part * (max - min))}` }); });
      return heat;
    }
    range(axis, min, max) { if (this[axis].min !== min || this[axis].max !== max) { Object.assign(this[axis], { min, max }); this.layout(this.width, this.inner); } }

    // A point that is dragged, or moved by the arrow keys; those of one group share a tab stop
    // (Page up and down go through them). Options: label, x, y, text, constrain, move, remove, step.
    handle({ label = "point", role = "bound", x = 0, y = 0, text, constrain = (u, v) => [u, v], move, remove, group = null, step = 0.01, size = 8 }) {
      const friends = group ? this.handles.filter((h) => h.group === group) : [];
      const node = make("g", { class: `ex-handle ex-${role}`, tabindex: friends.length ? -1 : 0, role: "slider", "aria-label": bare(label) + (remove ? ", Delete removes it" : "") }, this.held);
      make("circle", { class: "ex-hit", r: 20 }, node);
      const dot = make("circle", { class: "ex-dot", r: size }, node);
      const handle = { node, group, x, y, render: () => {
        node.setAttribute("transform", `translate(${fixed(clamp(this.x.at(handle.x), this.x.low, this.x.high))},${fixed(clamp(this.y.at(handle.y), this.y.high, this.y.low))})`);
        for (const [key, value] of Object.entries({ min: this.x.min, max: this.x.max, now: handle.x })) node.setAttribute(`aria-value${key}`, Number(value.toPrecision(4)));
        node.setAttribute("aria-valuetext", text ? text(handle.x, handle.y) : `${this.x.says(handle.x)}, ${this.y.says(handle.y)}`);
      }, set: (u, v) => { handle.x = u; handle.y = v; handle.render(); }, size: (r) => dot.setAttribute("r", r), remove: () => {
        this.handles = this.handles.filter((h) => h !== handle);
        const next = group && this.handles.find((h) => h.group === group), held = node.contains(document.activeElement);
        node.remove();
        if (next && !this.handles.some((h) => h.group === group && h.node.tabIndex === 0)) next.node.setAttribute("tabindex", 0);
        if (held) (next ? next.node : this.figure.resetButton).focus();
      } };
      const go = (u, v) => { handle.set(...constrain(clamp(u, this.x.min, this.x.max), clamp(v, this.y.min, this.y.max))); move?.(handle.x, handle.y); this.figure.changed(); };
      const drag = (event) => { if (node.hasPointerCapture(event.pointerId)) go(...this.place(event)); };
      node.addEventListener("pointerdown", (event) => { node.setPointerCapture(event.pointerId); node.focus(); event.preventDefault(); });
      node.addEventListener("pointermove", drag);
      node.addEventListener("keydown", (event) => {
        const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key], far = event.shiftKey ? 10 : 1;
        if (way) go(this.x.value(this.x.part(handle.x) + way[0] * step * far), this.y.value(this.y.part(handle.y) + way[1] * step * far));
        else if (remove && /^(Delete|Backspace)$/.test(event.key)) { remove(handle); this.figure.changed(); }
        else if (group && /^Page/.test(event.key)) {
          const all = this.handles.filter((h) => h.group === group), next = all[(all.indexOf(handle) + (event.key === "PageDown" ? 1 : all.length - 1)) % all.length];
          node.setAttribute("tabindex", -1); next.node.setAttribute("tabindex", 0); next.node.focus();
        } else return;
        event.preventDefault();
      });
      this.handles.push(handle);
      if (this.width) handle.render();
      return handle;
    }
    place(event) {
      const box = this.svg.getBoundingClientRect(), scale = this.width / box.width;
      return [this.x.back((event.clientX - box.left) * scale), this.y.back((event.clientY - box.top) * scale)];
    }
    listen(title) {
      const { over } = this, flat = this.read === "x" && !this.click;
      for (const [key, value] of Object.entries({ tabindex: 0, role: "slider", "aria-label": `Read values: ${bare(title)}`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 50 })) over.setAttribute(key, value);
      this.spot = [0.5, 0.5];
      const hide = () => { this.shown = false; this.cross.replaceChildren(); };
      const show = () => { this.shown = true; this.point(); };
      over.addEventListener("pointermove", (event) => { const [u, v] = this.place(event); this.spot = [this.x.part(u), this.y.part(v)]; show(); });
      over.addEventListener("pointerdown", (event) => { const [u, v] = this.place(event); this.spot = [this.x.part(u), this.y.part(v)]; show(); if (this.click) { this.click(u, v); this.figure.changed(); } });
      over.addEventListener("pointerleave", hide);
      over.addEventListener("focus", () => { if (over.matches(":focus-visible")) show(); });
      over.addEventListener("blur", hide);
      over.addEventListener("keydown", (event) => {
        const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ...(flat ? {} : { ArrowUp: [0, 1], ArrowDown: [0, -1] }) }[event.key];
        if (way) this.spot = this.spot.map((part, i) => clamp(part + way[i] * (event.shiftKey ? 0.1 : 0.02), 0, 1));
        else if (this.click && /^(Enter| )$/.test(event.key)) { this.click(this.x.value(this.spot[0]), this.y.value(this.spot[1])); this.figure.changed(); }
        else return;
        event.preventDefault();
        show();
      });
    }
    // What stands at the cross: read is "x" (every labelled line there), "nearest" (the nearest
    // point of a labelled mark), or a function of x and y that gives lines of text.
    values() {
      const [u, v] = [this.x.value(this.spot[0]), this.y.value(this.spot[1])];
      if (typeof this.read === "function") return { at: [u, v], lines: [].concat(this.read(u, v) ?? []) };
      const marks = this.marks.filter((m) => m.label && m.data && m.hover !== false && /line|points|bars/.test(m.kind)), lying = Boolean(this.y.names);
      let best = null;
      for (const mark of marks) {
        const [xs, ys] = lying && mark.kind === "bars" ? [mark.data[1], mark.data[0]] : mark.data;
        let found = null;
        for (let i = 0; i < xs.length; i++) {
          const dx = (this.x.part(xs[i]) - this.spot[0]) * this.inner.width, dy = (this.y.part(ys[i]) - this.spot[1]) * this.inner.height;
          const distance = this.read === "x" ? Math.abs(lying ? dy : dx) : Math.hypot(dx, dy);
          if (Number.isFinite(distance) && (!found || distance < found.distance)) found = { distance, x: xs[i], y: ys[i], mark };
        }
        if (found) mark.near = found;
        if (found && (!best || found.distance < best.distance)) best = found;
      }
      if (!best) return { at: [u, v], lines: [] };
      const value = (near) => `${bare(near.mark.label)}: ${(lying ? this.x : this.y).format(lying ? near.x : near.y)}`;
      if (this.read !== "x") return { at: [best.x, best.y], lines: [bare(best.mark.label), this.x.says(best.x), this.y.says(best.y)] };
      const near = marks.map((m) => m.near).filter((n) => n && Math.abs(n.distance - best.distance) < 12);
      return { at: [best.x, best.y], lines: [lying ? this.y.says(best.y) : this.x.says(best.x), ...near.map(value)] };
    }
    point() {
      const { at, lines } = this.values(), [u, v] = [this.x.at(at[0]), this.y.at(at[1])];
      this.cross.replaceChildren();
      this.over.setAttribute("aria-valuenow", Math.round(100 * this.spot[0]));
      this.over.setAttribute("aria-valuetext", lines.map(bare).join(", ") || "nothing here");
      make("path", { d: `M${fixed(u)},${this.y.low}V${this.y.high}` + (this.read === "x" ? "" : `M${this.x.low},${fixed(v)}H${this.x.high}`) }, this.cross);
      if (!lines.length) return;
      const wide = Math.max(...lines.map((line) => width(bare(line)))) + 12, high = 16 * lines.length + 6;
      const left = clamp(u + 10 + wide > this.x.high ? u - 10 - wide : u + 10, 1, Math.max(1, this.width - wide - 1)), top = clamp(v - high - 8, this.y.high, Math.max(this.y.high, this.y.low - high));
      make("rect", { x: left, y: top, width: wide, height: high, rx: 3 }, this.cross);
      lines.forEach((line, i) => make("text", { x: left + 6, y: top + 16 + 16 * i }, this.cross, line));
    }
    height(wide, most) { // of the plot, as it would like it
      const { x, y, options } = this, m = this.margins();
      const inner = wide - m.left - m.right;
      if (!options.equal) return { width: inner, height: clamp(inner * (options.ratio ?? 0.72), 170, most) };
      const ratio = (y.max - y.min) / (x.max - x.min), w = Math.min(inner, most / ratio);
      return { width: w, height: w * ratio };
    }
    margins() {
      const { x, y, options } = this, labels = y.ticks(6).map(([, text]) => width(text));
      return { left: Math.max(14, ...labels.map((w) => w + 10)), right: 16, top: (options.title ? 22 : 4) + (y.label ? 20 : 6), bottom: 22 + (x.label ? 18 : 0) };
    }
    layout(wide, inner) {
      const { x, y, options, svg } = this, m = this.margins(), high = inner.height + m.top + m.bottom;
      Object.assign(this, { width: wide, inner });
      [x.low, x.high, y.low, y.high] = [m.left, m.left + inner.width, m.top + inner.height, m.top];
      for (const [key, value] of Object.entries({ width: wide, height: high, viewBox: `0 0 ${wide} ${high}` })) svg.setAttribute(key, value);
      for (const box of [this.mask, this.over]) for (const [key, value] of Object.entries({ x: x.low, y: y.high, width: inner.width, height: inner.height })) box.setAttribute(key, value);
      this.frame.replaceChildren();
      const add = (tag, attributes, text) => make(tag, attributes, this.frame, text);
      const across = x.ticks(Math.max(2, Math.floor(inner.width / (x.names ? 1 : 58)))), up = y.ticks(Math.max(2, Math.floor(inner.height / 34)));
      add("path", { class: "ex-grid", d: (x.names ? "" : across.map(([v]) => `M${fixed(x.at(v))},${y.low}V${y.high}`).join("")) + (y.names ? "" : up.map(([v]) => `M${x.low},${fixed(y.at(v))}H${x.high}`).join("")) });
      add("path", { class: "ex-axes", d: `M${x.low},${y.high}V${y.low}H${x.high}` });
      for (const [v, text] of across) add("text", { x: clamp(x.at(v), width(text) / 2, wide - width(text) / 2), y: y.low + 16, "text-anchor": "middle" }, text);
      for (const [v, text] of up) add("text", { x: x.low - 6, y: y.at(v) + 4, "text-anchor": "end" }, text);
      if (x.label) add("text", { x: x.high, y: y.low + 34, "text-anchor": "end", class: "ex-label" }, x.label);
      if (y.label) add("text", { x: 1, y: m.top - 8, class: "ex-label" }, y.label);
      if (options.title) add("text", { x: 1, y: 15, class: "ex-title" }, options.title);
      for (const mark of [...this.marks, ...this.handles]) mark.render();
      if (this.shown) this.point();
    }
  }

  class Figure {
    constructor(root, name) {
      Object.assign(this, { root, name, panels: [], columns: 3, says: null, compute: null, dirty: false, moving: null, seen: true, told: -1000, keys: new Set() });
      this.live = make("div", { class: "mf-explore-live", role: "group", "aria-label": "Interactive figure" });
      [this.controls, this.panelBox, this.legend, this.valueBox, this.playBox] = ["controls", "panels", "legend", "values", "play"].map((part) => make("div", { class: `mf-explore-${part}` }, this.live));
      this.text = make("div", { class: "mf-explore-says", "aria-live": "polite" }, this.live);
      this.resetButton = make("button", { type: "button" }, this.playBox, "Reset");
      this.resetButton.onclick = () => start(this.root, this);
      this.larger = make("button", { type: "button", class: "mf-explore-larger" }, this.playBox, "Enlarge");
      this.larger.onclick = () => this.enlarge();
      this.sizes = new ResizeObserver(() => this.layout());
      this.sight = new IntersectionObserver(([entry]) => { this.seen = entry.isIntersecting; request(); });
    }
    begin() {
      figures.add(this);
      this.layout();
      this.sizes.observe(this.panelBox);
      this.sight.observe(this.live);
      this.frame(performance.now());
    }
    end() { figures.delete(this); this.sizes.disconnect(); this.sight.disconnect(); clearTimeout(this.telling); }
    layout() {
      const all = this.panelBox.clientWidth, columns = all < STACK ? 1 : Math.min(this.columns, this.panels.length);
      const most = this.live.closest("dialog") ? Math.max(260, innerHeight * 0.55) : 400;
      if (!all || all === this.laid + most) return;
      this.laid = all - most; // nothing to do while the width stays
      for (let i = 0; i < this.panels.length; i += columns) {
        const row = this.panels.slice(i, i + columns), weight = row.reduce((sum, p) => sum + (p.options.weight ?? 1), 0);
        const wide = row.map((p) => Math.floor(((all - GAP * (row.length - 1)) * (p.options.weight ?? 1)) / weight));
        const inner = row.map((p, k) => p.height(wide[k], most)), fixed = row.findIndex((p) => p.options.equal);
        const high = fixed >= 0 ? inner[fixed].height : Math.max(...inner.map((box) => box.height));
        row.forEach((p, k) => p.layout(wide[k], columns > 1 && !p.options.equal ? { ...inner[k], height: high } : inner[k]));
      }
    }
    panel(options) { const panel = new Panel(this, options); this.panels.push(panel); return panel; }
    update(compute) { this.compute = compute; this.changed(); } // called once a frame after a change
    changed() { this.dirty = true; request(); }
    frame(now) {
      if (this.moving && this.seen && !document.hidden) this.moving(now);
      if (!this.dirty || !this.compute) return;
      this.dirty = false;
      const began = performance.now(), list = (frames[this.name] ??= []);
      try { this.compute(); } catch (error) { return fail(this.root, this, error); }
      for (const p of this.panels) if (p.shown) p.point();
      list.push(performance.now() - began);
      if (list.length > KEPT) list.shift();
      if (this.says && !this.telling) this.telling = setTimeout(() => this.tell(), Math.max(0, this.told + 1000 - now));
    }
    tell() { this.telling = null; this.told = performance.now(); const words = this.says(); if (words !== this.text.textContent) this.text.textContent = words; }
    explain({ kind, role, label, legend = true, shape, dash, opacity }) {
      const key = `${kind} ${role} ${label}`;
      if (!label || !legend || kind === "text" || this.keys.has(key)) return;
      this.keys.add(key);
      const item = make("span", {}, this.legend), box = make("svg", { width: 28, height: 14, viewBox: "0 0 28 14", "aria-hidden": "true" }, item);
      const d = { line: "M1,7H27", rule: "M1,7H27", points: `M14,7${SHAPES[shape ?? "circle"](4)}`, bars: "M5,2H23V13H5z", band: "M1,2H27V12H1z", heat: "M5,2H23V13H5z" }[kind];
      const style = (dash ? `stroke-dasharray:${dash};` : "") + (opacity === undefined ? "" : `fill-opacity:${opacity}`);
      make("path", { class: kind === "heat" ? role : `ex-${kind} ex-${role}${shape === "cross" && kind === "points" ? " ex-open" : ""}`, d, style }, box);
      write(make("span", {}, item), label);
    }
    value(label) { // set(text or number)
      const item = make("span", {}, this.valueBox), shown = (make("b", {}, item, label), item.append(" "), make("output", { "aria-live": "off" }, item));
      return { set(v) { const text = typeof v === "number" ? number(v) : v; if (shown.textContent !== text) shown.textContent = text; } };
    }

    // Controls. Each has a value that can be set, and calls change(value) when a reader moves it.
    control(tag, attributes, { label, change }, read, show) {
      const box = make("label", { class: `mf-explore-${attributes.type ?? tag}` }, this.controls);
      write(make("span", {}, box), label);
      const input = make(tag, attributes, box), figure = this;
      const control = { input, box, get value() { return read(input); }, set value(v) { show(input, v); figure.changed(); } };
      input.addEventListener("input", () => { show(input, read(input)); change?.(read(input)); this.changed(); });
      return control;
    }
    slider(options) {
      const { min, max, value, log = false, step = null, format = number } = options, axis = new Axis({ min, max, scale: log ? "log" : "linear" });
      let exact = value; // what the input holds is rounded to its steps
      const steps = step && !log ? { min, max, step } : { min: 0, max: 1, step: 0.001 }, plain = Boolean(step && !log);
      const read = (input) => { const v = plain ? Number(input.value) : axis.value(Number(input.value)), held = plain ? exact : axis.value(Math.round(axis.part(exact) * 1000) / 1000); return Math.abs(v - held) <= 1e-9 * Math.abs(v) ? exact : v; };
      const show = (input, v) => { exact = clamp(v, min, max); input.value = plain ? exact : axis.part(exact); const text = bare(format(exact)); input.setAttribute("aria-valuetext", text); output.textContent = text; };
      const output = make("output", { "aria-live": "off" });
      const control = this.control("input", { type: "range", ...steps }, options, read, show);
      control.box.append(output);
      Object.defineProperty(control, "part", { get: () => axis.part(exact), set: (p) => { control.value = axis.value(clamp(p, 0, 1)); } });
      show(control.input, value);
      return control;
    }
    field(options) { // a number that is typed; what is none, or out of range, changes nothing
      let last = options.value;
      const fits = (v) => Number.isFinite(v) && v >= (options.min ?? -Infinity) && v <= (options.max ?? Infinity);
      const read = (input) => { const v = input.value.trim() === "" ? NaN : Number(input.value); input.setAttribute("aria-invalid", !fits(v)); return fits(v) ? (last = v) : last; };
      const control = this.control("input", { type: "text", inputmode: "decimal", size: 8, value: options.value }, options, read, (input, v) => { if (document.activeElement !== input) input.value = v; });
      return control;
    }
    select(options) { // options: [[value, words], ...]
      const control = this.control("select", {}, options, (input) => options.options[input.selectedIndex][0], (input, v) => { input.selectedIndex = options.options.findIndex(([key]) => key === v); });
      for (const [, words] of options.options) make("option", {}, control.input).append(words);
      control.input.selectedIndex = Math.max(0, options.options.findIndex(([key]) => key === options.value));
      return control;
    }
    checkbox(options) { return this.control("input", { type: "checkbox", ...(options.value ? { checked: "" } : {}) }, options, (input) => input.checked, (input, v) => { input.checked = v; }); }
    button(label, action) { const node = make("button", { type: "button" }, this.controls, label); node.onclick = () => { action(); this.changed(); }; return node; }

    // Play, pause and step. With a slider it runs over its range in so many seconds; else advance(dt)
    // is called with the seconds that have passed, until it returns false. With reduced motion it
    // goes in five still steps, a second apart.
    player({ slider = null, seconds = 8, advance = null, step = null }) {
      const go = (dt) => { if (slider) slider.part += dt / seconds; this.changed(); return slider ? slider.part < 1 - 1e-9 : advance(dt) !== false; };
      const [play, one] = ["Play", "Step"].map((words) => make("button", { type: "button" }, null, words));
      this.playBox.prepend(play, one);
      const pause = () => { this.moving = null; play.textContent = "Play"; };
      play.onclick = () => {
        if (this.moving) return pause();
        let last = null, left = 5;
        if (slider && slider.part >= 1 - 1e-9) slider.part = 0;
        play.textContent = "Pause";
        this.moving = (now) => {
          if (!still()) { const dt = last === null ? 0 : Math.min((now - last) / 1000, 0.1); last = now; if (!go(dt)) pause(); return; }
          if (last !== null && now - last < 1000) return;
          last = now;
          if (!go(seconds / 5) || --left === 0) pause();
        };
        request();
      };
      one.onclick = () => { pause(); go(step ?? seconds / 40); };
      return { pause, get playing() { return play.textContent === "Pause"; } };
    }
    enlarge() {
      const open = this.live.closest("dialog");
      if (open) return open.close();
      const dialog = make("dialog", { class: "mf-explore-dialog", "aria-label": "Enlarged figure" }, document.body);
      dialog.addEventListener("close", () => {
        const live = dialog.firstElementChild, button = live?.querySelector(".mf-explore-larger");
        if (live) { this.root.append(live); button.textContent = "Enlarge"; button.focus(); }
        dialog.remove();
      });
      dialog.append(this.live);
      this.larger.textContent = "Close";
      dialog.showModal();
    }
  }

  let asked = false;
  const busy = (f) => f.dirty || (f.moving && f.seen && !document.hidden);
  function request() {
    if (asked || ![...figures].some(busy)) return;
    asked = true;
    requestAnimationFrame((now) => { asked = false; for (const f of figures) f.frame(now); request(); });
  }
  function fail(root, figure, error) { // the stored picture returns
    figure.end();
    figure.live.closest("dialog")?.close();
    figure.live.remove();
    root.querySelector("img").hidden = false;
    console.error(`explore: ${figure.name}:`, error);
  }
  function start(root, before = null) {
    const name = root.dataset.explore, figure = new Figure(root, name);
    before?.end();
    try {
      before ? before.live.replaceWith(figure.live) : root.append(figure.live);
      if (figure.live.closest("dialog")) figure.larger.textContent = "Close";
      builders.get(name)(figure, JSON.parse(root.dataset.parameters || "{}"));
      root.querySelector("img").hidden = true;
      figure.begin();
      if (before) figure.resetButton.focus();
    } catch (error) { fail(root, figure, error); }
  }
  const begin = () => { for (const root of document.querySelectorAll(".mf-explore")) if (builders.has(root.dataset.explore)) start(root); };
  document.readyState === "complete" ? setTimeout(begin) : addEventListener("DOMContentLoaded", begin);
  document.addEventListener("visibilitychange", request);
  window.explore = { register: (name, build) => builders.set(name, build), frames, number, counts };
})();
