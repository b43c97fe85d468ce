// Appendix A, circle: tokens run up or down a landscape that they make themselves, together with a perceptron of two units.
// Parameters: tokens (angles), units (angles), omega (weights) of the published draw, beta. Euler steps of 0.1, as published.
explore.register("ring", (figure, { tokens: drawn, units, omega, beta: first }) => {
  const { number } = explore, { ring } = mfbook, { cos, sin, atan2, hypot, abs, PI, max, min } = Math, OFF = 1.3, side = { min: -1.45, max: 1.45 };
  const degrees = (a) => atan2(sin(a), cos(a)) * 180 / PI, says = (a) => `${number(+degrees(a).toFixed(1), 4)}°`;
  const grid = Float64Array.from({ length: 361 }, (_, i) => (i - 180) * PI / 180), places = grid.map((_, i) => i - 180);
  let theta, t, run, settled, counts, perceptron, half, E, gap, fastest, arcs, chains;
  const plane = figure.panel({ title: "Tokens on the ring", equal: true, x: side, y: side, read: null });
  const ground = figure.panel({ title: "The landscape δE", x: { label: "angle (degrees)", min: -180, max: 180 }, y: { label: "δE" } });
  const course = figure.panel({ title: "Energy", ratio: 0.22, x: { label: "1 + time", min: 1, max: 1e4, scale: "log" }, y: { label: "E" },
    read: (x) => [`1 + time = ${number(x)}`, `E = ${number(run.find((s) => s[0] >= x)?.[1] ?? NaN)}`] });
  const signs = [["second", "none", "perceptron: v > 0"], ["second", "2 3", "v < 0"], ["reference", "none", "v = 0"]]
    .map(([role, dash, label]) => plane.line({ role, dash, label }));
  const names = units.map(() => plane.text({ role: "second", anchor: "middle" })), dots = plane.points({ role: "found", size: 5 });
  const found = plane.points({ role: "fluctuation", label: "cluster (arcs), by mass" }), seen = ground.points({ role: "found" });
  const alone = ground.line({ role: "second", label: "v/2, the perceptron's part" }), whole = ground.line({ label: "δE", legend: false });
  const mean = ground.rule({ role: "leading", label: "mean of δE over the tokens" }), least = ground.rule({ role: "bound", label: "least δE" });
  const path = course.line({ label: "E" }), now = course.points({ role: "found", size: 5, legend: false }), floor = course.line({ role: "bound", dash: "2 3", label: "E − gap: no law has less" });
  const slider = (label, least, most, value, more) => figure.slider({ label, min: least, max: most, value, change: again, ...more });
  const many = slider("tokens", 2, drawn.length, 60, { step: 1, change: place }), beta = slider("β", 0.1, 100, first, { log: true });
  const weights = omega.map((value, j) => slider(`weight ω_${j + 1}`, -1.5, 1.5, value));
  const [up, soft] = ["ascent", "divided by Z"].map((label) => figure.checkbox({ label, change: again }));
  const kind = figure.select({ label: "Perceptron", value: "ReLU", options: [["ReLU", "ReLU"], ["GeLU", "GeLU"], ["", "none"]], change: again });
  const text = (x, y) => says(atan2(y, x)), drag = (i) => (x, y) => { theta[i % theta.length] = atan2(y, x); again(); };
  const onto = (r, role) => ({ role, text, step: 0.03, constrain: (x, y) => [x, y].map((u) => r * u / (hypot(x, y) || 1)), size: 7 });
  const unit = (a, j) => plane.handle({ ...onto(OFF, "second"), label: `Unit ${j + 1}`, legend: "unit of the perceptron (drag)", x: OFF * cos(a), y: OFF * sin(a), move: again });
  const token = (_, i) => plane.handle({ ...onto(1, "measured"), label: "Token", legend: "token (drag the large ones)", group: "tokens", move: drag(i) });
  const arrows = units.map(unit), grips = Array.from({ length: 8 }, token); // the first eight tokens
  figure.columns = 2, figure.button("Tokens as drawn", place);
  const law = () => ({ beta: beta.value, ascent: up.value, normalised: soft.value, omega: weights.map((w) => w.value),
    activation: kind.value.toLowerCase(), a: kind.value ? arrows.map(({ x, y }) => atan2(y, x)) : undefined });
  function again() { [t, settled, counts, run] = [0, false, [], []]; }
  function place() { theta = Float64Array.from(drawn.slice(0, many.value)), again(); }
  const player = figure.player({ step: 0.1, advance(dt) { // ever faster, as tokens get slower; no more steps than a frame holds
    const F = law(), before = settled;
    for (let left = max(1, dt * min(60 + 2.5 * t, 1e5 / theta.length)); left >= 1 && settled === before; left--) {
      [theta, t] = [ring.step(F, theta), Math.round(10 * t + 1) / 10];
      if (t % 1) continue; // every ten steps a snapshot, and the published rule to stop
      counts = [...counts.slice(-4), ring.clusters(theta, undefined, ring.threshold(F.beta)).count];
      settled ||= counts.length === 5 && counts.every((c) => c === counts[0]) && ring.velocity(F, theta).every((u) => abs(u) <= 1e-4);
    }
    return settled === before && t < 9999;
  } });
  const choose = (rises, units) => () => { [up.value, soft.value, kind.value] = [rises, false, units]; place(), player.start(); };
  figure.presets(["attention alone: ascent", choose(true, "")], ["ascent with ReLU", choose(true, "ReLU")], ["descent with ReLU", choose(false, "ReLU")]);
  const fit = ({ y }, low, high, room = 0.15 * (high - low) + 0.02 / beta.value) => { // the axis, if it is too short, or far too long
    if (low >= y.min && high <= y.max && high - low + 2 * room > 0.3 * (y.max - y.min)) return;
    Object.assign(y, { min: low - room, max: high + room }), figure.laid = null, figure.layout(); // its numbers may be longer
  };
  const values = ["t", "E", "gap", "clusters: arcs", "chains", "fastest token"].map((name) => figure.value(name));
  figure.update(() => {
    const F = law(), f = ring.firstVariation(F, theta, undefined, grid), own = ring.firstVariation(F, theta);
    const level = own.reduce((sum, v) => sum + v / own.length, 0), [X, Y] = [theta.map(cos), theta.map(sin)];
    [E, gap, fastest] = [ring.energy(F, theta), ring.gap(F, theta, undefined, 360).gap, max(...ring.velocity(F, theta).map(abs))];
    [arcs, chains] = ["arcs", "single"].map((rule) => ring.clusters(theta, undefined, ring.threshold(F.beta), rule));
    if (perceptron !== (perceptron = JSON.stringify([F.a, F.omega, kind.value]))) {
      half = grid.map((a) => ring.potential(F, a) / 2);
      const sign = half.map((v) => abs(v) < 1e-12 ? 2 : v < 0 ? 1 : 0);
      signs.forEach((line, k) => line.set(grid.map((a, i) => (sign[i] === k ? cos(a) : NaN)), grid.map(sin)));
      alone.set(places, half), arrows.forEach(({ x, y }, j) => names[j].set(x, y + 0.12, F.a ? `ω_${j + 1}` : ""));
    }
    const [cx, cy] = [X, Y].map((P) => arcs.masses.map((_, k) => P.reduce((sum, p, i) => (arcs.labels[i] === k ? sum + p : sum), 0)));
    found.set(...[cx, cy].map((c) => c.map((u, k) => 0.82 * u / hypot(cx[k], cy[k]))), arcs.masses.map((m) => 2 + 9 * Math.sqrt(m)));
    dots.set(X, Y), whole.set(places, f), seen.set(theta.map(degrees), own), mean.set({ y: level }), least.set({ y: level - gap });
    grips.forEach((g, i) => g.set(X[i % X.length], Y[i % X.length]));
    if (!(1 + t <= 1.01 * run.at(-1)?.[0])) run.push([1 + t, E, F.ascent ? NaN : E - gap]);
    [path, floor].forEach((line, k) => line.set(run.map((s) => s[0]), run.map((s) => s[k + 1]))), now.set([1 + t], [E]);
    fit(ground, min(...f, ...half, level - gap), max(...f, ...half)), fit(course, min(...run.map((s) => (F.ascent ? s[1] : s[2]))), max(...run.map((s) => s[1])));
    [t, E, gap, String(arcs.count), String(chains.count), fastest].forEach((v, i) => values[i].set(v));
  });
  figure.says = () => `${theta.length} tokens, ${up.value ? "ascent" : "descent"}, β = ${number(beta.value)}, ${kind.value || "no"} perceptron`
    + (kind.value && ` (${law().a.map((x, j) => `ω = ${number(weights[j].value)} at ${says(x)}`).join(", ")})`) + (soft.value ? ", divided by Z" : "")
    + `. At time ${number(t, 5)} the energy is ${number(E, 4)}; no law has one lower by more than the gap, ${number(gap)}. Clusters: `
    + `${arcs.count} by arcs, ${chains.count} by chains. Highest speed: ${number(fastest, 2)}${settled ? ": settled, by the published rule." : "."}`;
  place();
});
