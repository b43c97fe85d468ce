// Chapter 6: one head of two numbers. a² − b² never changes, so the head runs along a hyperbola, and
// its value β decides how fast E = log cosh(ab) falls. Parameters: beta of the first start (with ab = 1).
explore.register("one-head", (figure, { beta: first = 0.03 }) => {
  const { energy, conserved, bend, velocity } = mfbook.oneHead, { number } = explore;
  const SIDE = 2.2, FIRST = 0.05, LAST = 1000, LEAST = 1e-12, POINTS = 160;
  const start = (c) => { const P = c / 2 + Math.sqrt((c * c) / 4 + 1); return [Math.sqrt(P), 1 / Math.sqrt(P)]; };

  const plane = figure.panel({
    title: "Where the head goes", x: { label: "a", max: SIDE }, y: { label: "b", max: SIDE }, equal: true, weight: 0.8,
    read: (a, b) => [`a = ${number(a)}, b = ${number(b)}`, `E = ${number(energy(a, b))}`, `β = ${number(conserved(a, b))}`],
  });
  const decay = figure.panel({
    title: "How fast", x: { label: "time τ", name: "τ", min: FIRST, max: LAST, scale: "log" },
    y: { label: "excess risk E (nats)", name: "E", min: LEAST, max: 3, scale: "log" },
  });
  const hyperbola = plane.line({ role: "reference", label: "a² − b² = β" });
  const alike = plane.line({ role: "leading", label: "same predictions as the start" });
  const path = plane.line({ role: "measured", legend: false });
  const here = plane.points({ role: "found", size: 6 });
  const E = decay.line({ role: "measured", label: "E of this head" });
  const balanced = decay.line({ role: "second", label: "1/(8τ²)" });
  const turn = decay.rule({ role: "bound", label: "E = β²/8" });
  const now = decay.points({ role: "found", size: 6, label: "the head at time τ" });

  const time = figure.slider({ label: "time τ", min: FIRST, max: LAST, value: FIRST, log: true });
  const head = plane.handle({
    label: "Start of the head", legend: "start (drag)", x: start(first)[0], y: start(first)[1], role: "bound",
    constrain: (a, b) => [Math.max(a, 0.05), Math.max(b, 0.05)],
    text: (a, b) => `a = ${number(a)}, b = ${number(b)}, β = ${number(conserved(a, b))}`,
  });
  const player = figure.player({ slider: time, seconds: 10 }), choose = (c) => () => { head.set(...start(c)); player.start(); };
  figure.presets(["unbalanced: β = 2", choose(2)], [`nearly balanced: β = ${number(first)}`, choose(first)], ["balanced: β = 0", choose(0)]);
  const shown = Object.fromEntries(["β = a² − b²", "τ", "E", "bend at τ"].map((name) => [name[0], figure.value(name)]));

  const grid = Float64Array.from({ length: 221 }, (_, i) => i * SIDE / 220);
  const days = Float64Array.from({ length: POINTS }, (_, i) => FIRST * (LAST / FIRST) ** (i / (POINTS - 1)));
  balanced.set(days, days.map((t) => 1 / (8 * t * t)));
  let run, c, key;
  function follow(a, b) { // until rounding is all that is left of E
    const states = mfbook.stepper((y, out) => velocity(y, out), [a, b], { rtol: 1e-9, atol: 1e-16 });
    run = { t: [0], y: [[a, b]], E: [energy(a, b)] };
    for (const t of days) {
      if (run.E.at(-1) < LEAST / 10 || !states.advance(t)) break;
      [run.t, run.y, run.E].forEach((list, i) => list.push([t, [...states.y], energy(...states.y)][i]));
    }
  }
  // Between two stored times E is a power of τ, nearly.
  function timeOf(height) {
    const i = run.E.findIndex((value) => value <= height);
    if (i <= 1) return i === -1 ? Infinity : 0;
    const part = Math.log(run.E[i - 1] / height) / Math.log(run.E[i - 1] / run.E[i]);
    return run.t[i - 1] * (run.t[i] / run.t[i - 1]) ** part;
  }
  const place = () => Math.max(0, run.t.findLastIndex((t) => t <= time.value * 1.0001));
  const when = (t) => (t === Infinity ? "never" : t === 0 ? "at the start" : `at τ = ${number(t, 2)}`);

  figure.update(() => {
    const [a, b] = [head.x, head.y];
    if (key !== `${a} ${b}`) {
      key = `${a} ${b}`;
      c = Math.abs(conserved(a, b)) < 1e-12 ? 0 : conserved(a, b);
      follow(a, b);
      hyperbola.set(grid, grid.map((x) => (x * x >= c ? Math.sqrt(x * x - c) : NaN)));
      alike.set(grid, grid.map((x) => (x ? (a * b) / x : NaN)));
      path.set(run.y.map((y) => y[0]), run.y.map((y) => y[1]));
      E.set(run.t.slice(1), run.E.slice(1));
      turn.set(c ? { y: bend(c) } : {});
      shown.β.set(number(c));
      shown.b.set(c ? when(timeOf(bend(c))).replace("at τ = ", "") : "never");
    }
    const i = place();
    here.set([run.y[i][0]], [run.y[i][1]]);
    now.set(i ? [run.t[i]] : [], [run.E[i]]);
    shown.τ.set(time.value);
    shown.E.set(run.E[i] < LEAST ? "below 1e-12" : run.E[i]);
  });
  figure.says = () => {
    const i = place(), [a, b] = run.y[i], E = run.E[i] < LEAST ? "below 1e-12" : number(run.E[i]), rate = number(2 * Math.abs(c), 2);
    return `The head starts at a = ${number(head.x)}, b = ${number(head.y)} and keeps β = a² − b² = ${number(c)}. `
      + `At τ = ${number(time.value)} it has come to a = ${number(a)}, b = ${number(b)}, where E is ${E}. `
      + (c ? `E bends ${when(timeOf(bend(c)))}, at the height β²/8 = ${number(bend(c), 2)}; from there on it falls like exp(−${rate} τ).`
        : "The head is balanced: E falls like 1/(8τ²) for ever and never bends.");
  };
});
