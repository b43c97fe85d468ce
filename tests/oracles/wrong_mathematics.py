"""Mistakes in the mathematics that a person makes and a tool does not.

Each is one change of one line of the package. ``test_mutants.py`` makes them one after the
other and sees the unit tests fail.
"""

import ast
from dataclasses import dataclass

__all__ = ["WRONG", "Wrong"]


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
        """The module with the mistake."""
        return ast.parse(self.apply(source))

    def lines(self, source: str) -> tuple[int, int]:
        """First and last line of the change."""
        first = source[: source.index(self.old)].count("\n") + 1
        return first, first + self.old.rstrip("\n").count("\n")

    def apply(self, source: str) -> str:
        """The source with the mistake; lines keep their numbers."""
        if source.count(self.old) != 1 or self.old.count("\n") != self.new.count("\n"):
            raise ValueError(f"{self.what}: expected {self.old!r} once, in as many lines as before")
        return source.replace(self.old, self.new)


ATTENTION, SPHERE = "mfbook.models.attention", "mfbook.models.sphere"
WRONG = [
    # the attention layer and its risk
    Wrong(
        "the causal mask is dropped in the kernel",
        f"{ATTENTION}.kernel",
        "return x, (self.tokens[:i, s] - x).transpose(1, 0, 2)",
        "return x, (self.tokens[-i:, s] - x).transpose(1, 0, 2)",
    ),
    Wrong(
        "the causal mask is dropped in the reference",
        f"{ATTENTION}.reference",
        "visible = np.tri(X.shape[1]) > 0",
        "visible = np.ones((X.shape[1],) * 2, bool)",
    ),
    Wrong(
        "the score is not divided by the root of k",
        f"{ATTENTION}.kernel",
        "B = W_Q @ W_K.transpose(0, 2, 1) / np.sqrt(theta.real.dtype.type(risk.shape.k))",
        "B = W_Q @ W_K.transpose(0, 2, 1)",
    ),
    Wrong(
        "queries and keys exchanged",
        f"{ATTENTION}.kernel",
        "B = W_Q @ W_K.transpose(0, 2, 1)",
        "B = W_K @ W_Q.transpose(0, 2, 1)",
    ),
    Wrong(
        "the value matrix transposed",
        f"{ATTENTION}.kernel",
        "return np.ascontiguousarray((W_V @ W_O).transpose(1, 2, 0))",
        "return np.ascontiguousarray((W_V @ W_O).transpose(2, 1, 0))",
    ),
    Wrong(
        "heads summed instead of averaged",
        f"{ATTENTION}.kernel",
        "* mu.weights[h].astype(theta.real.dtype)",
        "* np.ones_like(mu.weights[h])",
    ),
    Wrong(
        "the query's own token forgotten",
        f"{ATTENTION}.kernel",
        "return out + risk.X @ mean, None if",
        "return out, None if",
    ),
    Wrong(
        "the derivative of the softmax without its mean (J omitted)",
        f"{ATTENTION}.kernel",
        'D -= np.einsum("jsm,jsm->sm", A, D)',
        "D -= 0",
    ),
    Wrong(
        "the gradient in the keys with the gradient in the queries' matrix",
        f"{ATTENTION}.risk",
        "np.matmul(dB.transpose(t), W_Q, out=G_K)",
        "np.matmul(dB, W_Q, out=G_K)",
    ),
    Wrong(
        "the scale of the scores lost in the gradient",
        f"{ATTENTION}.risk",
        "            dB /= scale\n",
        "            dB /= 1\n",
    ),
    Wrong(
        "the first variation summed over tokens instead of averaged",
        f"{ATTENTION}.risk",
        "return self.Z / self.Z.real.dtype.type(S * T)",
        "return self.Z / self.Z.real.dtype.type(S)",
    ),
    Wrong(
        "the label has the wrong sign in the residual",
        f"{ATTENTION}.risk",
        "return softmax(self.logits) - self.risk.Y",
        "return softmax(self.logits) + self.risk.Y",
    ),
    Wrong(
        "the residual divided by the vocabulary",
        f"{ATTENTION}.risk",
        "return self.residual @ self.risk.W_U.T",
        "return self.residual @ self.risk.W_U.T / len(self.risk.W_U.T)",
    ),
    Wrong(
        "the softmax's Jacobian without its rank-one part",
        f"{ATTENTION}.loss",
        "np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]",
        "np.eye(p.shape[-1])",
    ),
    Wrong(
        "the largest label drawn instead of a random one",
        f"{ATTENTION}.loss",
        "passed = Y.cumsum(axis=-1) > uniform",
        "passed = Y == Y.max(axis=-1, keepdims=True)",
    ),
    # flows and their time scales
    Wrong(
        "the factor 2 of 2 xi(t) lost",
        "mfbook.flow.integrators",
        "rate, v = 2 * run.profile(t), run.velocity(y)",
        "rate, v = run.profile(t), run.velocity(y)",
    ),
    Wrong(
        "Runge-Kutta with equal weights",
        "mfbook.flow.integrators",
        "step = h / 6 * (a + 2 * b + 2 * c + d)",
        "step = h / 4 * (a + b + c + d)",
    ),
    Wrong(
        "the middle of a Runge-Kutta step at its start",
        "mfbook.flow.integrators",
        "2 * run.profile(t + h / 2), 2 * run.profile(t + h)",
        "2 * run.profile(t), 2 * run.profile(t + h)",
    ),
    Wrong(
        "ascent instead of descent",
        "mfbook.flow.engine",
        "            v = -local.gradient(mu.atoms)\n",
        "            v = local.gradient(mu.atoms)\n",
    ),
    Wrong(
        "the dissipation as a plain sum",
        "mfbook.flow.engine",
        "return float(mu.weights @ (v * v).sum(axis=1))\n\n\ndef gradient_flow",
        "return float((v * v).sum())\n\n\ndef gradient_flow",
    ),
    # measures and spaces
    Wrong(
        "a mixture with the shares exchanged",
        "mfbook.measure",
        "[(1 - s) * mu.weights, s * nu.weights]",
        "[s * mu.weights, (1 - s) * nu.weights]",
    ),
    Wrong(
        "merging at the mean instead of the barycentre",
        "mfbook.measure",
        "np.add.at(centre, label, (weights / mass[label])[:, None] * atoms)",
        "np.add.at(centre, label, (1 / np.bincount(label)[label])[:, None] * atoms)",
    ),
    Wrong(
        "the Hessian on the sphere without its curvature term",
        "mfbook.space",
        "return P @ hessian @ P - (x @ gradient) * P",
        "return P @ hessian @ P",
    ),
    Wrong(
        "points of a ball uniform in radius instead of volume",
        "mfbook.space",
        "rng.random((n, 1)) ** (1 / size)",
        "rng.random((n, 1))",
    ),
    # transport
    Wrong(
        "W2 without its square root",
        "mfbook.transport.solvers",
        "float(mass @ square ** (p / 2)) ** (1 / p)",
        "float(mass @ square ** (p / 2))",
    ),
    # constants
    Wrong(
        "the loss's Lipschitz constant 1 instead of the root of 2",
        "mfbook.bounds.loss",
        "return math.sqrt(2)",
        "return 1.0",
    ),
    Wrong(
        "softmax's Lipschitz constant 1 instead of 1/2",
        "mfbook.bounds.loss",
        "return 0.5",
        "return 1.0",
    ),
    Wrong(
        "the Monte Carlo rate 1/M instead of 1/sqrt(M)",
        "mfbook.bounds.approximation",
        'math.sqrt(validate.count(M, "M"))',
        'validate.count(M, "M")',
    ),
    Wrong(
        "the variance's bound without its 1/2",
        "mfbook.bounds.approximation",
        "return loss_smoothness() / 2 * sigma2",
        "return loss_smoothness() * sigma2",
    ),
    # stability
    Wrong(
        "an atom's own interaction counted in H (H for H + K)",
        "mfbook.stability.dirac",
        "H, K = report.H[0], report.K[0, 0]",
        "H, K = report.H[0] + report.K[0, 0], report.K[0, 0]",
    ),
    Wrong(
        "the KL exponent without its half",
        "mfbook.stability.rates",
        "alpha = _slope(x, y) / 2",
        "alpha = _slope(x, y)",
    ),
    Wrong(
        "the PL envelope with rate c/2",
        "mfbook.stability.rates",
        "return E0 * np.exp(-c * tau)",
        "return E0 * np.exp(-c * tau / 2)",
    ),
    Wrong(
        "the standard error without Bessel's correction",
        "mfbook.stability.rates",
        "slopes.std(ddof=1)",
        "slopes.std(ddof=0)",
    ),
    # certificates
    Wrong(
        "the gap without the mean over the measure",
        "mfbook.optimise.certificate",
        "mean = mu.weights @ values",
        "mean = values.max()",
    ),
    Wrong(
        "a best head without the ridge's own cost",
        "mfbook.models.attention.best_head",
        "+ ridge / 2 * (scores**2).sum(1)",
        "+ 0 * (scores**2).sum(1)",
    ),
    Wrong(
        "a step of boosting that forgets the old heads",
        "mfbook.optimise.certificate",
        "np.append((1 - share) * mu.weights, share)",
        "np.append(0 * mu.weights, 1.0)",
    ),
    # two layers, networks, tokens
    Wrong(
        "the residual stream dropped between the layers",
        "mfbook.models.layers",
        "X = self.X + _write(",
        "X = 0 * self.X + _write(",
    ),
    Wrong(
        "a layer's half of the mass not doubled",
        "mfbook.models.layers",
        "lower_weights, upper_weights = 2 * mu.weights[~upper], 2 * mu.weights[upper]",
        "lower_weights, upper_weights = mu.weights[~upper], mu.weights[upper]",
    ),
    Wrong(
        "the squared loss without its half",
        "mfbook.models.network",
        "        return (r * r).mean() / 2\n",
        "        return (r * r).mean()\n",
    ),
    Wrong(
        "the outer weight forgotten in the slope of a neuron",
        "mfbook.models.network",
        "slope = x[block, :1] * f.slope(s) * r",
        "slope = f.slope(s) * r",
    ),
    Wrong(
        "Sinkhorn without the average of two iterates",
        "mfbook.models.tokens.sinkhorn",
        "g = g if new is None else (g + new) / 2",
        "g = g if new is None else new",
    ),
    Wrong(
        "the double centring done once",
        "mfbook.models.tokens.asymmetry",
        "    B -= w @ B\n",
        "    B -= 0 * (w @ B)\n",
    ),
    # the sphere
    Wrong(
        "the interaction counted twice",
        f"{SPHERE}.energy",
        "return self.weights @ self._own[0] / (2 * self.F.beta)",
        "return self.weights @ self._own[0] / self.F.beta",
    ),
    Wrong(
        "the perceptron's potential without its half",
        f"{SPHERE}.energy",
        "return self.interaction + self.weights @ self.F._v(self.atoms) / 2",
        "return self.interaction + self.weights @ self.F._v(self.atoms)",
    ),
    Wrong(
        "normalisation left out of attention",
        f"{SPHERE}.energy",
        "self._attention(x) if F.normalised else self._sums(x)[1]",
        "self._sums(x)[1]",
    ),
    Wrong(
        "the primitive of ReLU with a factor 1/2",
        "mfbook.models.activations",
        "lambda s: np.where(_on(s), s * s, alpha * s * s)",
        "lambda s: np.where(_on(s), s * s / 2, alpha * s * s / 2)",
    ),
    Wrong(
        "GeLU's primitive without -N",
        "mfbook.models.activations",
        "s * s * _below(s) + s * _normal(s) - erf(s / np.sqrt(2)) / 2",
        "s * s * _below(s) + s * _normal(s)",
    ),
    Wrong(
        "the Hessian of a measure not weighted by its masses",
        "mfbook.equilibria.second_order",
        "H = root[:, None] * jacobian(F, x, w, normalised=False) / root",
        "H = jacobian(F, x, w, normalised=False)",
    ),
    # chaining and backward equations
    Wrong(
        "a backward equation run forwards",
        "mfbook.flow.influence",
        "x = run.at(t - s).atoms",
        "x = run.at(s).atoms",
    ),
]
