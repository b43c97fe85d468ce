// Chapter 7: eight heads near a head at rest, c θ*, under anchored decay λ. Deviations move with H, the mean with H + K.
// Parameters: task X, Y, W_U, k, v; theta; scales of c with both thresholds of λ; the cloud; the first λ.
explore.register("two-rates", (figure, { X, Y, W_U, k, v, theta, scales, thresholds, cloud, lambda: first }) => {
  const { number } = explore, task = mfbook.task(X, Y, W_U, k, v), D = task.D, M = cloud.length, NAMES = ["stable", "splitting", "translation"];
  const END = 8, STEPS = 40, VIEW = 0.2, PUSH = 0.05, TOP = 1.3, FAR = 1.6, COLUMNS = 96, ROWS = 104;
  const days = Array.from({ length: STEPS + 1 }, (_, i) => i * END / STEPS), of = (eta, i) => eta.subarray(i * D, (i + 1) * D);
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0), norm = (a) => Math.sqrt(dot(a, a));
  const mean = (eta) => Array.from({ length: D }, (_, j) => cloud.reduce((sum, _, i) => sum + eta[i * D + j] / M, 0));
  const spread = (eta, m = mean(eta)) => Math.sqrt(eta.reduce((sum, x, j) => sum + (Math.abs(x - m[j % D]) < 1e-15 ? 0 : x - m[j % D]) ** 2 / M, 0)); // not rounding
  const place = (c, lambda) => [Math.min(FAR, Math.max(0.1, Math.round(c * 20) / 20)), Math.max(lambda, 0.02)];
  const regime = (c, lambda) => { // thresholds are linear between the scales given
    const i = Math.max(1, scales.findIndex((s) => s > c - 1e-9)), part = (c - scales[i - 1]) / (scales[i] - scales[i - 1]);
    return thresholds[i].filter((next, which) => lambda < (1 - part) * thresholds[i - 1][which] + part * next).length;
  };

  const map = figure.panel({ title: "Which head, what decay", x: { label: "head at rest c θ*", name: "c", max: FAR }, y: { label: "decay λ", max: TOP }, ratio: 1,
    read: (c, lambda) => [NAMES[regime(c, lambda)], `c = ${number(c)}, λ = ${number(lambda)}`], click: (c, lambda) => choose(...place(c, lambda)) });
  const plane = figure.panel({ title: "Eight heads", x: { label: "splitting direction", min: -VIEW, max: VIEW }, y: { label: "across", min: -VIEW, max: VIEW }, equal: true, read: null });
  const sizes = figure.panel({ title: "Mean and spread", x: { label: "time τ", max: END }, y: { label: "distance", min: 1e-3, max: 2, scale: "log" }, ratio: 1 });
  map.heat({ kinds: NAMES.map((name, i) => [name, ["measured", "second", "bound"][i]]) }).set(Float64Array.from({ length: COLUMNS * ROWS },
    (_, i) => regime((i % COLUMNS + 0.5) * FAR / COLUMNS, (Math.floor(i / COLUMNS) + 0.5) * TOP / ROWS)), COLUMNS, ROWS);
  const ways = plane.line({ role: "reference", label: "path of a head" }), heads = plane.points({ role: "found", label: "head at time τ", size: 5 });
  const lines = [["bound", "spread"], ["sharpened", "to first order, by H"], ["measured", "mean"], ["leading", "to first order, by H + K"]].map(([role, label]) => sizes.line({ role, label }));
  const instant = sizes.rule({ role: "reference" });

  const decay = figure.slider({ label: "decay λ", min: 0.02, max: TOP, value: first, change: (lambda) => choose(dial.x, lambda) });
  const start = figure.select({ label: "Start", value: "cloud", change: () => begin(), options: [["cloud", "a cloud of eight"], ["one", "one head pushed"], ["all", "all pushed alike"], ["own", "as dragged"]] });
  const time = figure.slider({ label: "time τ", min: 0, max: END, value: END });
  const player = figure.player({ slider: time, seconds: 8 });
  const shown = ["verdict", "rate of the spread", "rate of the mean"].map((name) => figure.value(name));
  const dial = map.handle({ label: "Head at rest and decay", legend: "the head and the decay (drag)", x: 1, y: first, role: "found", step: 0.035, constrain: place,
    move: (c, lambda) => choose(c, lambda), text: (c, lambda) => `c = ${number(c)}, λ = ${number(lambda)}, ${NAMES[regime(c, lambda)]}` });
  const starts = cloud.map((_, i) => plane.handle({ label: `Start of head ${i + 1}`, legend: "start of a head (drag)", group: "heads", size: 5, step: 0.02,
    text: (x, y) => `${number(x)} along, ${number(y)} across`, move(x, y) {
      const by = [x, y].map((target, a) => target - dot(rest.axes[a], of(eta, i)));
      eta = eta.map((e, j) => (Math.floor(j / D) === i ? e + by[0] * rest.axes[0][j % D] + by[1] * rest.axes[1][j % D] : e));
      start.value = "own";
    } }));

  const known = new Map(); // what costs more than a frame, for each c that was chosen
  let rest, eta = Float64Array.from(cloud.flat()), job, drawn; // eta: how far the heads start from the head at rest
  function stand(c) { // the force G without decay, H and K, and the plane that is shown: the first head of the cloud is right and above
    const at = Float64Array.from(theta, (t) => c * t), G = mfbook.forces(task, mfbook.at(task, at), at).gradient, dirac = mfbook.dirac(task, at);
    const w = dirac.splitDirection, t = dirac.translationDirection, rest = t.map((x, i) => x - dot(t, w) * w[i]);
    const axes = [w, rest.map((x) => x / norm(rest))].map((axis) => (dot(axis, cloud[0]) < 0 ? axis.map((x) => -x) : axis));
    return { c, at, G, dirac, axes, apart: mfbook.eigen(dirac.H), together: mfbook.eigen(dirac.H.map((h, i) => h + dirac.K[i])) };
  }
  function begin() {
    rest = known.get(dial.x) ?? known.set(dial.x, stand(dial.x)).get(dial.x);
    if (start.value === "cloud") eta = Float64Array.from(cloud.flat());
    else if (start.value !== "own") eta = Float64Array.from({ length: M * D }, (_, j) => (start.value === "all" || j < D ? PUSH * rest.axes[0][j % D] : 0));
    starts.forEach((handle, i) => handle.set(...rest.axes.map((axis) => dot(axis, of(eta, i)))));
  }
  function choose(c, lambda) { dial.set(c, lambda); decay.value = lambda; begin(); }
  function prepare() { // the flow of the displacements, so that the tolerance is theirs; and what first order says of them
    const lambda = dial.y, { at } = rest, heads = new Float64Array(M * D), m = mean(eta), parts = cloud.map((_, i) => of(eta, i).map((x, j) => x - m[j]));
    const flow = mfbook.velocity(task, { lambda, anchor: at.map((x, i) => x + rest.G[i] / lambda) });
    const field = (y, out) => { y.forEach((x, j) => { heads[j] = at[j % D] + x; }); flow(heads, out); };
    const linear = ({ values, vectors }, list) => { const size = vectors.map((q) => list.reduce((sum, x) => sum + dot(q, x) ** 2 / list.length, 0));
      return days.map((t) => Math.sqrt(size.reduce((sum, s, i) => sum + s * Math.exp(-2 * t * (values[i] + lambda)), 0))); };
    return { rest, eta, lambda, y: [eta], run: mfbook.stepper(field, eta), byH: linear(rest.apart, parts), byHK: linear(rest.together, [m]), verdict: mfbook.verdict(rest.dirac, lambda) };
  }
  function seen(t = time.value / END * STEPS) { // the heads at time τ, between two stored times on a line
    return drawn.y[Math.floor(t)].map((x, j) => x + (t % 1) * (drawn.y[Math.ceil(t)][j] - x));
  }
  figure.update(() => { // a flow takes several frames; meanwhile the last one that is complete is shown
    const stale = () => job.rest !== rest || job.eta !== eta || job.lambda !== dial.y, done = () => job.y.length > STEPS;
    if (!job || (done() && stale())) job = prepare();
    const began = performance.now();
    while (!done() && performance.now() - began < 3) if (job.run.advance(days[job.y.length])) job.y.push(job.run.y.slice());
    if (!done() || stale()) figure.changed();
    if (done() && drawn !== job) {
      drawn = job;
      const paths = cloud.flatMap((_, i) => [...job.y.map((y) => job.rest.axes.map((axis) => dot(axis, of(y, i)))), [NaN, NaN]]);
      ways.set(...[0, 1].map((a) => paths.map((p) => p[a])));
      [job.y.map((y) => spread(y)), job.byH, job.y.map((y) => norm(mean(y))), job.byHK].forEach((values, i) => lines[i].set(days, values));
      ["name", "split", "translation"].forEach((key, i) => shown[i].set(job.verdict[key]));
    }
    if (!drawn) return;
    const y = seen();
    heads.set(...drawn.rest.axes.map((axis) => cloud.map((_, i) => dot(axis, of(y, i))))), instant.set({ x: time.value });
  });
  figure.says = () => {
    if (!drawn) return "";
    const { rest, lambda, verdict } = drawn, y = seen(), goes = (rate) => `${rate < 0 ? "falls" : "grows"} at the rate ${number(Math.abs(rate))}`;
    return `The head at rest is ${number(rest.c)} θ*, the decay λ = ${number(lambda)}: ${verdict.name}. To first order and after a while the spread of the heads ${goes(verdict.split)}, their mean ${goes(verdict.translation)}. From τ = 0 to ${number(time.value)} the spread goes from ${number(spread(drawn.eta), 2)} to ${number(spread(y), 2)}, the mean from ${number(norm(mean(drawn.eta)), 2)} to ${number(norm(mean(y)), 2)}.`;
  };
  const at = thresholds[scales.findIndex((s) => s > 1 - 1e-9)].toSorted((a, b) => a - b), middle = (at[0] + at[1]) / 2;
  const go = (lambda) => () => { choose(1, lambda); player.start(); };
  figure.presets(["strong decay: stable", go(1.25 * at[1])], ["in between: heads split", go(middle)], ["weak decay: all leave", go(0.5 * at[0])]);
  begin();
});
