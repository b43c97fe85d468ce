// Appendix A, extremal: place and mass of atoms, moved by hand, against the certified minimiser of the energy on the circle.
// Parameters: levels: name, beta, activation, a (angles), omega, start; the minimiser best, its energy least, its gap. Atoms: [angle, mass].
explore.register("beat-the-minimiser", (figure, { levels }) => {
  const { number } = explore, { ring } = mfbook, { PI, max, min } = Math, TINY = 1e-9, FROM = -120, MOST = 12;
  const degrees = (a) => ((a * 180 / PI - FROM) % 360 + 360) % 360 + FROM, says = (x) => `${number(+x.toFixed(1), 4)}°`;
  const places = Float64Array.from({ length: 361 }, (_, i) => FROM + i), grid = places.map((x) => x * PI / 180);
  const circle = { label: "angle (degrees)", min: FROM, max: FROM + 360 }, words = (s) => (s < TINY ? "less than 1e-9" : number(s));
  const x = { label: "energy", min: TINY, max: 1, scale: "log" };
  let level, atoms = [], E, score, record, gap, at;
  figure.columns = 2;
  const mine = figure.panel({ title: "Your atoms", x: circle, y: { label: "mass" }, read: null });
  const field = figure.panel({ title: "Where mass would gain", x: circle, y: { label: "δE − its mean" }, click: (x) => add(x) });
  const board = figure.panel({ title: "How far from the best", ratio: 0.2, y: { names: ["certificate", "score"] }, x, read: null });
  const stems = mine.line({ legend: false }), answer = mine.points({ role: "leading", size: 6, label: "the minimiser" });
  const curve = field.line({ label: "δE − its mean over your atoms", legend: false }), dots = field.points({ role: "found", label: "your atoms" });
  const lowest = field.points({ role: "bound", size: 6, label: "mass would gain most" }), level0 = field.rule({ role: "reference" });
  const bars = [board.bars({ role: "bound", label: "certificate: the gap" }), board.bars({ label: "score: E − least E" })];
  const beaten = board.rule({ role: "reference", label: "best score so far" });
  const law = () => [level, Float64Array.from(atoms, (h) => h.x * PI / 180), Float64Array.from(atoms, (h) => h.y)];
  function share(own, mass) { // one atom has this mass, the others keep their proportions
    const others = atoms.filter((h) => h !== own), rest = others.reduce((sum, h) => sum + h.y, 0);
    others.forEach((h) => h.set(h.x, rest > 1e-12 ? h.y * (1 - mass) / rest : (1 - mass) / others.length));
  }
  function atom(x, y) {
    const handle = mine.handle({ label: "Atom", legend: "atom (drag it; up is mass)", role: "measured", group: "atoms", step: 0.0025, x, y, remove: take, move: (_, m) => share(handle, m),
      constrain: (u, m) => [u, atoms.length > 1 ? m : 1], text: (u, m) => `mass ${number(m)} at ${says(u)}` });
    atoms.push(handle);
  }
  function add(x) { // with the mass that is best there: E is quadratic along the mixture with a point
    const [F, theta, w] = law(), point = Float64Array.of(x * PI / 180), own = ring.firstVariation(F, theta, w);
    const gain = own.reduce((sum, v, i) => sum + w[i] * v, 0) - ring.firstVariation(F, theta, w, point)[0];
    const mass = max(0.02, min(1, gain / (2 * (ring.energy(F, point) - E + gain))));
    if (atoms.length < MOST) atom(x, mass), share(atoms.at(-1), mass);
  }
  const take = (handle) => { if (atoms.length > 1) atoms = atoms.filter((h) => h !== handle), handle.remove(), share(null, 0); };
  function load(i) {
    [level, record] = [levels[i], Infinity], atoms.splice(0).forEach((h) => h.remove());
    level.start.forEach(([a, m]) => atom(degrees(a), m));
  }
  figure.presets(...levels.map(({ name }, i) => [name, () => load(i)]));
  const show = figure.checkbox({ label: "show the minimiser" });
  figure.button("Add an atom where mass gains most", () => add(degrees(at)));
  figure.button("Remove the lightest", () => take(atoms.reduce((a, b) => (b.y < a.y ? b : a))));
  figure.player({ step: 0.1, advance(dt) { // the flow of descent: places move, masses do not
    for (let left = max(1, Math.round(60 * dt)); left > 0; left--) {
      const [F, theta, w] = law();
      ring.step(F, theta, w).forEach((a, i) => atoms[i].set(degrees(a), w[i]));
    }
    const [F, theta, w] = law();
    return ring.velocity(F, theta, w).some((u) => Math.abs(u) > 1e-6);
  } });
  const values = ["score E − least E", "best so far", "certificate", "least E"].map((name) => figure.value(name));
  figure.update(() => {
    const [F, theta, w] = law(), own = ring.firstVariation(F, theta, w), middle = own.reduce((sum, v, i) => sum + w[i] * v, 0);
    [E, { gap, at }] = [ring.energy(F, theta, w), ring.gap(F, theta, w)];
    score = max(0, E - F.least), record = min(record, score);
    const f = ring.firstVariation(F, theta, w, grid).map((v) => v - middle), top = max(...f), { y } = field;
    if (-gap < y.min || top > y.max || top + gap < 0.3 * (y.max - y.min)) // lay out again: its numbers may be longer
      Object.assign(y, { min: -gap - 0.2 * (top + gap), max: top + 0.2 * (top + gap) }), figure.laid = null, figure.layout();
    stems.set(atoms.flatMap((h) => [h.x, h.x, NaN]), atoms.flatMap((h) => [0, h.y, NaN]));
    answer.set(show.value ? F.best.map(([a]) => degrees(a)) : [], F.best.map(([, m]) => m));
    curve.set(places, f), level0.set({ y: 0 }), dots.set(atoms.map((h) => h.x), own.map((v) => v - middle)), lowest.set([degrees(at)], [-gap]);
    bars[0].set([0], [gap]), bars[1].set([1], [score]), beaten.set({ x: max(record, TINY) });
    [words(score), words(record), words(gap), `${number(F.least)}, certified to ${number(F.gap, 1)}`].forEach((v, i) => values[i].set(v));
  });
  figure.says = () => `You have ${atoms.map((h) => `mass ${number(h.y)} at ${says(h.x)}`).join(", ")}. Your energy is above the `
    + `least by ${words(score)}; best so far ${words(record)}. From your atoms alone the certificate says: by ${words(gap)} at most. `
    + (gap < TINY ? "No mass would gain anywhere." : `Mass would gain most at ${says(degrees(at))}.`)
    + (show.value ? ` The minimiser has ${level.best.map(([a, m]) => `mass ${number(m)} at ${says(degrees(a))}`).join(", ")}.` : "");
  load(0);
});
