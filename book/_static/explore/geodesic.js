// Primer: two ways between two networks of three neurons (w, a), and the loss along both.
// Parameters: x, y, the data on the line.
explore.register("geodesic", (figure, { x, y }) => {
  const { number } = explore, { transport, networkLoss } = mfbook, SIDE = 3, STEPS = 60;
  const grid = Float64Array.from({ length: STEPS + 1 }, (_, i) => i / STEPS);
  const presets = {
    negative: ["a neuron and its negative", [[1.5, 1], [1.5, 1.4], [1.5, 0.6]], [[-1.5, -1], [-1.5, -0.6], [-1.5, -1.4]]],
    answers: ["the same answer, other neurons", [[2, 2.6], [1, 0.8], [0.6, -0.3]], [[-2, -2.6], [-1, -0.8], [0.6, -0.3]]],
    near: ["two networks close together", [[1, 0.6], [1.6, 1], [0.8, 1.4]], [[1.4, 0.9], [2, 1.3], [1.2, 1.7]]],
  };
  const plane = figure.panel({ title: "The neurons", equal: true, weight: 0.9, read: null,
    x: { label: "inner weight w", min: -SIDE, max: SIDE }, y: { label: "outer weight a", min: -SIDE, max: SIDE } });
  const heights = figure.panel({ title: "The loss on the way",
    x: { label: "position s on the way", name: "s", max: 1 }, y: { label: "loss L", name: "L", max: 0.5 } });
  const ways = Array.from({ length: 3 }, () => plane.line({ role: "reference", legend: false }));
  const stays = plane.points({ role: "measured", size: 6, label: "mixture: neurons fade and appear" });
  const moves = plane.points({ role: "second", size: 6, label: "geodesic: neurons move" });
  const lines = { mixture: heights.line({ role: "measured", label: "L of the mixture" }),
    geodesic: heights.line({ role: "second", label: "L of the geodesic" }), chord: heights.line({ role: "reference", label: "chord" }) };
  const now = { mixture: heights.points({ role: "measured", size: 6, legend: false }),
    geodesic: heights.points({ role: "second", size: 6, legend: false }) };

  const s = figure.slider({ label: "position s", min: 0, max: 1, value: 0.5, step: 0.01 });
  const ends = ["Start", "End"].map((word, e) => presets.negative[e + 1].map((p, i) => plane.handle({
    label: `${word}, neuron ${i + 1}`, role: e ? "leading" : "bound", legend: `neuron of the ${word.toLowerCase()} (drag)`, group: word, x: p[0], y: p[1], size: 6,
    text: (w, a) => `w = ${number(w)}, a = ${number(a)}` })));
  const player = figure.player({ slider: s, seconds: 6 });
  figure.presets(...Object.values(presets).map(([name, ...both]) => [name, () => {
    both.forEach((list, e) => list.forEach((p, i) => ends[e][i].set(...p)));
    player.start();
  }]));
  const shown = ["W₂", "L at s, mixture", "L at s, geodesic", "most above the chord"].map((name) => figure.value(name));

  const flip = (points) => points.map(([w, a]) => [a, w]), loss = (points, weights) => networkLoss(x, y, flip(points), weights);
  const words = { key: "" };
  figure.update(() => {
    const [mu, nu] = ends.map((end) => end.map((h) => [h.x, h.y])), key = JSON.stringify([mu, nu]);
    if (words.key !== key) { // the best plan, and the loss along both ways
      const plan = transport.plan(mu, undefined, nu), [first, last] = [loss(mu), loss(nu)];
      const L = { mixture: [], geodesic: [], chord: Array.from(grid, (r) => (1 - r) * first + r * last) };
      for (const r of grid) {
        const moved = transport.displacement(plan, mu, nu, r), mixed = transport.mixture(mu, undefined, nu, undefined, r);
        L.geodesic.push(loss(moved.points, moved.weights));
        L.mixture.push(loss(mixed.points, mixed.weights));
      }
      const bump = (values) => Math.max(...values.map((v, i) => v - L.chord[i]));
      Object.assign(words, { key, plan, L, first, last, W2: transport.distance(plan, mu, nu), bump: bump(L.geodesic) });
      for (const name in lines) lines[name].set(grid, L[name]);
      plan.forEach(([i, j], n) => ways[n].set([mu[i][0], nu[j][0]], [mu[i][1], nu[j][1]]));
      const top = 1.1 * Math.max(0.05, ...L.mixture, ...L.geodesic), nice = [0.1, 0.2, 0.5, 1, 2, 5, 10].find((t) => t >= top) ?? 20;
      if (nice !== heights.y.max) heights.range("y", 0, nice);
    }
    const r = s.value, moved = transport.displacement(words.plan, mu, nu, r);
    const both = transport.mixture(mu, undefined, nu, undefined, r), at = { geodesic: loss(moved.points), mixture: loss(both.points, both.weights) };
    moves.set(moved.points.map((p) => p[0]), moved.points.map((p) => p[1]));
    stays.set(both.points.map((p) => p[0]), both.points.map((p) => p[1]), both.weights.map((w) => 26 * Math.sqrt(w)));
    for (const name in now) now[name].set([r], [at[name]]);
    Object.assign(words, at);
    [words.W2, at.mixture, at.geodesic, words.bump > 1e-9 ? words.bump : "never above"].forEach((v, i) => shown[i].set(v));
  });
  figure.says = () => `Two networks of three neurons, W₂ = ${number(words.W2)} apart, with losses ${number(words.first)} and ${number(words.last)}. `
    + `At s = ${number(s.value)} the mixture has loss ${number(words.mixture)} and the geodesic ${number(words.geodesic)}. `
    + (words.bump > 1e-9 ? `Along the geodesic the loss rises up to ${number(words.bump)} above its chord; along the mixture it never does.`
      : "Here the loss stays below its chord on both ways.");
});
