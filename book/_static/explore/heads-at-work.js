// Chapter 1: heads learn three sentences. One can read, drag and remove them, and scrub through what was computed.
// Parameters: task X, Y, W_U, k, v; start heads, their size; sentences, words, which answer; place of the animal; least risk;
// what was computed up to the time that is shown first: look, adds and risk at each step, and the heads at its end.
explore.register("heads-at-work", (figure, { X, Y, W_U, k, v, start, size, sentences, words, answers, animal, floor, opening }) => {
  const { number } = explore, task = mfbook.task(X, Y, W_U, k, v), { S, T, V, D } = task, END = 100, STEP = 0.5, TAIL = 20;
  const mean = (term) => sentences.reduce((sum, _, s) => sum + term(s) / S, 0), edge = (a) => Math.min(0.99, Math.max(0.01, a));
  const look = (theta, m) => mean((s) => mfbook.attention(task, theta, m, s)[(T - 1) * T + animal]);
  const right = (phi, m) => mean((s) => answers.reduce((sum, word, j) => sum + (j === s ? 1 : -1 / (S - 1)) * phi[((m * S + s) * T + T - 1) * V + word], 0));
  const read = (head) => { const a = look(head, 0); return [Math.log((a + 1e-12) / (1 - a + 1e-12)), right(mfbook.features(task, head), 0)]; };
  const plane = figure.panel({ title: "The heads", x: { label: "attention to the animal" }, weight: 1.5, ratio: 0.9,
    y: { label: "logit for the right place", min: -2, max: 150, scale: "soft" }, read: null });
  const law = figure.panel({ title: "Next word", read: null, x: { label: "probability" }, y: { names: ["other", ...answers.map((i) => words[i]).reverse()] } });
  const curve = figure.panel({ title: "Risk", x: { label: "time τ", max: END }, y: { label: "nats per token", max: 2.4 },
    read: (t, _, at = states[Math.round(t / STEP)]) => [`τ = ${number(t)}`, at ? `risk ${number(at.risk[0])}` : "not yet computed"] });
  plane.explain({ kind: "points", role: "found", label: "a head (drag it)" });
  const tails = plane.line({ role: "reference", label: "its last ten units of time" }), ring = plane.points({ role: "second", shape: "circle", size: 8, label: "chosen head" });
  const bars = law.bars({ role: "measured" }), sizes = [0, 1, 2, 3].map(() => law.text()), fall = curve.line({ role: "measured", label: "risk" }), now = curve.points({ role: "found", size: 5 });
  curve.rule({ role: "reference", label: "least possible" }).set({ y: floor });
  const time = figure.slider({ label: "time τ", min: 0, max: END, value: 0, change: to });
  const count = figure.slider({ label: "heads M", min: 1, max: start.length, value: start.length, step: 1, change: again });
  const scale = figure.slider({ label: "start size", min: 0.01, max: 1, value: size, log: true, change: again });
  const decay = figure.slider({ label: "decay λ", min: 0, max: 0.25, value: 0, change: () => { if (states[index()].theta) edit((theta) => theta); } });
  const sentence = figure.select({ label: "Sentence", value: 0, options: sentences.map((text, s) => [s, text]) });
  figure.button("Remove the head", () => remove(chosen));
  const player = figure.player({ seconds: 25, advance(dt) { goal = Math.min(END, goal % END + dt * END / 25, dt < 0.2 ? end() + STEP : END); return goal < END; } });
  const train = (heads, ridge) => () => { [count.value, decay.value] = [heads, ridge]; again(), player.start(); };
  figure.presets(["from the start", train(start.length, 0)], ["four heads only", train(4, 0)], ["with weight decay", train(start.length, 0.1)]);
  const shown = ["risk", "chosen head", "its attention", "its logit", "its price Ψ"].map((name) => figure.value(name));

  let goal = 0, states, run, handles = [], chosen, wish; // a state at each STEP; the head that is read; which head is dragged, to where
  const terms = () => ({ weights: handles.map(() => 1 / count.value), lambda: decay.value });
  function state(theta) {
    const here = mfbook.at(task, theta, terms().weights), phi = mfbook.features(task, theta), { psi } = mfbook.forces(task, here, theta, terms());
    return { theta, p: here.p, risk: [here.value], psi, look: handles.map((_, m) => look(theta, m)), adds: handles.map((_, m) => right(phi, m)) };
  }
  const end = () => (states.length - 1) * STEP, index = () => Math.round(Math.min(end(), goal) / STEP);
  function edit(change, i = index()) { // what was computed from there on is of no use
    [states, run, goal] = [[...states.slice(0, i), state(change(states[i].theta))], null, i * STEP];
  }
  function to(t) { // the past of what is shown first was not stored whole: it is computed again
    if (!states[0].theta && t < goal) again();
    goal = t;
  }
  function again() {
    for (const handle of handles) handle.remove();
    handles = start.slice(0, count.value).map((_, i) => {
      const choose = () => { chosen = handle; figure.changed(); }, text = (x, y) => `attention ${number(x)}, logit ${number(y)}`;
      const move = (x, y) => { choose(); wish = { handle, to: [Math.log(edge(x) / (1 - edge(x))), y], left: 8 }; };
      const handle = Object.assign(plane.handle({ label: `Head ${i + 1}`, group: "heads", role: "found", size: 5, remove, text, move }), { name: i + 1 });
      for (const event of ["focus", "pointerenter"]) handle.node.addEventListener(event, choose);
      return handle;
    });
    [wish, states] = [null, [{ theta: Float64Array.from(start.slice(0, count.value).flat(), (x) => x * scale.value / size) }]];
    edit((theta) => theta, 0);
    chosen = loudest();
  }
  function open() { // where something is to be seen
    again();
    const { look, adds, risk, theta } = opening, last = risk.length - 1;
    [states, goal] = [risk.map((value, i) => ({ look: look[i], adds: adds[i], risk: [value] })), last * STEP];
    states[last] = state(Float64Array.from(theta.flat()));
    chosen = loudest();
  }
  function remove(handle) { // the others keep their weight; the past keeps its predictions
    const m = handles.indexOf(handle), rest = (list, each = 1) => list.filter((_, i) => Math.floor(i / each) !== m);
    if (handles.length === 1) return;
    [handles, wish] = [rest(handles), handle.remove()];
    states = states.map(({ theta, look, adds, psi, ...kept }) => ({ ...kept, look: rest(look), adds: rest(adds), ...(theta && { theta: rest(theta, D), psi: rest(psi) }) }));
    edit((theta) => theta);
    chosen = loudest();
  }
  function seen(key) { // at time τ, between two stored times on a line
    const t = Math.min(end(), goal) / STEP, [low, high] = [states[Math.floor(t)][key], states[Math.ceil(t)][key]];
    return Array.from(low, (x, i) => x + (t % 1) * (high[i] - x));
  }
  const loudest = () => handles[seen("adds").reduce((best, y, i, all) => (y > all[best] ? i : best), 0)];
  const chances = (p, s = sentence.value, at = (s * T + T - 1) * V) => answers.map((word) => p[at + word]);
  figure.update(() => {
    const began = performance.now(), still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (wish) { // a step of the head to where it is wished, by the least change
      const m = handles.indexOf(wish.handle) * D;
      edit((theta) => Float64Array.of(...theta.slice(0, m), ...mfbook.reach(read, theta.slice(m, m + D), wish.to, 1), ...theta.slice(m + D)));
      if (--wish.left) figure.changed(); else wish = null;
    }
    while (end() < goal && performance.now() - began < (still ? 50 : 3)) {
      run ??= mfbook.stepper(mfbook.velocity(task, terms()), states.at(-1).theta, { t: end() });
      if (run.advance(states.length * STEP, 0)) states.push(state(run.y.slice()));
    }
    if (end() < goal) figure.changed();
    if (end() < goal && still) return; // no picture until it is there
    if (time.value !== goal) time.value = goal;
    const [x, y, p, [risk], psi] = ["look", "adds", "p", "risk", "psi"].map(seen), m = handles.indexOf(chosen), last = Math.min(end(), goal) / STEP;
    const tail = states.slice(Math.max(0, Math.ceil(last) - TAIL), Math.floor(last) + 1), chance = chances(p);
    handles.forEach((handle, i) => handle.set(x[i], y[i]));
    tails.set(handles.flatMap((_, i) => [...tail.map((s) => s.look[i]), x[i], NaN]), handles.flatMap((_, i) => [...tail.map((s) => s.adds[i]), y[i], NaN]));
    ring.set([x[m]], [y[m]]), now.set([last * STEP], [risk]), fall.set(states.map((_, i) => i * STEP), states.map((s) => s.risk[0]));
    const all = [1 - chance.reduce((a, b) => a + b), ...chance.reverse()];
    bars.set([0, 1, 2, 3], all), sizes.forEach((words, i) => words.set(all[i] + 0.03, i, all[i].toFixed(2)));
    [risk, `${chosen.name} of ${count.value}`, x[m], y[m], psi[m]].forEach((value, i) => shown[i].set(value));
  });
  figure.says = () => {
    const [x, y, psi] = ["look", "adds", "psi"].map(seen), m = handles.indexOf(chosen), loud = handles.indexOf(loudest()), s = sentence.value;
    return `At τ = ${number(Math.min(end(), goal))} the layer has ${handles.length} of ${count.value} heads (start size ${number(scale.value)}, decay λ = ${number(decay.value)}). After “${sentences[s]}” it gives “${words[answers[s]]}” the probability ${number(chances(seen("p"))[s], 2)}; its risk is ${number(seen("risk")[0])}, the least possible ${number(floor)}. Loudest for the right place is head ${handles[loud].name}, with attention ${number(x[loud], 2)} and logit ${number(y[loud])}. Chosen is head ${chosen.name}: attention ${number(x[m], 2)}, logit ${number(y[m])}, price ${number(psi[m])}.`;
  };
  open();
});
