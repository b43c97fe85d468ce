// Chapter 1: an empty layer under ridge λ. Do heads near zero wake, and would one loud head among M lower risk and ridge?
// Parameters: task X, Y, W_U, k, v; λ_c, λ*; four faint heads; two heads, [W_Q W_K, W_V W_O of norm 1]: uniform, with content.
explore.register("ridge", (figure, { X, Y, W_U, k, v, lambda_c, lambda_star, faint, uniform, content, share: first, heads: many }) => {
  const { number } = explore, task = mfbook.task(X, Y, W_U, k, v), END = 80, STEPS = 20, LOUD = 3.5, POINTS = 50;
  const times = Array.from({ length: STEPS + 1 }, (_, i) => i * END / STEPS), loudness = Array.from({ length: POINTS + 1 }, (_, i) => i * LOUD / POINTS);
  const norm = (theta) => Math.sqrt(theta.reduce((sum, x) => sum + x * x, 0) / faint.length), none = mfbook.risk(task, new Float64Array(task.D));
  const price = figure.panel({ title: "One loud head in an empty layer", x: { label: "loudness √(‖z‖²/M)", name: "loudness", max: LOUD },
    y: { label: "change of risk + ridge (nats)", name: "change", min: -0.35, max: 0.25 }, ratio: 0.8 });
  const wake = figure.panel({ title: "Four heads near zero", x: { label: "time τ", max: END }, y: { label: "size", min: 1e-6, max: 5, scale: "log" }, ratio: 0.8 });
  price.rule({ role: "reference", label: "no head at all" }).set({ y: 0 });
  const curves = [["measured", "it sees all words alike"], ["second", "it looks at chosen words"]].map(([role, label]) => price.line({ role, label }));
  const lowest = price.points({ role: "found", size: 6, label: "lowest" });
  const size = wake.line({ role: "bound", label: "the four heads" }), linear = wake.line({ role: "leading", label: "rate λ_c − λ" });
  const ridge = figure.slider({ label: "ridge λ/λ_c", min: 0.5, max: 2.2, value: first });
  const count = figure.slider({ label: "heads M", min: 32, max: 1e5, value: many, log: true, format: (M) => number(Math.round(M)) });
  const set = (share) => () => { ridge.value = share; };
  figure.presets(["below λ_c", set(0.7)], ["between the thresholds", set((1 + lambda_star / lambda_c) / 2)], ["above λ*", set(1.1 * lambda_star / lambda_c)]);
  const shown = ["empty layer", "rate near zero", "lowest change"].map((name) => figure.value(name));
  let job, best, key;
  const change = ([y, z], lambda, M) => loudness.map((t) => mfbook.risk(task, Float64Array.from([...y, ...z.map((x) => x * t * Math.sqrt(M))]), { weights: [1 / M], lambda }) - none);
  figure.update(() => { // a flow takes several frames; meanwhile the last one that is complete is shown
    const began = performance.now(), lambda = ridge.value * lambda_c, M = Math.round(count.value);
    if (key !== (key = `${lambda} ${M}`)) {
      const values = [uniform, content].map((head) => change(head, lambda, M)), least = values.map((list) => list.indexOf(Math.min(...list)));
      best = values.map((list, i) => list[least[i]]);
      values.forEach((list, i) => curves[i].set(loudness, list)), lowest.set(least.map((i) => loudness[i]), best);
      [mfbook.ridgeRegime(lambda, lambda_c, lambda_star), lambda_c - lambda, Math.min(...best)].forEach((value, i) => shown[i].set(value));
    }
    if (!job || (job.size.length > STEPS && job.lambda !== lambda)) {
      const start = Float64Array.from(faint.flat());
      job = { lambda, size: [norm(start)], run: mfbook.stepper(mfbook.velocity(task, { lambda }), start, { rtol: 1e-4 }) };
    }
    while (job.size.length <= STEPS && performance.now() - began < 4 + 10 * !size.data) if (job.run.advance(times[job.size.length])) job.size.push(norm(job.run.y));
    if (job.size.length <= STEPS || job.lambda !== lambda) figure.changed();
    if (job.size.length <= STEPS) return;
    size.set(times, job.size), linear.set(times, times.map((t) => job.size[0] * Math.exp((lambda_c - job.lambda) * t)));
  });
  figure.says = () => {
    const does = (x) => (x < -1e-9 ? `lowers risk and ridge by up to ${number(-x, 2)}` : "does not lower risk and ridge"), grow = lambda_c * (1 - ridge.value);
    return `At λ = ${number(ridge.value)} λ_c the empty layer is ${mfbook.ridgeRegime(ridge.value * lambda_c, lambda_c, lambda_star)}${ridge.value * lambda_c < lambda_star ? "" : " as far as a search has found"}. Heads near zero ${grow > 0 ? "grow" : "shrink"} at the rate ${number(Math.abs(grow), 2)}. One loud head among M = ${number(Math.round(count.value))} that sees all words alike ${does(best[0])}; one that looks at chosen words ${does(best[1])}.`;
  };
});
