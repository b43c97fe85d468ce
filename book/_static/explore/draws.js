// Chapter 4: M heads drawn from the best law, again and again, against three bounds on the mean excess.
// Parameters: X, W_U, heads of the law, k, B, sigma2. The labels are what the law predicts.
explore.register("draws", (figure, { X, W_U, heads, k, B, sigma2 }) => {
  const { number } = explore, { bounds, headsNeeded, logCosh } = mfbook, LAST = 12, BINS = 48, LOW = -7, HIGH = 1;
  const task = mfbook.task(X, X.map((x) => x.map(() => W_U[0].map(() => 0))), W_U, k, k);
  const theta = Float64Array.from(heads.flat()), n = heads.length;
  const phi = mfbook.features(task, theta), size = phi.length / n;
  task.Y = mfbook.at(task, theta).p;
  const whole = mfbook.at(task, theta);
  const rng = mfbook.generator(4), f = new Float64Array(size);
  const laws = {
    teacher: { B, sigma2, name: "the teacher's law", draw(M) { // how often each head is drawn, then the mean of the features
      const times = new Float64Array(n);
      for (let i = 0; i < M; i++) times[rng.integer(n)] += 1 / M;
      f.fill(0);
      times.forEach((w, m) => { if (w) for (let j = 0; j < size; j++) f[j] += w * phi[m * size + j]; });
      return mfbook.predict(task, f).value - whole.value;
    } },
    coins: { B: Math.SQRT2, sigma2: 2, name: "two coins", draw(M) {
      let sum = 0;
      for (let i = 0; i < M; i++) sum += rng.uniform() < 0.5 ? 1 : -1;
      return logCosh(sum / M);
    } },
  };
  for (const law of Object.values(laws)) // what was drawn, for each M
    law.drawn = Array.from({ length: LAST + 1 }, () => ({ count: 0, sum: 0, squares: 0, logs: [] }));

  const once = figure.panel({
    title: "One draw after another", weight: 0.9, read: "x",
    x: { label: "excess risk (nats), powers of ten", name: "log₁₀ excess", min: LOW, max: HIGH },
    y: { label: "share of the draws", name: "share", min: 0, max: 0.3 },
  });
  const mean = figure.panel({
    title: "Their mean", x: { label: "number of heads M", name: "M", min: 1, max: 2 ** LAST, scale: "log" },
    y: { label: "mean excess (nats)", name: "mean excess", min: 1e-5, max: 100, scale: "log" },
  });
  const histogram = once.bars({ role: "measured", fill: 0.9, label: "share of the draws", legend: false });
  const middle = once.rule({ role: "found", label: "mean of the draws" });
  const lines = [["monteCarlo", "bound", "√2 B/√M"], ["sharp", "second", "B²/4M"], ["variance", "sharpened", "σ²/4M"]]
    .map(([name, role, label]) => ({ name, line: mean.line({ role, label }) }));
  const wanted = mean.rule({ role: "reference", label: "excess asked for" });
  const means = mean.points({ role: "found", size: 4, label: "that mean, each M" });
  const current = mean.points({ role: "found", size: 7, legend: false });

  const source = figure.select({ label: "Heads from", value: "teacher",
    options: Object.entries(laws).map(([key, law]) => [key, law.name]) });
  const power = figure.slider({ label: "heads M", min: 0, max: LAST, value: 4, step: 1, format: (p) => String(2 ** p) });
  const excess = figure.field({ label: "excess asked for (nats)", value: 0.01, min: 1e-5, max: 10 });
  const more = (times, law = laws[source.value], p = power.value) => {
    const M = 2 ** p, here = law.drawn[p];
    for (let i = 0; i < times; i++) {
      const e = Math.max(law.draw(M), 0); // rounding may take an excess of zero below it
      here.count++; here.sum += e; here.squares += e * e;
      here.logs.push(Math.min(Math.max(Math.log10(e), LOW), HIGH - 1e-9));
    }
    figure.changed();
  };
  figure.button("Draw once", () => more(1));
  figure.button("Draw 100 times", () => more(100));
  figure.player({ advance: (dt) => { more(Math.ceil(60 * dt)); return laws[source.value].drawn[power.value].count < 5000; } });
  const draw = (law, p) => () => { source.value = law; power.value = p; more(100); };
  figure.presets(["four heads of the teacher", draw("teacher", 2)], ["a thousand heads", draw("teacher", 10)], ["a thousand coins", draw("coins", 10)]);
  const shown = ["draws", "mean excess", "M for the excess: √2 B/√M", "B²/4M", "σ²/4M"].map((name) => figure.value(name));
  for (const law of Object.values(laws)) for (let p = 0; p <= LAST; p += 2) more(100, law, p);

  const grid = Float64Array.from({ length: LAST + 1 }, (_, p) => 2 ** p);
  const width = (HIGH - LOW) / BINS, centres = Array.from({ length: BINS }, (_, i) => LOW + (i + 0.5) * width);
  const average = (here) => here.sum / here.count;
  const constant = (law, name) => (name === "variance" ? law.sigma2 : law.B);
  const needed = (law) => lines.map(({ name }) => headsNeeded(name, constant(law, name), excess.value).toLocaleString("en-US"));
  figure.update(() => {
    const law = laws[source.value], here = law.drawn[power.value], some = law.drawn.map((d, p) => (d.count ? p : -1)).filter((p) => p >= 0);
    const shares = [...explore.counts(here.logs, LOW, HIGH, BINS)].map((c) => c / Math.max(here.count, 1));
    const top = [0.3, 0.6, 1].find((t) => t >= Math.max(...shares) - 1e-9);
    if (top !== once.y.max) once.range("y", 0, top);
    histogram.set(centres, shares);
    middle.set(here.sum ? { x: Math.max(Math.log10(average(here)), LOW) } : {});
    for (const { name, line } of lines) line.set(grid, grid.map((M) => bounds[name](constant(law, name), M)));
    wanted.set({ y: excess.value });
    means.set(some.map((p) => 2 ** p), some.map((p) => Math.max(average(law.drawn[p]), 1e-12)));
    current.set(here.count ? [2 ** power.value] : [], [Math.max(average(here), 1e-12)]);
    [here.count, here.count ? average(here) : "–", ...needed(law)].forEach((value, i) => shown[i].set(value));
  });
  figure.says = () => {
    const law = laws[source.value], M = 2 ** power.value, here = law.drawn[power.value], ask = needed(law);
    const error = here.count > 1 ? Math.sqrt(Math.max(here.squares / here.count - average(here) ** 2, 0) / (here.count - 1)) : NaN;
    return (here.count ? `${here.count} draws of ${M} heads from ${law.name}: the mean excess is ${number(average(here))}`
      + (here.count > 1 ? `, with standard error ${number(error, 2)}. ` : ". ") : `No draw of ${M} heads from ${law.name} yet. `)
      + `The bounds on the mean say ${lines.map(({ name }) => number(bounds[name](constant(law, name), M))).join(", ")}; `
      + `for a mean excess of ${number(excess.value)} they ask for ${ask.join("; ")} heads.`;
  };
});
