"""Mistakes in the mathematics that a person makes and a tool does not.

Each is one change of one line of the package. ``test_mutants.py`` makes them one after the
other and sees the unit tests fail.
"""

import ast
from dataclasses import dataclass


@dataclass(frozen=True)
class Wrong:
    """A mistake: its name, the module, what is written there, and what is written instead."""

    what: str
    module: str
    old: str
    new: str

    @property
    def key(self) -> str:
        return f"by hand: {self.what}"

    def tree(self, source: str) -> ast.Module:
        """The module with the mistake; its lines keep their numbers."""
        if source.count(self.old) != 1 or self.old.count("\n") != self.new.count("\n"):
            raise ValueError(f"{self.what}: expected {self.old!r} once, in as many lines as before")
        return ast.parse(source.replace(self.old, self.new))

    def lines(self, source: str) -> tuple[int, int]:
        """First and last line of the change."""
        first = source[: source.index(self.old)].count("\n") + 1
        return first, first + self.old.rstrip("\n").count("\n")


#: By module: name, right, wrong.
MISTAKES = {
    "models.attention.kernel": [
        ("the causal mask is dropped in the kernel",
         "return x, (self.tokens[:i, s] - x).transpose(1, 0, 2)",
         "return x, (self.tokens[-i:, s] - x).transpose(1, 0, 2)"),
        ("the score is not divided by the root of k",
         "B = W_Q @ W_K.transpose(0, 2, 1) / np.sqrt(theta.real.dtype.type(risk.shape.k))",
         "B = W_Q @ W_K.transpose(0, 2, 1)"),
        ("the score divided by the root of d", "/ np.sqrt(theta.real.dtype.type(risk.shape.k))",
         "/ np.sqrt(theta.real.dtype.type(risk.shape.d))"),
        ("attention normalised over the sequences", "E.sum(axis=0) + own",
         "E.sum(axis=1, keepdims=True) + own"),
        ("queries and keys exchanged", "B = W_Q @ W_K.transpose(0, 2, 1)",
         "B = W_K @ W_Q.transpose(0, 2, 1)"),
        ("the value matrix transposed",
         "return np.ascontiguousarray((W_V @ W_O).transpose(1, 2, 0))",
         "return np.ascontiguousarray((W_V @ W_O).transpose(2, 1, 0))"),
        ("heads summed instead of averaged", "* mu.weights[h].astype(theta.real.dtype)",
         "* np.ones_like(mu.weights[h])"),
        ("the query's own token forgotten", "return out + risk.X @ mean, None if",
         "return out, None if"),
        ("the derivative of the softmax without its mean (J omitted)",
         'D -= np.einsum("jsm,jsm->sm", A, D)', "D -= 0"),
    ],
    "models.attention.reference": [
        ("the causal mask is dropped in the reference", "visible = np.tri(X.shape[1]) > 0",
         "visible = np.ones((X.shape[1],) * 2, bool)"),
    ],
    "models.attention.risk": [
        ("the gradient in the keys with the gradient in the queries' matrix",
         "np.matmul(dB.transpose(t), W_Q, out=G_K)", "np.matmul(dB, W_Q, out=G_K)"),
        ("the scale of the scores lost in the gradient", "            dB /= scale\n",
         "            dB /= 1\n"),
        ("the first variation summed over tokens instead of averaged",
         "return self.Z / self.Z.real.dtype.type(S * T)",
         "return self.Z / self.Z.real.dtype.type(S)"),
        ("the label has the wrong sign in the residual",
         "return softmax(self.logits) - self.risk.Y", "return softmax(self.logits) + self.risk.Y"),
        ("the logits in the place of the probabilities in the residual",
         "return softmax(self.logits) - self.risk.Y", "return self.logits - self.risk.Y"),
        ("the residual divided by the vocabulary", "return self.residual @ self.risk.W_U.T",
         "return self.residual @ self.risk.W_U.T / len(self.risk.W_U.T)"),
    ],
    "models.attention.loss": [
        ("the softmax's Jacobian without its rank-one part",
         "np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]", "np.eye(p.shape[-1])"),
        ("the largest label drawn instead of a random one", "passed = Y.cumsum(axis=-1) > uniform",
         "passed = Y == Y.max(axis=-1, keepdims=True)"),
    ],
    "models.attention.ensemble": [
        ("the factor 2 of many descents lost", "rates = 2 * epsilon * profile",
         "rates = epsilon * profile"),
        ("the rate of many descents at the ends of the steps",
         "profile(np.arange(first, first + steps) * epsilon)",
         "profile(np.arange(first + 1, first + steps + 1) * epsilon)"),
        ("randomness shared by the runs", "F.draw(rng, batch) for rng in rngs",
         "F.draw(rngs[0], batch) for rng in rngs"),
    ],
    "flow.descent": [
        ("the factor 2 of descent lost", "rate = 2 * epsilon * profile(n * epsilon)",
         "rate = epsilon * profile(n * epsilon)"),
        ("the rate of descent at the end of the step", "rate = 2 * epsilon * profile(n * epsilon)",
         "rate = 2 * epsilon * profile((n + 1) * epsilon)"),
        ("the weights of the heads in the velocity of descent", "F.space.tangent(x, -g)",
         "F.space.tangent(x, -mu.weights[:, None] * g)"),
        ("the whole risk in the place of a sample", "g = F.sample(rng, batch).at(state)",
         "g = F.at(state)"),
    ],
    "flow.integrators": [
        ("the factor 2 of 2 xi(t) lost", "rate, v = 2 * run.profile(t), run.velocity(y)",
         "rate, v = run.profile(t), run.velocity(y)"),
        ("Runge-Kutta with equal weights", "step = h / 6 * (a + 2 * b + 2 * c + d)",
         "step = h / 4 * (a + b + c + d)"),
        ("the middle of a Runge-Kutta step at its start",
         "2 * run.profile(t + h / 2), 2 * run.profile(t + h)",
         "2 * run.profile(t), 2 * run.profile(t + h)"),
    ],
    "flow.engine": [
        ("ascent instead of descent", "            v = -local.gradient(mu.atoms)\n",
         "            v = local.gradient(mu.atoms)\n"),
        ("the weights of the heads in the velocity", "            v = -local.gradient(mu.atoms)\n",
         "            v = -mu.weights[:, None] * local.gradient(mu.atoms)\n"),
        ("the dissipation as a plain sum",
         "return float(mu.weights @ (v * v).sum(axis=1))\n\n\ndef gradient_flow",
         "return float((v * v).sum())\n\n\ndef gradient_flow"),
    ],
    "measure": [
        ("a mixture with the shares exchanged", "[(1 - s) * mu.weights, s * nu.weights]",
         "[s * mu.weights, (1 - s) * nu.weights]"),
        ("merging at the mean instead of the barycentre",
         "np.add.at(centre, label, (weights / mass[label])[:, None] * atoms)",
         "np.add.at(centre, label, (1 / np.bincount(label)[label])[:, None] * atoms)"),
    ],
    "space": [
        ("the Hessian on the sphere without its curvature term",
         "return P @ hessian @ P - (x @ gradient) * P", "return P @ hessian @ P"),
        ("points of a ball uniform in radius instead of volume", "rng.random((n, 1)) ** (1 / size)",
         "rng.random((n, 1))"),
    ],
    "transport.solvers": [
        ("W2 without its square root", "float(mass @ square ** (p / 2)) ** (1 / p)",
         "float(mass @ square ** (p / 2))"),
    ],
    "bounds.loss": [
        ("the loss's Lipschitz constant 1 instead of the root of 2", "return math.sqrt(2)",
         "return 1.0"),
        ("softmax's Lipschitz constant 1 instead of 1/2", "return 0.5", "return 1.0"),
    ],
    "bounds.approximation": [
        ("the Monte Carlo rate 1/M instead of 1/sqrt(M)", 'math.sqrt(validate.count(M, "M"))',
         'validate.count(M, "M")'),
        ("the variance's bound without its 1/2", "return loss_smoothness() / 2 * sigma2",
         "return loss_smoothness() * sigma2"),
    ],
    "stability.dirac": [
        ("an atom's own interaction counted in H (H for H + K)",
         "H, K = report.H[0], report.K[0, 0]",
         "H, K = report.H[0] + report.K[0, 0], report.K[0, 0]"),
    ],
    "stability.rates": [
        ("the KL exponent without its half", "alpha = _slope(x, y) / 2", "alpha = _slope(x, y)"),
        ("the PL envelope with rate c/2", "return E0 * np.exp(-c * tau)",
         "return E0 * np.exp(-c * tau / 2)"),
        ("the standard error without Bessel's correction", "slopes.std(ddof=1)",
         "slopes.std(ddof=0)"),
    ],
    "optimise.certificate": [
        ("the gap without the mean over the measure", "mean = mu.weights @ values",
         "mean = values.max()"),
        ("a step of boosting that forgets the old heads",
         "np.append((1 - share) * mu.weights, share)", "np.append(0 * mu.weights, 1.0)"),
    ],
    "models.attention.best_head": [
        ("a best head without the ridge's own cost", "+ ridge / 2 * (scores**2).sum(1)",
         "+ 0 * (scores**2).sum(1)"),
    ],
    "models.layers": [
        ("the residual stream dropped between the layers", "X = self.X + _write(",
         "X = 0 * self.X + _write("),
        ("a layer's half of the mass not doubled",
         "lower_weights, upper_weights = 2 * mu.weights[~upper], 2 * mu.weights[upper]",
         "lower_weights, upper_weights = mu.weights[~upper], mu.weights[upper]"),
    ],
    "models.network": [
        ("the squared loss without its half", "        return (r * r).mean() / 2\n",
         "        return (r * r).mean()\n"),
        ("the outer weight forgotten in the slope of a neuron",
         "slope = x[block, :1] * f.slope(s) * r", "slope = f.slope(s) * r"),
    ],
    "models.tokens.sinkhorn": [
        ("Sinkhorn without the average of two iterates", "g = g if new is None else (g + new) / 2",
         "g = g if new is None else new"),
    ],
    "models.tokens.asymmetry": [
        ("the double centring done once", "    B -= w @ B\n", "    B -= 0 * (w @ B)\n"),
    ],
    "models.sphere.energy": [
        ("the interaction counted twice", "return self.weights @ self._own[0] / (2 * self.F.beta)",
         "return self.weights @ self._own[0] / self.F.beta"),
        ("the perceptron's potential without its half",
         "return self.interaction + self.weights @ self.F._v(self.atoms) / 2",
         "return self.interaction + self.weights @ self.F._v(self.atoms)"),
        ("normalisation left out of attention",
         "self._attention(x) if F.normalised else self._sums(x)[1]", "self._sums(x)[1]"),
    ],
    "models.sphere.units": [
        ("half the bound on a unit's second derivative",
         "return np.abs(self.omega) * (self.slope + self.centre)",
         "return np.abs(self.omega) * (self.slope + self.centre) / 2"),
        ("half of what a minimum can be below the centre",
         "fall = curvature / 4 *", "fall = curvature / 8 *"),
    ],
    "models.sphere.on_sphere": [
        ("half the exponent in the bound by Jensen's inequality",
         "np.exp(-self.beta * (mean + self.shift)) / self.beta",
         "np.exp(-self.beta * (mean + self.shift) / 2) / self.beta"),
    ],
    "models.activations": [
        ("the primitive of ReLU with a factor 1/2",
         "lambda s: np.where(_on(s), s * s, alpha * s * s)",
         "lambda s: np.where(_on(s), s * s / 2, alpha * s * s / 2)"),
        ("GeLU's primitive without -N",
         "s * s * _below(s) + s * _normal(s) - erf(s / np.sqrt(2)) / 2",
         "s * s * _below(s) + s * _normal(s)"),
    ],
    "equilibria.second_order": [
        ("the Hessian of a measure not weighted by its masses",
         "H = root[:, None] * jacobian(F, x, w, normalised=False) / root",
         "H = jacobian(F, x, w, normalised=False)"),
    ],
    "flow.influence": [
        ("a backward equation run forwards", "x = run.at(t - s).atoms", "x = run.at(s).atoms"),
    ],
}  # fmt: skip
WRONG = [Wrong(w, f"mfbook.{m}", *change) for m, ws in MISTAKES.items() for w, *change in ws]
