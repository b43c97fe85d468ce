// Drawing and controls of the figures that compute in the page. A figure's own file calls explore.register(name, build) with
// build(figure, parameters); explore.frames[name] are the milliseconds of its last 120 frames; explore.number prints as the book.
// On load each <div class="mf-explore" data-explore="name" data-parameters="{json}"> whose name is registered gets its
// live figure in place of the stored picture. A figure has panels (SVG, laid out in CSS pixels for every width), marks and
// handles in them, each with its legend below, controls (native inputs), values, a player, presets, and a text that says
// what is seen. Reset builds the figure again, so that nothing is forgotten. Colours, dashes and sizes of text are in explore.css.
(() => {
  "use strict";
  const builders = new Map(), figures = new Set(), frames = {}, canvas = document.createElement("canvas").getContext("2d");
  const STACK = 560, GAP = 18, SMALL = 12, KEPT = 120; // panels stack below; between them; text; frames kept
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const clamp = (v, low, high) => Math.min(Math.max(v, low), high);
  const fixed = (v) => clamp(v, -1e5, 1e5).toFixed(1);
  const wide = (text) => { canvas.font = `${SMALL}px sans-serif`; return canvas.measureText(bare(text)).width * 1.06; };
  const bare = (text) => String(text).replace(/_\{([^}]*)\}|_(\S)/g, "$1$2"); // without marks of subscripts
  const set = (node, attributes) => { for (const key in attributes) node.setAttribute(key, attributes[key]); return node; };
  let clips = 0;

  function make(tag, attributes = {}, parent = null, text = "") {
    const drawn = /^(svg|g|path|rect|circle|text|tspan|clipPath)$/.test(tag);
    const node = set(drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag), attributes);
    if (text !== "") write(node, text);
    parent?.append(node);
    return node;
  }
  function write(node, text) { // with subscripts: "λ_c", "x_{10}"
    node.textContent = "";
    const drawn = node.namespaceURI.endsWith("svg"), pieces = String(text).split(/_\{([^}]*)\}|_([^\s{])/).map((piece, i) => [piece, i % 3 > 0]);
    let low = false; // in SVG a shift stays until it is taken back
    for (const [piece, sub] of pieces) if (piece) {
      if (drawn) make("tspan", { dy: sub === low ? 0 : sub ? 3 : -3, class: sub ? "ex-sub" : "" }, node).append(piece);
      else (sub ? make("sub", {}, node) : node).append(piece);
      low = sub;
    }
  }
  function number(x, digits = 3) {
    if (!Number.isFinite(x)) return Number.isNaN(x) ? "–" : x > 0 ? "∞" : "−∞";
    if (x <= 0) return x ? `−${number(-x, digits)}` : "0";
    const [front, power] = x.toExponential(digits - 1).split("e");
    if (power >= -4 && power < Math.max(digits, 5)) return String(power >= digits ? Math.round(x) : Number(x.toPrecision(digits)));
    return `${Number(front)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  }
  const tenTo = (k) => k === 0 ? "1" : k === 1 ? "10" : "10" + String(k).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
  const counts = (values, min, max, bins) => values.reduce((found, v) => { // how many lie in each of equal bins
    if (v >= min && v <= max) found[Math.min(bins - 1, Math.floor((v - min) / (max - min) * bins))]++;
    return found;
  }, new Float64Array(bins));

  class Axis { // from values to pixels: linear, log, soft (linear near 0, then log), or names (0, 1, ... in the middle of their bands)
    constructor({ label = "", name = label.split(" (")[0] || "value", min = 0, max = 1, scale = "linear", names = null, format = number }) {
      Object.assign(this, { label, name, min, max, log: scale === "log" && !names, soft: scale === "soft", names, format, low: 0, high: 1 });
      if (names) [this.min, this.max] = [-0.5, names.length - 0.5];
    }
    raw(v) { return this.soft ? Math.asinh(2 * v) : this.log ? Math.log10(Math.max(v, 1e-300)) : v; }
    part(v) { return (this.raw(v) - this.raw(this.min)) / (this.raw(this.max) - this.raw(this.min)); }
    value(part) { const u = this.raw(this.min) + part * (this.raw(this.max) - this.raw(this.min)); return this.soft ? Math.sinh(u) / 2 : this.log ? 10 ** u : u; }
    at(v) { return this.low + this.part(v) * (this.high - this.low); }
    back(pixel) { return this.value(clamp((pixel - this.low) / (this.high - this.low), 0, 1)); }
    says(v) { return `${bare(this.name)} = ${this.names ? this.names[Math.round(v)] : this.format(v)}`; }
    ticks(most) {
      if (this.names) return this.names.map((text, i) => [i, text]);
      if (this.soft) return [-100, -10, -1, 0, 1, 10, 100].filter((v) => v >= this.min && v <= this.max).map((v) => [v, number(v)]);
      const { min, max } = this, first = Math.ceil(this.raw(min) - 1e-9), last = Math.floor(this.raw(max) + 1e-9);
      const up = (from, to, tick) => Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => tick(from + i));
      if (this.log && last > first) {
        const step = Math.ceil((last - first + 1) / most);
        return up(Math.ceil(first / step), Math.floor(last / step), (k) => [10 ** (k * step), tenTo(k * step)]);
      }
      const rough = (max - min) / most, unit = 10 ** Math.floor(Math.log10(rough)), step = unit * ([1, 2, 5].find((m) => m * unit >= rough) ?? 10);
      const text = (v) => v.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9))).replace("-", "−");
      return up(Math.ceil(min / step - 1e-9), Math.floor(max / step + 1e-9), (i) => [i * step, text(i * step || 0)]);
    }
  }

  const SHAPES = { // of size r about the origin
    circle: (r) => `m${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
    square: (r) => `m${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
    triangle: (r) => `m0,${-1.3 * r}l${1.2 * r},${2.1 * r}h${-2.4 * r}z`,
    diamond: (r) => `m0,${-1.4 * r}l${1.4 * r},${1.4 * r}l${-1.4 * r},${1.4 * r}l${-1.4 * r},${-1.4 * r}z`,
    cross: (r) => `m${-r},${-r}l${2 * r},${2 * r}m0,${-2 * r}l${-2 * r},${2 * r}`,
  };
  const SHAPE_OF = { second: "triangle", fluctuation: "square", sharpened: "diamond", bound: "diamond", leading: "cross" };
  const OUTLINE = { // of a mark in pixels, from its data
    line({ x, y }, _, xs, ys) {
      let d = "", pen = "M";
      for (let i = 0; i < xs.length; i++) {
        const seen = Number.isFinite(xs[i]) && Number.isFinite(ys[i]);
        if (seen) d += `${pen}${fixed(x.at(xs[i]))},${fixed(y.at(ys[i]))}`;
        pen = seen ? "L" : "M";
      }
      return d;
    },
    points({ x, y }, { size = 4, shape }, xs, ys, sizes) {
      const inside = (u, v) => Math.max(Math.abs(x.part(u) - 0.5), Math.abs(y.part(v) - 0.5)) < 0.5 + 1e-9;
      return Array.from(xs, (u, i) => (inside(u, ys[i]) ? `M${fixed(x.at(u))},${fixed(y.at(ys[i]))}${SHAPES[shape](sizes?.[i] ?? size)}` : "")).join("");
    },
    bars({ x, y }, { fill = 0.8 }, places, lengths) { // lying where the names are on the y axis
      const [along, across] = y.names ? [y, x] : [x, y];
      const gap = places.length > 1 ? along.at(places[1]) - along.at(places[0]) : (along.high - along.low) / 8;
      const half = Math.abs(gap) * fill / 2, foot = across.at(across.log ? across.min : clamp(0, across.min, across.max));
      return Array.from(places, (place, i) => {
        const p = along.at(place), tip = across.at(clamp(lengths[i], across.min, across.max));
        return y.names ? `M${fixed(foot)},${fixed(p - half)}H${fixed(tip)}v${fixed(2 * half)}H${fixed(foot)}z`
          : `M${fixed(p - half)},${fixed(foot)}V${fixed(tip)}h${fixed(2 * half)}V${fixed(foot)}z`;
      }).join("");
    },
    band(panel, options, xs, low, high) {
      const back = OUTLINE.line(panel, options, Array.from(xs).reverse(), Array.from(low).reverse());
      return back && `${OUTLINE.line(panel, options, xs, high)}${back.replace("M", "L")}z`;
    },
    rule({ x, y }, _, { x: u, y: v }) {
      return u !== undefined ? `M${fixed(x.at(u))},${y.low}V${y.high}` : v !== undefined ? `M${x.low},${fixed(y.at(v))}H${x.high}` : "";
    },
  };

  class Panel {
    constructor(figure, options) {
      const { title = "", x = {}, y = {}, read = "x", click = null } = options, clip = `ex-clip-${++clips}`;
      Object.assign(this, { figure, options, read, click, title, x: new Axis(x), y: new Axis(y), marks: [], handles: [], listed: new Set() });
      this.box = make("div", {}, figure.panelBox);
      this.svg = make("svg", { role: "group", "aria-label": bare(title || this.y.name) }, this.box);
      this.legend = make("div", { class: "mf-explore-legend" }, this.box);
      this.frame = make("g", {}, this.svg);
      this.mask = make("rect", {}, make("clipPath", { id: clip }, this.svg));
      this.inside = make("g", { "clip-path": `url(#${clip})` }, this.svg);
      this.above = make("g", {}, this.svg);
      this.over = make("rect", { class: "ex-over", fill: "transparent" }, this.svg);
      this.held = make("g", {}, this.svg);
      this.cross = make("g", { class: "ex-cross", "aria-hidden": "true" }, this.svg);
      if (read || click) this.listen();
    }
    add(mark, render) { // its data are kept, so that a resize draws it again
      const shown = { ...mark, render() { if (shown.data) render(...shown.data); }, set(...data) { shown.data = data; shown.render(); } };
      this.marks.push(shown);
      this.explain(mark);
      return shown;
    }
    mark(kind, { role = "measured", ...options } = {}) {
      const shape = options.shape ?? SHAPE_OF[role] ?? "circle", open = kind === "points" && shape === "cross" ? " ex-open" : "";
      const node = make("path", { class: `ex-${kind} ex-${role}${open}` }, kind === "points" ? this.above : this.inside);
      if (options.dash) node.style.strokeDasharray = options.dash;
      const own = { kind, role, ...options, shape };
      return this.add(own, (...data) => node.setAttribute("d", OUTLINE[kind](this, own, ...data)));
    }
    text({ role = "reference", anchor = "start" } = {}) { // set(x, y, words)
      const { x, y } = this, node = make("text", { class: `ex-words ex-${role}`, "text-anchor": anchor }, this.above);
      return this.add({ kind: "text" }, (u, v, words) => {
        const size = wide(words), left = { start: 0, middle: size / 2, end: size }[anchor], place = clamp(x.at(u), x.low + left, x.high - size + left);
        write(set(node, { x: place, y: clamp(y.at(v), y.high + SMALL, y.low - 4) }), words);
      });
    }
    // set(values, columns, rows): row 0 below; equal neighbours in a row become one rectangle. Colours "sequential" or
    // "diverging" from min to max, or kinds: [[name, role], ...] for the values 0, 1, ...
    heat({ colours = "sequential", levels = 11, min = 0, max = 1, kinds = null, label = "" } = {}) {
      const { x, y } = this, count = kinds ? kinds.length : levels, turned = colours === "diverging", group = make("g");
      this.inside.prepend(group);
      const look = (k) => `ex-heat ex-${kinds ? kinds[k][1] : turned && 2 * k < count ? "low" : "high"}`;
      const strength = (k) => (kinds ? 0.18 + 0.5 * k / count : turned ? Math.abs(2 * k / (count - 1) - 1) : 0.04 + 0.92 * k / (count - 1));
      const paths = Array.from({ length: count }, (_, k) => make("path", { class: look(k), "fill-opacity": strength(k) }, group));
      const explain = (k, name) => this.explain({ kind: "heat", role: look(k), label: name, opacity: strength(k) });
      if (kinds) kinds.forEach(([name], k) => explain(k, name));
      else if (label) for (const part of [0, 0.5, 1]) explain(Math.round(part * (count - 1)), `${label} ${number(min + part * (max - min))}`);
      const heat = this.add({ kind: "heat", min, max }, (values, columns, rows) => {
        const w = (x.high - x.low) / columns, h = (y.low - y.high) / rows, d = new Array(count).fill("");
        const level = (v) => (kinds ? v : clamp(Math.floor((v - heat.min) / (heat.max - heat.min) * count), 0, count - 1));
        for (let r = 0; r < rows; r++) for (let c = 0, end; c < columns; c = end) {
          const k = level(values[r * columns + c]), left = x.low + c * w;
          for (end = c + 1; end < columns && level(values[r * columns + end]) === k; end++);
          if (k in d) d[k] += `M${fixed(left)},${fixed(y.low - (r + 1) * h)}h${fixed((end - c) * w + 0.3)}v${fixed(h + 0.3)}H${fixed(left)}z`;
        }
        paths.forEach((path, k) => path.setAttribute("d", d[k]));
      });
      return heat;
    }
    range(axis, min, max) {
      const changed = this[axis].min !== min || this[axis].max !== max;
      Object.assign(this[axis], { min, max });
      if (changed && this.inner) this.layout(this.width, this.inner);
    }
    // A point that is dragged, or moved by the arrow keys; those of one group share a tab stop, and Page up and down go
    // through them. `remove` is called when Delete is pressed.
    handle({ label = "point", role = "bound", x = 0, y = 0, text, constrain = (u, v) => [u, v], move, remove, legend = "", group = null, step = 0.01, size = 8 }) {
      const friends = () => this.handles.filter((h) => group && h.group === group), { x: across, y: up } = this;
      const node = make("g", { class: `ex-handle ex-${role}`, tabindex: friends().length ? -1 : 0, role: "slider" }, this.held);
      set(node, { "aria-label": bare(label) + (remove ? ", Delete removes it" : "") });
      make("circle", { class: "ex-hit", r: 20 }, node);
      make("circle", { class: "ex-dot", r: size }, node);
      const short = (v) => Number(v.toPrecision(4));
      const handle = { group, node, x, y };
      handle.render = () => {
        const left = clamp(across.at(handle.x), across.low, across.high), top = clamp(up.at(handle.y), up.high, up.low);
        set(node, { transform: `translate(${fixed(left)},${fixed(top)})`, "aria-valuemin": short(across.min), "aria-valuemax": short(across.max) });
        const words = text ? text(handle.x, handle.y) : `${across.says(handle.x)}, ${up.says(handle.y)}`;
        set(node, { "aria-valuenow": short(handle.x), "aria-valuetext": words });
      };
      handle.set = (u, v) => { Object.assign(handle, { x: u, y: v }); handle.render(); };
      handle.remove = () => {
        const held = node.contains(document.activeElement);
        this.handles = this.handles.filter((h) => h !== handle);
        node.remove();
        const rest = friends(), next = rest.find((h) => h.node.tabIndex === 0) ?? rest[0];
        next?.node.setAttribute("tabindex", 0);
        if (held) (next?.node ?? this.figure.resetButton).focus();
      };
      const go = (u, v) => {
        handle.set(...constrain(clamp(u, across.min, across.max), clamp(v, up.min, up.max)));
        move?.(handle.x, handle.y);
        this.figure.changed();
      };
      node.addEventListener("pointerdown", (event) => { node.setPointerCapture(event.pointerId); node.focus(); event.preventDefault(); });
      node.addEventListener("pointermove", (event) => { if (node.hasPointerCapture(event.pointerId)) go(...this.place(event)); });
      node.addEventListener("keydown", (event) => {
        const way = WAYS[event.key], far = step * (event.shiftKey ? 10 : 1);
        if (way) go(across.value(across.part(handle.x) + way[0] * far), up.value(up.part(handle.y) + way[1] * far));
        else if (remove && /^(Delete|Backspace)$/.test(event.key)) { remove(handle); this.figure.changed(); }
        else if (group && /^Page/.test(event.key)) {
          const all = friends(), next = all[(all.indexOf(handle) + (event.key === "PageDown" ? 1 : all.length - 1)) % all.length];
          node.tabIndex = -1;
          set(next.node, { tabindex: 0 }).focus();
        } else return;
        event.preventDefault();
      });
      this.handles.push(handle);
      this.explain({ kind: "points", role, label: legend });
      if (this.inner) handle.render();
      return handle;
    }
    place(event) { // of the pointer, as values
      const box = this.svg.getBoundingClientRect(), scale = this.width / box.width;
      return [this.x.back((event.clientX - box.left) * scale), this.y.back((event.clientY - box.top) * scale)];
    }
    listen() {
      const { over, x, y } = this, flat = this.read === "x" && !this.click;
      set(over, { tabindex: 0, role: "slider", "aria-label": `Read values: ${bare(this.title || y.name)}` });
      set(over, { "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 50 });
      this.spot = [0.5, 0.5]; // of the cross, as parts of the axes
      const show = () => { this.shown = true; this.point(); }, hide = () => { this.shown = false; this.cross.replaceChildren(); };
      const press = () => { if (this.click) { this.click(x.value(this.spot[0]), y.value(this.spot[1])); this.figure.changed(); } };
      const follow = (event) => { const [u, v] = this.place(event); this.spot = [x.part(u), y.part(v)]; show(); };
      const seen = () => { if (over.matches(":focus-visible")) show(); }, down = (event) => { follow(event); press(); };
      const events = { pointermove: follow, pointerdown: down, pointerleave: hide, focus: seen, blur: hide, keydown: (event) => {
        const way = WAYS[event.key];
        if (way && !(flat && way[1])) this.spot = this.spot.map((part, i) => clamp(part + way[i] * (event.shiftKey ? 0.1 : 0.02), 0, 1));
        else if (this.click && /^(Enter| )$/.test(event.key)) press();
        else return;
        event.preventDefault();
        show();
      } };
      for (const kind in events) over.addEventListener(kind, events[kind]);
    }
    // What stands at the cross. `read` is "x" (all labelled marks there), "nearest" (the nearest point of one), or a
    // function of x and y that gives lines of text.
    values() {
      const { x, y, read, spot } = this, here = [x.value(spot[0]), y.value(spot[1])];
      if (typeof read === "function") return { at: here, lines: [].concat(read(...here) ?? []) };
      const found = [], [along, across] = y.names ? [y, x] : [x, y];
      for (const mark of this.marks) if (mark.label && mark.data && mark.hover !== false && /line|points|bars/.test(mark.kind)) {
        const [xs, ys] = y.names && mark.kind === "bars" ? [mark.data[1], mark.data[0]] : mark.data, near = { distance: Infinity, mark };
        for (let i = 0; i < xs.length; i++) {
          const dx = (x.part(xs[i]) - spot[0]) * this.inner.width, dy = (y.part(ys[i]) - spot[1]) * this.inner.height;
          const distance = read !== "x" ? Math.hypot(dx, dy) : Math.abs(y.names ? dy : dx);
          if (distance < near.distance) Object.assign(near, { distance, at: [xs[i], ys[i]] });
        }
        if (near.at) found.push(near);
      }
      if (!found.length) return { at: here, lines: [] };
      const best = found.reduce((a, b) => (b.distance < a.distance ? b : a)), name = ({ mark }) => bare(mark.label);
      if (read !== "x") return { at: best.at, lines: [name(best), x.says(best.at[0]), y.says(best.at[1])] };
      const of = (near, axis) => near.at[axis === x ? 0 : 1], close = found.filter((near) => near.distance < best.distance + 12);
      return { at: best.at, lines: [along.says(of(best, along)), ...close.map((near) => `${name(near)}: ${across.format(of(near, across))}`)] };
    }
    point() { // draw the cross and its values
      const { at, lines } = this.values(), { x, y } = this, [u, v] = [x.at(at[0]), y.at(at[1])];
      set(this.over, { "aria-valuenow": Math.round(100 * this.spot[0]), "aria-valuetext": lines.map(bare).join(", ") || "nothing here" });
      this.cross.replaceChildren();
      make("path", { d: `M${fixed(u)},${y.low}V${y.high}` + (this.read === "x" ? "" : `M${x.low},${fixed(v)}H${x.high}`) }, this.cross);
      if (!lines.length) return;
      const width = Math.max(...lines.map(wide)) + 12, height = 16 * lines.length + 6;
      const left = clamp(u + 10 + width > x.high ? u - 10 - width : u + 10, 1, Math.max(1, this.width - width - 1));
      const top = clamp(v - height - 8, y.high, Math.max(y.high, y.low - height));
      make("rect", { x: left, y: top, width, height, rx: 3 }, this.cross);
      lines.forEach((line, i) => make("text", { x: left + 6, y: top + 16 + 16 * i }, this.cross, line));
    }
    margins(most = 6) {
      const { x, y, title } = this, left = Math.max(14, ...y.ticks(most).map(([, text]) => wide(text) + 10));
      return { left, right: 16, top: (title ? 22 : 4) + (y.label ? 20 : 6), bottom: x.label ? 40 : 22 };
    }
    wish(width, most) { // how large its plot would be
      const { x, y, options } = this, { left, right } = this.margins(), room = width - left - right, ratio = (y.max - y.min) / (x.max - x.min);
      if (!options.equal) return { width: room, height: clamp(room * (options.ratio ?? 0.72), Math.min(170, most), most) };
      return { width: Math.min(room, most / ratio), height: Math.min(room * ratio, most) };
    }
    layout(width, inner) {
      const { x, y, svg, title } = this, m = this.margins(Math.max(6, Math.floor(inner.height / 34))), height = inner.height + m.top + m.bottom;
      Object.assign(this, { width, inner });
      [x.low, x.high, y.low, y.high] = [m.left, m.left + inner.width, m.top + inner.height, m.top];
      set(svg, { width, height, viewBox: `0 0 ${width} ${height}` });
      this.box.style.width = `${width}px`;
      for (const box of [this.mask, this.over]) set(box, { x: x.low, y: y.high, ...inner });
      this.frame.replaceChildren();
      const add = (tag, attributes, text) => make(tag, attributes, this.frame, text);
      const across = x.ticks(Math.max(2, Math.floor(inner.width / 58))), up = y.ticks(Math.max(2, Math.floor(inner.height / 34)));
      const lines = (axis, ticks, key) => (axis.names ? [] : ticks.map(([v]) => OUTLINE.rule(this, null, { [key]: v })));
      add("path", { class: "ex-grid", d: [...lines(x, across, "x"), ...lines(y, up, "y")].join("") });
      add("path", { class: "ex-axes", d: `M${x.low},${y.high}V${y.low}H${x.high}` });
      for (const [v, text] of across)
        add("text", { x: clamp(x.at(v), wide(text) / 2, width - wide(text) / 2), y: y.low + 16, "text-anchor": "middle" }, text);
      for (const [v, text] of up) add("text", { x: x.low - 6, y: y.at(v) + 4, "text-anchor": "end" }, text);
      if (x.label) add("text", { x: x.high, y: y.low + 34, "text-anchor": "end", class: "ex-label" }, x.label);
      if (y.label) add("text", { x: 1, y: m.top - 8, class: "ex-label" }, y.label);
      if (title) add("text", { x: 1, y: 15, class: "ex-title" }, title);
      for (const mark of [...this.marks, ...this.handles]) mark.render();
      if (this.shown) this.point();
    }
    explain({ kind, role, label, legend = true, shape = "circle", dash = "", opacity = 1 }) { // once in the legend
      const key = `${kind} ${role} ${label}`, line = "M1,7H27", box = "M5,2H23V13H5z";
      if (!label || !legend || this.listed.has(key)) return;
      this.listed.add(key);
      const item = make("span", {}, this.legend), svg = make("svg", { width: 28, height: 14, viewBox: "0 0 28 14", "aria-hidden": "true" }, item);
      const look = kind === "heat" ? role : `ex-${kind} ex-${role}${kind === "points" && shape === "cross" ? " ex-open" : ""}`;
      const d = { line, rule: line, points: `M14,7${SHAPES[shape](4)}` }[kind] ?? box;
      make("path", { class: look, d, ...(kind === "heat" && { "fill-opacity": opacity }) }, svg).style.strokeDasharray = dash;
      make("span", {}, item, label);
    }
  }
  // panel.line(...).set(xs, ys), NaN breaks it; points: set(xs, ys, sizes?); bars: set(places, lengths); band: set(xs, low, high);
  // rule: set({x}), set({y}) or set({})
  for (const kind in OUTLINE) Panel.prototype[kind] = function (options) { return this.mark(kind, options); };
  const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

  class Figure {
    constructor(root) {
      const part = (name) => make("div", { class: `mf-explore-${name}` }, this.live), name = root.dataset.explore;
      Object.assign(this, { root, name, panels: [], columns: 3, dirty: false, seen: true, told: -1000, words: "" });
      this.live = make("div", { class: "mf-explore-live", role: "group", "aria-label": "Interactive figure" });
      [this.playBox, this.presetBox, this.controls] = ["play", "presets", "controls"].map(part);
      [this.panelBox, this.valueBox, this.text] = ["panels", "values", "says"].map(part);
      this.text.setAttribute("aria-hidden", true); // what is seen follows each frame, what is heard at most once a second
      this.spoken = make("div", { class: "visually-hidden", "aria-live": "polite" }, this.live);
      this.resetButton = this.press(this.playBox, "Reset", () => start(root, this));
      this.larger = this.press(this.playBox, "Enlarge", () => this.enlarge(), "mf-explore-larger");
      this.sizes = new ResizeObserver(() => this.layout());
      this.sight = new IntersectionObserver(([entry]) => { this.seen = entry.isIntersecting; request(); });
    }
    begin() { figures.add(this); this.layout(); this.sizes.observe(this.panelBox); this.sight.observe(this.live); this.frame(performance.now()); }
    end() { figures.delete(this); this.sizes.disconnect(); this.sight.disconnect(); clearTimeout(this.telling); }
    layout() {
      const all = Math.floor(this.panelBox.getBoundingClientRect().width), dialog = this.live.closest("dialog");
      const columns = all < STACK ? 1 : Math.min(dialog && all > 2 * STACK ? 3 : this.columns, this.panels.length);
      const most = dialog ? this.room(Math.ceil(this.panels.length / columns)) : 400;
      if (!all || `${all} ${most}` === this.laid) return;
      this.laid = `${all} ${most}`; // nothing to do while these stay
      for (let i = 0; i < this.panels.length; i += columns) {
        const row = this.panels.slice(i, i + columns), share = (p) => p.options.weight ?? 1, total = row.reduce((sum, p) => sum + share(p), 0);
        const widths = row.map((p) => Math.floor((all - GAP * (row.length - 1)) * share(p) / total)), plots = row.map((p, k) => p.wish(widths[k], most));
        const height = (plots.find((_, k) => row[k].options.equal) ?? plots.reduce((a, b) => (b.height > a.height ? b : a))).height;
        row.forEach((p, k) => p.layout(widths[k], columns > 1 && !p.options.equal ? { ...plots[k], height } : plots[k]));
      }
    }
    room(rows) { // of a plot in the dialog, so that all of it is seen at once, if the window is not too small
      const used = [...this.live.children].reduce((sum, part) => sum + (part === this.panelBox ? 0 : part.offsetHeight + 10), 0);
      const legends = Math.max(...this.panels.map((p) => p.legend.offsetHeight));
      return Math.max(120, (0.94 * innerHeight - used - 40) / rows - legends - 90);
    }
    panel(options) { const panel = new Panel(this, options); this.panels.push(panel); return panel; }
    update(compute) { this.compute = compute; this.changed(); } // called once a frame after a change
    changed() { this.dirty = true; request(); }
    get active() { return this.dirty || (this.moving && this.seen && !document.hidden); }
    frame(now) {
      try {
        if (this.moving && this.seen && !document.hidden) this.moving(now);
        if (!this.dirty || !this.compute) return;
        this.dirty = false;
        const began = performance.now(), list = (frames[this.name] ??= []);
        this.compute();
        for (const p of this.panels) if (p.shown) p.point();
        list.push(performance.now() - began);
        if (list.length > KEPT) list.shift();
      } catch (error) { return fail(this, error); }
      if (!this.says) return;
      const words = this.says();
      if (words !== this.words) write(this.text, this.words = words);
      this.telling ||= setTimeout(() => {
        Object.assign(this, { telling: null, told: performance.now() });
        write(this.spoken, this.words);
      }, Math.max(0, this.told + 1000 - performance.now()));
    }
    value(label) { // set(text or number)
      const item = make("span", {}, this.valueBox), shown = make("output", { "aria-live": "off" });
      item.append(make("b", {}, null, label), " ", shown);
      return { set(v) { const text = typeof v === "number" ? number(v) : v; if (shown.textContent !== text) shown.textContent = text; } };
    }

    presets(...all) { // what to try: [[words, action], ...]
      make("span", {}, this.presetBox, "Try");
      for (const [words, action] of all) this.press(this.presetBox, words, () => { action(); this.changed(); });
    }

    // Controls. Each has a value that can be set, and calls change(value) when a reader moves it.
    control(tag, attributes, { label, change }, read, show) {
      const box = make("label", { class: `mf-explore-${attributes.type ?? tag}` }, this.controls), figure = this;
      make("span", {}, box, label);
      const input = make(tag, attributes, box);
      input.addEventListener("input", () => { show(read(input)); change?.(read(input)); this.changed(); });
      return { input, box, get value() { return read(input); }, set value(v) { show(v); figure.changed(); } };
    }
    slider(options) { // moved by steps, or by thousandths of its range; set in code it holds any value
      const { min, max, value, log = false, step = null, format = number } = options, axis = new Axis({ min, max, scale: log ? "log" : "linear" });
      const output = make("output", { "aria-live": "off" }), range = step ? { min, max, step } : { min: 0, max: 1, step: 0.001 };
      let exact, held; // the value, and what the input made of it
      const read = (input) => (input.value === held ? exact : step ? Number(input.value) : axis.value(Number(input.value)));
      const show = (v) => {
        exact = clamp(v, min, max);
        control.input.value = step ? exact : axis.part(exact);
        held = control.input.value;
        control.input.setAttribute("aria-valuetext", output.textContent = bare(format(exact)));
      };
      const control = this.control("input", { type: "range", ...range }, options, read, show);
      control.box.append(output);
      show(value);
      return Object.defineProperty(control, "part", { get: () => axis.part(exact), set: (p) => { control.value = axis.value(clamp(p, 0, 1)); } });
    }
    field(options) { // a number that is typed; what is none, or out of range, changes nothing
      let last = options.value;
      const { value, min = "", max = "" } = options, attributes = { type: "number", step: "any", value, min, max };
      const read = (input) => (input.value !== "" && input.validity.valid ? (last = Number(input.value)) : last);
      const show = (v) => { last = v; if (document.activeElement !== control.input) control.input.value = v; };
      const control = this.control("input", attributes, options, read, show);
      return control;
    }
    select(options) { // options: [[value, words], ...]
      const all = options.options, place = (v) => all.findIndex(([key]) => key === v);
      const control = this.control("select", {}, options, (input) => all[input.selectedIndex][0], (v) => { control.input.selectedIndex = place(v); });
      control.input.append(...all.map(([, words]) => new Option(words)));
      control.input.selectedIndex = Math.max(0, place(options.value));
      return control;
    }
    checkbox(options) {
      const control = this.control("input", { type: "checkbox" }, options, (input) => input.checked, (v) => { control.input.checked = v; });
      control.input.checked = Boolean(options.value);
      return control;
    }
    press(parent, label, action, look = "") {
      return Object.assign(make("button", { type: "button", class: look }, parent, label), { onclick: action });
    }
    button(label, action) { return this.press(this.controls, label, () => { action(); this.changed(); }); }

    // Play, pause and step. With a slider it runs over its range in so many seconds; else advance(dt) is called with the
    // seconds that have passed, until it returns false. With reduced motion it goes in five still steps, a second apart.
    player({ slider = null, seconds = 8, advance = null, step = seconds / 40 }) {
      const run = (dt) => { slider.part += dt / seconds; return slider.part < 1 - 1e-9; };
      const go = (dt) => { this.changed(); return (slider ? run : advance)(dt) !== false; };
      const pause = () => { this.moving = null; play.textContent = "Play"; };
      const play = this.press(null, "Play", () => {
        if (this.moving) return pause();
        let last = null, left = 5;
        if (slider && slider.part >= 1 - 1e-9) slider.part = 0;
        play.textContent = "Pause";
        this.moving = (now) => {
          const quiet = still(), passed = last === null ? 0 : now - last;
          if (quiet && last !== null && passed < 1000) return;
          last = now;
          if (!go(quiet ? seconds / 5 : Math.min(passed / 1000, 0.1)) || (quiet && --left === 0)) pause();
        };
        request();
      });
      this.playBox.prepend(play, this.press(null, "Step", () => { pause(); go(step); }));
      return { pause, start() { pause(); if (slider) slider.part = 0; play.click(); } };
    }
    enlarge() {
      const open = this.live.closest("dialog");
      if (open) return open.close();
      const dialog = make("dialog", { class: "mf-explore-dialog", "aria-label": "Enlarged figure" }, document.body);
      dialog.addEventListener("close", () => { // with the figure in it, which a reset may have built again
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
  function request() { // one loop for all figures, which rests when there is nothing to do
    if (asked || ![...figures].some((f) => f.active)) return;
    asked = true;
    requestAnimationFrame((now) => { asked = false; for (const f of figures) f.frame(now); request(); });
  }
  function fail(figure, error) { // the stored picture returns
    const dialog = figure.live.closest("dialog");
    figure.end();
    figure.live.remove();
    dialog?.close();
    figure.root.querySelector("img").hidden = false;
    console.error(`explore: ${figure.name}:`, error);
  }
  function start(root, before = null) {
    const figure = new Figure(root);
    before?.end();
    try {
      before ? before.live.replaceWith(figure.live) : root.append(figure.live);
      if (figure.live.closest("dialog")) figure.larger.textContent = "Close";
      builders.get(figure.name)(figure, JSON.parse(root.dataset.parameters || "{}"));
      root.querySelector("img").hidden = true;
      figure.begin();
      if (before) figure.resetButton.focus();
    } catch (error) { fail(figure, error); }
  }
  function begin() { for (const root of document.querySelectorAll(".mf-explore")) if (builders.has(root.dataset.explore)) start(root); }
  document.readyState === "complete" ? begin() : addEventListener("DOMContentLoaded", begin);
  document.addEventListener("visibilitychange", request);
  window.explore = { register: (name, build) => builders.set(name, build), frames, number, counts };
})();
