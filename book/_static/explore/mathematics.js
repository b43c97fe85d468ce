// The mathematics of the figures that compute in the page: what mfbook computes, without Python. A classic script
// that defines one global, `mfbook`. Letters are the paper's. Arrays are flat Float64Arrays, row by row, unless said
// to be nested; angles in radians; times are rescaled times tau; risks in nats per token. Tests compare with mfbook.
//   generator                        uniform(), normal(), integer(n) from a seed
//   rk4, stepper, integrate          fixed steps; Dormand-Prince 5(4), going on or at given times
//   task, at, predict, risk          an attention risk; logits, probabilities, value at a law
//   forces, velocity                 Psi and its gradient at any heads; the field of the flow
//   attention, features              rows A; phi, the logits of each head alone
//   bounds, headsNeeded, logCosh     Chapter 4: the excess of M heads, the M for an excess; coins
//   oneHead                          Chapter 6: E = log cosh(ab), with a^2 - b^2 conserved
//   eigen, dirac, verdict            Chapter 7: H and K, their eigenvalues, thresholds of lambda
//   criticalRidge, ridgeRegime       lambda_c from the data; the regimes of the empty layer
//   erf, activations, ring           Appendix A: the sphere energy on the circle
//   transport                        W2: plan, distance, displacement and mixture
//   networkLoss                      the primer's loss, neurons (a, w) on data on the line
globalThis.mfbook = (() => {
  "use strict";
  const zeros = (n) => new Float64Array(n), equal = (n) => zeros(n).fill(1 / n);
  const flat = (nested) => Float64Array.from(nested.flat(Infinity));
  // ---- draws: mulberry32 (Tommy Ettinger, public domain) and Box-Muller
  function generator(seed) {
    let state = seed >>> 0;
    const uniform = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let z = Math.imul(state ^ (state >>> 15), state | 1);
      z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
      return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
    };
    const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
    return { uniform, normal, integer: (n) => Math.floor(n * uniform()) };
  }
  // ---- integrators: a field f(y, out) writes dy/dtau at y into out, and leaves y alone
  function combine(c, k, h, from, out) { // out = from + h (c_0 k_0 + c_1 k_1 + ...)
    out.set(from);
    for (let j = 0; j < c.length; j++) {
      const part = h * c[j], kj = k[j];
      for (let i = 0; i < out.length; i++) out[i] += part * kj[i];
    }
  }
  const RK4 = [[1 / 2], [0, 1 / 2], [0, 0, 1], [1 / 6, 1 / 3, 1 / 3, 1 / 6]];
  function rk4(f, start, h, steps = 1) {
    const y = Float64Array.from(start), z = y.slice(), k = RK4.map(() => y.slice());
    for (let step = 0; step < steps; step++, y.set(z))
      RK4.forEach((c, s) => { f(s ? z : y, k[s]); combine(c, k, h, y, z); });
    return y;
  }
  // Dormand and Prince, J. Comput. Appl. Math. 6 (1980) 19-26: the pair of SciPy's RK45
  const STAGES = [[1 / 5], [3 / 40, 9 / 40], [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]];
  const DEFECT = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40];
  // A run that goes on: advance(time) moves .y there. It says false when the budget of steps is
  // spent, or when steps collapse: at a kink, or where the solution leaves every bound.
  function stepper(f, start, { rtol = 1e-6, atol = 1e-9, t = 0 } = {}) {
    const n = start.length, none = zeros(n), e = zeros(n), k = DEFECT.map(() => zeros(n));
    const run = { y: Float64Array.from(start), t, steps: 0, advance };
    const size = (x, other) => Math.sqrt(x.reduce((sum, xi, i) => // in units of the tolerance
      sum + (xi / (atol + rtol * Math.max(Math.abs(run.y[i]), Math.abs(other[i])))) ** 2, 0) / n);
    f(run.y, k[0]);
    let z = zeros(n), h = 0.01 * (size(run.y, run.y) + 1e-3) / (size(k[0], run.y) + 1e-12);
    function advance(until, budget = 100000) {
      while (run.t < until) {
        const last = run.t + 1.01 * h >= until, step = last ? until - run.t : h;
        STAGES.forEach((c, s) => { combine(c, k, step, run.y, z); f(z, k[s + 1]); });
        combine(DEFECT, k, step, none, e);
        const error = size(e, z), good = error <= 1; // not so for NaN
        const factor = Number.isNaN(error) ? 0.2 : Math.min(good ? 5 : 1, Math.max(0.2, 0.9 * error ** -0.2));
        if (good) { // the last stage is the first of the next step
          [run.y, z, k[0], k[6]] = [z, run.y, k[6], k[0]];
          [run.t, run.steps] = [last ? until : run.t + step, run.steps + 1];
        }
        h = good && last ? Math.max(h, step * factor) : step * factor; // `until` cut the step, not the error
        if (--budget < 0 || (!good && h < 1e-14 * Math.max(1e-3, Math.abs(run.t)))) return run.t >= until;
      }
      return true;
    }
    return run;
  }
  // States at increasing times, the first that of the start; fewer, and done false, if it ends early
  function integrate(f, start, times, { budget, ...options } = {}) {
    const run = stepper(f, start, { ...options, t: times[0] }), y = [run.y.slice()];
    while (y.length < times.length && run.advance(times[y.length], budget)) y.push(run.y.slice());
    return { t: Array.from(times).slice(0, y.length), y, steps: run.steps, done: y.length === times.length };
  }
  // ---- the attention risk. X (S, T, d), Y (S, T, V) one-hot or soft, W_U (d, V) nested. A head is D
  // numbers: W_Q, W_K (d, k), W_V (d, v), W_O (v, d); a law is n heads in a row, and n weights.
  const task = (X, Y, W_U, k, v) => ({ S: X.length, T: X[0].length, d: W_U.length, V: W_U[0].length, k, v,
    D: 2 * W_U.length * (k + v), X: flat(X), Y: flat(Y), W_U: flat(W_U) });
  const visible = (t, T) => t + 1; // the causal mask: position t sees u < visible
  // out += A B for A (n, m), B (m, p) at offsets a, b, o; flipped ones are stored transposed. Zeros of A
  // cost nothing: one-hot tokens, and attention behind its mask.
  function multiply(n, m, p, A, a, flipA, B, b, flipB, out, o) {
    const [ai, al, bl, bj] = [flipA ? 1 : m, flipA ? n : 1, flipB ? 1 : p, flipB ? m : 1];
    for (let i = 0; i < n; i++) for (let l = 0; l < m; l++) {
      const x = A[a + i * ai + l * al];
      if (x !== 0) for (let j = 0; j < p; j++) out[o + i * p + j] += x * B[b + l * bl + j * bj];
    }
  }
  function softmax(x, from, to, root = 1) { // of x / root, in place; the largest is taken out first
    let top = -Infinity, sum = 0;
    for (let i = from; i < to; i++) top = Math.max(top, x[i] /= root);
    for (let i = from; i < to; i++) sum += x[i] = Math.exp(x[i] - top);
    for (let i = from; i < to; i++) x[i] /= sum;
    return top + Math.log(sum);
  }
  const workspace = ({ T, d, k, v }) => ({ q: zeros(T * k), key: zeros(T * k), val: zeros(T * v), A: zeros(T * T),
    o: zeros(T * v), line: zeros(T * d), g: zeros(T * v), dA: zeros(T * T), dq: zeros(T * k), dkey: zeros(T * k) });
  // One head on one sequence: queries, keys, values, attention A, and o = A X W_V
  function attend({ T, d, k, v, D, X }, theta, m, s, { q, key, val, A, o }) {
    for (const part of [q, key, val, A, o]) part.fill(0);
    multiply(T, d, k, X, s * T * d, false, theta, m * D, false, q, 0);
    multiply(T, d, k, X, s * T * d, false, theta, m * D + d * k, false, key, 0);
    multiply(T, d, v, X, s * T * d, false, theta, m * D + 2 * d * k, false, val, 0);
    multiply(T, k, T, q, 0, false, key, 0, true, A, 0);
    for (let t = 0; t < T; t++) {
      softmax(A, t * T, t * T + visible(t, T), Math.sqrt(k));
      A.fill(0, t * T + visible(t, T), (t + 1) * T);
    }
    multiply(T, T, v, A, 0, false, val, 0, false, o, 0);
    return A;
  }
  const attention = (task, theta, m, s) => attend(task, theta, m, s, workspace(task)); // rows A, (T T)
  // Probabilities p and mean cross-entropy of logits (S T V)
  function predict({ S, T, V, Y }, logits) {
    const p = Float64Array.from(logits);
    let value = 0;
    for (let r = 0; r < p.length; r += V) {
      const level = softmax(p, r, r + V);
      for (let i = r; i < r + V; i++) value += Y[i] * (level - logits[i]);
    }
    return { p, value: value / (S * T) };
  }
  // What needs the law only once; dual = W_U (p - y) / (S T), seen from the tokens. Weights need not
  // sum to one: a head that is taken away leaves the weights of the others as they are.
  function at(task, theta, weights) {
    const { S, T, d, V, k, v, D, Y, W_U } = task, n = theta.length / D, work = workspace(task);
    const written = zeros(S * T * d), logits = zeros(S * T * V), dual = zeros(S * T * d);
    for (let m = 0; m < n; m++) for (let s = 0; s < S; s++) {
      attend(task, theta, m, s, work);
      work.line.fill(0);
      multiply(T, v, d, work.o, 0, false, theta, m * D + 2 * d * k + d * v, false, work.line, 0);
      for (let i = 0; i < T * d; i++) written[s * T * d + i] += (weights ? weights[m] : 1 / n) * work.line[i];
    }
    multiply(S * T, d, V, written, 0, false, W_U, 0, false, logits, 0);
    const { p, value } = predict(task, logits);
    multiply(S * T, V, d, p.map((pi, i) => (pi - Y[i]) / (S * T)), 0, false, W_U, 0, true, dual, 0);
    return { value, logits, p, dual };
  }
  // Psi (n) and its gradient G (n D) at heads x against the law of `local`, with the confinement
  // lambda/2 |theta - anchor|^2 (no anchor: ridge). Not the derivative of R in theta_i: that is G/M.
  function forces(task, local, x, { lambda = 0, anchor } = {}) {
    const { S, T, d, k, v, D, X } = task, n = x.length / D, work = workspace(task), Z = local.dual;
    const { q, key, val, A, o, g, dA, dq, dkey } = work, psi = zeros(n), G = zeros(n * D);
    for (let m = 0; m < n; m++) {
      const w = m * D, wK = w + d * k, wV = wK + d * k, wO = wV + d * v;
      for (let s = 0, z = 0; s < S; s++, z += T * d) {
        attend(task, x, m, s, work);
        for (const part of [g, dA, dq, dkey]) part.fill(0);
        multiply(T, d, v, Z, z, false, x, wO, true, g, 0); // g = Z W_O^T
        for (let i = 0; i < T * v; i++) psi[m] += o[i] * g[i];
        multiply(v, T, d, o, 0, true, Z, z, false, G, wO);
        multiply(T, v, T, g, 0, false, val, 0, true, dA, 0);
        multiply(T, T, v, A, 0, true, g, 0, false, val.fill(0), 0);
        multiply(d, T, v, X, z, true, val, 0, false, G, wV);
        for (let row = 0; row < T * T; row += T) { // through the softmax: A becomes the slope in the scores
          let mean = 0;
          for (let u = row; u < row + T; u++) mean += A[u] * dA[u];
          for (let u = row; u < row + T; u++) A[u] *= (dA[u] - mean) / Math.sqrt(k);
        }
        multiply(T, T, k, A, 0, false, key, 0, false, dq, 0);
        multiply(T, T, k, A, 0, true, q, 0, false, dkey, 0);
        multiply(d, T, k, X, z, true, dq, 0, false, G, w);
        multiply(d, T, k, X, z, true, dkey, 0, false, G, wK);
      }
      for (let i = 0, away; i < D && lambda; i++) {
        away = x[w + i] - (anchor ? anchor[i] : 0);
        G[w + i] += lambda * away, psi[m] += lambda / 2 * away * away;
      }
    }
    return { psi, gradient: G };
  }
  // The risk, confinement included; and the field of the flow: each head down its own Psi
  const risk = (task, theta, { weights = equal(theta.length / task.D), lambda = 0, anchor } = {}) =>
    theta.reduce((sum, x, i) => sum + lambda / 2 * weights[Math.floor(i / task.D)]
      * (x - (anchor ? anchor[i % task.D] : 0)) ** 2, at(task, theta, weights).value);
  const velocity = (task, { weights, ...confinement } = {}) => (theta, out) => {
    const { gradient } = forces(task, at(task, theta, weights), theta, confinement);
    for (let i = 0; i < out.length; i++) out[i] = -gradient[i];
  };
  function features(task, theta) { // phi, (n S T V): the logits of each head alone
    const size = task.S * task.T * task.V, phi = zeros(theta.length / task.D * size);
    for (let i = 0, j = 0; j < phi.length; i += task.D, j += size)
      phi.set(at(task, theta.slice(i, i + task.D)).logits, j);
    return phi;
  }
  // The nearest x, to first order, where read(x), a short list of numbers, is `target`: Gauss-Newton
  function reach(read, x, target, rounds = 20, far = 2, h = 1e-6) {
    for (let round = 0; round < rounds; round++) {
      const dot = (a, b) => a.reduce((sum, ai, i) => sum + ai * b[i], 0), now = read(x), near = Array.from(x, (_, j) => read(x.map((xi, i) => i === j ? xi + h : xi)));
      const J = now.map((value, r) => near.map((there) => (there[r] - value) / h)), left = now.map((value, r) => target[r] - value);
      const { values, vectors } = eigen(J.flatMap((a) => J.map((b) => dot(a, b))));
      const c = values.map((value, i) => dot(vectors[i], left) / (value + 1e-12 * values.at(-1) + 1e-300)); // nothing where nothing helps
      const by = x.map((_, i) => vectors.reduce((sum, q, j) => sum + c[j] * q.reduce((s, qr, r) => s + qr * J[r][i], 0), 0));
      x = x.map((xi, i) => xi + by[i] * Math.min(1, far / Math.sqrt(dot(by, by)) || 1)); // a step of at most `far`
    }
    return x;
  }
  // ---- Chapter 4: Theorem 4.1 with its constant, and sharper, from B = R_X R_U r^2 or from sigma^2
  const bounds = { monteCarlo: (B, M) => Math.SQRT2 * B / Math.sqrt(M), sharp: (B, M) => B * B / (4 * M),
    variance: (sigma2, M) => sigma2 / (4 * M) };
  function headsNeeded(name, constant, excess) { // least M whose bound is at most the excess, up to rounding
    const ratio = bounds[name](constant, 1) / excess;
    return Math.max(1, Math.ceil((name === "monteCarlo" ? ratio ** 2 : ratio) * (1 - 1e-12)));
  }
  const logCosh = (x) => Math.abs(x) < 1 ? Math.log1p(2 * Math.sinh(x / 2) ** 2)
    : Math.abs(x) + Math.log1p(Math.exp(-2 * Math.abs(x))) - Math.LN2;
  // ---- Chapter 6: a head of two numbers
  const oneHead = { energy: (a, b) => logCosh(a * b), conserved: (a, b) => a * a - b * b,
    bend: (c) => c * c / 8, // the energy at which the decay turns from tau^-2 to exponential
    velocity: ([a, b], out) => { out[0] = -b * Math.tanh(a * b); out[1] = -a * Math.tanh(a * b); } };
  // ---- Chapter 7: eigenvalues of a symmetric matrix, increasing, and unit eigenvectors, by Jacobi's rotations
  function eigen(matrix, n = Math.sqrt(matrix.length)) {
    const A = Float64Array.from(matrix), Q = zeros(n * n).map((_, i) => i % (n + 1) ? 0 : 1);
    const turn = (M, i, j, c, s) => [M[i], M[j]] = [c * M[i] - s * M[j], s * M[i] + c * M[j]];
    for (let sweep = 0; sweep < 30; sweep++) for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) {
      if (Math.abs(A[p * n + q]) < 1e-300) continue;
      const half = (A[q * n + q] - A[p * n + p]) / (2 * A[p * n + q]);
      const tan = (half < 0 ? -1 : 1) / (Math.abs(half) + Math.hypot(1, half)), c = 1 / Math.hypot(1, tan), s = c * tan;
      for (let i = 0; i < n; i++) turn(A, i * n + p, i * n + q, c, s);
      for (let i = 0; i < n; i++) for (const M of [A, Q]) turn(M, p * n + i, q * n + i, c, s);
    }
    const order = Array.from(A.slice(0, n).keys()).sort((i, j) => A[i * n + i] - A[j * n + j]);
    return { values: order.map((i) => A[i * n + i]), vectors: order.map((i) => Q.slice(i * n, (i + 1) * n)) };
  }
  // H moves the head against the law of theta, K the law under the head; both without confinement.
  // Differences of order 8: at this step truncation and rounding are both about 1e-13.
  const STENCIL = [4 / 5, -1 / 5, 4 / 105, -1 / 280], STEP = 0.02;
  function dirac(task, theta) {
    const D = task.D, here = at(task, theta), H = zeros(D * D), K = zeros(D * D);
    for (let j = 0; j < D; j++) for (let far = -4; far <= 4; far++) if (far) {
      const moved = Float64Array.from(theta), c = Math.sign(far) * STENCIL[Math.abs(far) - 1] / STEP;
      moved[j] += far * STEP;
      const point = forces(task, here, moved).gradient, law = forces(task, at(task, moved), theta).gradient;
      for (let i = 0; i < D; i++) for (const place of [i * D + j, j * D + i]) { // symmetric to the last digit
        H[place] += c / 2 * point[i], K[place] += c / 2 * law[i];
      }
    }
    const apart = eigen(H), together = eigen(H.map((h, i) => h + K[i]));
    return { H, K, deviations: apart.values, translations: together.values, splitDirection: apart.vectors[0],
      translationDirection: together.vectors[0], splitBelow: -apart.values[0], translateBelow: -together.values[0] };
  }
  // With decay lambda, anchored so that theta rests: growth rates of deviations and of the mean, and a name
  function verdict({ splitBelow, translateBelow }, lambda, tolerance = 1e-9) {
    const split = splitBelow - lambda, translation = translateBelow - lambda, most = Math.max(split, translation);
    return { split, translation, name: translation > tolerance ? "translation" : split > tolerance ? "splitting"
      : most < -tolerance ? "stable" : "neutral" };
  }
  // lambda_c: largest singular value of E mean(x_1..x_t) Z_t^T at the empty layer
  function criticalRidge(task) {
    const { S, T, d, D } = task, { dual } = at(task, zeros(D)), G = zeros(d * d), GG = zeros(d * d);
    for (let r = 0; r < S * T; r++) for (let t = r % T, u = r - t; u <= r; u++)
      multiply(d, 1, d, task.X, u * d, true, dual.map((z) => z / (t + 1)), r * d, false, G, 0);
    multiply(d, d, d, G, 0, true, G, 0, false, GG, 0);
    return Math.sqrt(Math.max(0, eigen(GG).values[d - 1]));
  }
  const ridgeRegime = (lambda, lambdaC, lambdaStar) => // of the empty layer
    lambda < lambdaC ? "unstable" : lambda < lambdaStar ? "stable, not optimal" : "optimal";
  // ---- Appendix A: tokens on the circle. N(s) is the normal distribution function, n(s) its density.
  const density = (s) => Math.exp(-s * s / 2) / Math.sqrt(2 * Math.PI);
  function half(s) { // N(s) - 1/2, Abramowitz and Stegun 26.2.11: all terms of one sign; 26.2.14 in the tail
    const r = Math.abs(s);
    let sum = s * density(s), tail = 0;
    if (r < 3) for (let n = 3, term = sum; Math.abs(term) > 1e-17 * Math.abs(sum); n += 2) sum += term *= s * s / n;
    else for (let n = 50; n > 0; n--) tail = n / (r + tail);
    return r < 3 ? sum : Math.sign(s) * (0.5 - density(s) / (r + tail));
  }
  const erf = (x) => 2 * half(x * Math.SQRT2);
  const activations = { // sigma, and Phi with Phi' = 2 sigma, Phi(0) = 0
    relu: [(s) => Math.max(s, 0), (s) => Math.max(s, 0) ** 2],
    gelu: [(s) => s * (0.5 + half(s)), (s) => s * s * (0.5 + half(s)) + s * density(s) - half(s)],
  };
  function fourier(beta) { // of h(u) = e^{beta (cos u - 1)}: e^-beta I_k(beta), by Miller's backward recurrence
    const c = zeros(Math.floor(9.2 * Math.sqrt(beta)) + 22), K = c.length - 2;
    c[K] = 1e-300;
    for (let k = K; k > 0; k--) c[k - 1] = c[k + 1] + 2 * k / beta * c[k];
    const total = 2 * c.reduce((sum, x) => sum + x) - c[0]; // h(0) = 1
    return c.subarray(0, K).map((x) => x / total);
  }
  // Z = int h dmu and N = Z' / beta at angles x. Over many pairs by the series; else pair by pair, where
  // `relative` measures exponents from the nearest particle: the quotient N / Z outlives underflow.
  function sums(beta, theta, w, x, relative) {
    const n = theta.length, K = 9.2 * Math.sqrt(beta) + 20, fast = n * x.length > 2 * (n + x.length) * K + 4096;
    const C = theta.map(Math.cos), S = theta.map(Math.sin), Z = zeros(x.length), N = zeros(x.length);
    const c = fast ? fourier(beta) : zeros(0), re = zeros(c.length), im = zeros(c.length);
    for (let j = 0; j < n && fast; j++) for (let k = 0, p = 1, q = 0; k < c.length; k++) {
      re[k] += (k ? 2 : 1) * c[k] * w[j] * p, im[k] += 2 * c[k] * w[j] * q;
      [p, q] = [p * C[j] - q * S[j], p * S[j] + q * C[j]];
    }
    for (let i = 0; i < x.length; i++) {
      const cx = Math.cos(x[i]), sx = Math.sin(x[i]);
      Z[i] = fast ? re[0] : 0;
      for (let k = 1, p = cx, q = sx; k < c.length; k++) {
        Z[i] += re[k] * p + im[k] * q, N[i] += k / beta * (im[k] * p - re[k] * q);
        [p, q] = [p * cx - q * sx, p * sx + q * cx];
      }
      if (fast && !(relative && Z[i] < 1e-3)) continue; // a quotient of small sums is not accurate
      const chord = (j) => (C[j] - cx) ** 2 + (S[j] - sx) ** 2; // cos u - 1 without cancellation
      const near = relative ? w.reduce((least, wj, j) => wj ? Math.min(least, chord(j)) : least, Infinity) : 0;
      Z[i] = N[i] = 0;
      for (let j = 0; j < n; j++) {
        const pull = w[j] && w[j] * Math.exp(beta / 2 * (near - chord(j)));
        Z[i] += pull, N[i] += pull * (S[j] * cx - C[j] * sx);
      }
    }
    return { Z, N };
  }
  // F = { beta, a, omega, activation, ascent, normalised }, a the angles of the units; particles are angles
  // theta with weights w (undefined: equal). As in the package, `normalised` changes the velocity only.
  const units = ({ a = [], omega, activation = "relu" }, x, term) => a.reduce((sum, aj, j) =>
    sum + omega[j] * term(activations[activation], Math.cos(x - aj), Math.sin(aj - x)), 0);
  const ring = {
    potential: (F, x) => units(F, x, ([, Phi], s) => Phi(s)),
    energy: (F, theta, w = equal(theta.length)) => ring.firstVariation(F, theta, w)
      .reduce((sum, f, i) => sum + w[i] * (f / 2 + ring.potential(F, theta[i]) / 4), 0), // f holds half of v already
    firstVariation: (F, theta, w = equal(theta.length), x = theta) => sums(F.beta, theta, w, x).Z
      .map((Z, i) => Z / F.beta + ring.potential(F, x[i]) / 2),
    velocity(F, theta, w = equal(theta.length), x = theta) { // of ascent +u, else of descent -u
      const { Z, N } = sums(F.beta, theta, w, x, F.normalised);
      return N.map((Ni, i) => (F.ascent ? 1 : -1)
        * (Ni / (F.normalised ? Z[i] : 1) + units(F, x[i], ([sigma], s, slope) => sigma(s) * slope)));
    },
    step: (F, theta, w, h = 0.1) => ring.velocity(F, theta, w).map((u, i) => theta[i] + h * u),
    threshold: (beta, cap = true) => // the published program cuts it at pi/4; the paper's text does not
      Math.min(0.5 / Math.sqrt(beta), cap ? Math.PI / 4 : Infinity),
    // From the largest gap on: "arcs" of at most the threshold, as published, or "single" linkage: chains
    clusters(theta, w = equal(theta.length), threshold, rule = "arcs") {
      const n = theta.length, angle = theta.map((x) => Math.atan2(Math.sin(x), Math.cos(x)));
      const order = Array.from(theta.keys()).sort((i, j) => angle[i] - angle[j]), labels = new Array(n), masses = [];
      const place = (i) => angle[order[i % n]] + (i < n ? 0 : 2 * Math.PI);
      let start = 0, first = 0;
      for (let i = 1; i < n; i++) if (place(i + 1) - place(i) > place(start + 1) - place(start)) start = i;
      for (let i = start + 1; i <= start + n; i++) {
        const apart = place(i) - (rule === "arcs" ? first : place(i - 1));
        if (i === start + 1 || apart > threshold) first = place(i), masses.push(0);
        masses[labels[order[i % n]] = masses.length - 1] += w[order[i % n]];
      }
      return { count: masses.length, labels, masses };
    },
    // Frank-Wolfe gap of descent, int dE dmu - min dE: the best of a grid, then of finer ones around it
    gap(F, theta, w = equal(theta.length), points = Math.max(720, Math.ceil(100 * Math.sqrt(F.beta)))) {
      const own = ring.firstVariation(F, theta, w);
      let at = 0, least = Infinity;
      for (let width = 2 * Math.PI, n = points; width > 1e-9; width *= 4 / n, n = 32) {
        const x = zeros(n + 1).map((_, i) => at + width * (i / n - 0.5)), values = ring.firstVariation(F, theta, w, x);
        values.forEach((value, i) => { if (value < least) [least, at] = [value, x[i]]; });
      }
      return { gap: Math.max(0, own.reduce((sum, value, i) => sum + w[i] * value, 0) - Math.min(least, ...own)), at };
    },
  };
  // ---- optimal transport for W2. Points nested (n, dim); weights a, b, undefined: equal. Plans nested: [[i, j, mass]]
  const square = (x, y) => x.reduce((sum, xi, i) => sum + (xi - y[i]) ** 2, 0);
  const transport = {
    plan: (x, a, y, b) => x[0].length === 1 ? monotone(x, a, y, b) : assignment(x, a, y, b),
    distance: (plan, x, y) => Math.sqrt(plan.reduce((sum, [i, j, mass]) => sum + mass * square(x[i], y[j]), 0)),
    displacement: (plan, x, y, s) => ({ weights: plan.map(([, , mass]) => mass),
      points: plan.map(([i, j]) => x[i].map((xi, c) => (1 - s) * xi + s * y[j][c])) }),
    mixture: (x, a = equal(x.length), y, b = equal(y.length), s) => ({ points: [...x, ...y],
      weights: [...Array.from(a, (p) => (1 - s) * p), ...Array.from(b, (p) => s * p)] }),
  };
  function monotone(x, a = equal(x.length), y, b = equal(y.length)) { // on the line: by quantiles
    const sorted = (z) => z.map((_, i) => i).sort((i, j) => z[i][0] - z[j][0]), I = sorted(x), J = sorted(y), plan = [];
    for (let i = 0, j = 0, p = a[I[0]], q = b[J[0]]; i < I.length && j < J.length;) {
      const mass = Math.min(p, q);
      if (mass > 1e-15) plan.push([I[i], J[j], mass]); // less is rounding
      p -= mass, q -= mass;
      if (p <= q) p += a[I[++i]]; else q += b[J[++j]];
    }
    return plan;
  }
  function assignment(x, a, y, b) { // `on`: the cheapest way to go on, for each set of columns that are taken
    const n = x.length, known = [], plan = [];
    if (a || b || n !== y.length || n > 12) throw new RangeError("expected as many points, at most 12, of equal weight");
    const on = (taken, row) => known[taken] ??= row === n ? [0] : y.map((yj, j) => taken >> j & 1 ? [Infinity]
      : [square(x[row], yj) + on(taken | 1 << j, row + 1)[0], j]).reduce((best, way) => way[0] < best[0] ? way : best);
    for (let row = 0, taken = 0; row < n; taken |= 1 << plan[row++][1]) plan.push([row, on(taken, row)[1], 1 / n]);
    return plan;
  }

  // half the mean squared error of the mean of the neurons a tanh(w x)
  const networkLoss = (x, y, neurons, weights = equal(neurons.length)) => x.reduce((sum, xi, i) => sum
    + (neurons.reduce((f, [a, w], j) => f + weights[j] * a * Math.tanh(w * xi), -y[i])) ** 2, 0) / (2 * x.length);

  return { generator, rk4, stepper, integrate, task, at, predict, risk, forces, velocity, attention, features, reach,
    bounds, headsNeeded, logCosh, oneHead, eigen, dirac, verdict, criticalRidge, ridgeRegime, erf, activations, ring,
    transport, networkLoss };
})();
