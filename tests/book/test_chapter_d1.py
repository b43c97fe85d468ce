"""The checks of Appendix D1 fail for wrong programs and for wrong claims."""

from chapter_runner import Chapter, computing, mistaken

from mfbook.bounds import reach
from tools.chapters import BOOK, read

CELLS = computing(read(BOOK / "d1-certificate.ipynb"))
# The same cells in smaller portions.
SMALLER = [
    ("mixtures", "tolerance=0.2", "tolerance=0.5, budget=1000"),
    ("mixtures", "[1, 0.1, 0.01, 0.001]", "[1, 0.01]"),
    ("copy", "budget=10_000, tolerance=0.05", "budget=1000"),
    ("copy", "refined(at_empty, 3", "refined(at_empty, 0"),
    ("check-tasks", "2 if (lag", "2.2 if (lag"),  # what the coarser cells reach
]


def wrong_reach(old, new):
    """A replaced name: the reach of heads, in a program with one mistake."""

    class Wrong:
        """Its bounds are computed while the mistake is in the module."""

        def __init__(self, right):
            self.right = right

        def bound(self, Z):
            with mistaken(reach, old, new):
                return self.right.bound(Z)

        def refined(self, Z, rounds, **options):
            return self

    def head_reach(*arguments, **options):
        with mistaken(reach, old, new):
            return Wrong(reach.head_reach(*arguments, **options))

    return lambda names: {"head_reach": head_reach}


BY_HAND, DESIGN = "hand check-bound", "validity check-bound"
LEAST = "tasks of 4b with attained bounds: least"
# Each as Chapter.wrong says.
WRONG = [
    # the bound
    ("half of the bound", BY_HAND, "bound with slope 0, against",
     wrong_reach("return float(self._cellwise(Z).max(initial=0.0))",
                 "return 0.5 * float(self._cellwise(Z).max(initial=0.0))")),
    ("positions may not choose", BY_HAND, "bound with slope 0, against",
     wrong_reach("B = up.T @ np.maximum(a, 0) + down.T @ np.maximum(-a, 0)",
                 "B = 0 * (up.T @ a)")),
    ("no gradient on a cell", DESIGN, LEAST,
     wrong_reach("taylor = half * np.abs(", "taylor = 0 * np.abs(")),
    ("no second derivative on a cell", DESIGN, LEAST,
     wrong_reach("taylor += second[:, None] * (Y / 2)", "taylor = 0 * taylor")),
    ("linear part free of charge", DESIGN, LEAST,
     wrong_reach("B += self.scale * np.tile", "B += 0 * np.tile")),
    ("least singular value of the linear part", DESIGN, LEAST,
     wrong_reach("linear @ linear.swapaxes(2, 3))[..., -1]",
                 "linear @ linear.swapaxes(2, 3))[..., 0]")),
    ("a polygon taken for the circle of v", DESIGN, LEAST,
     wrong_reach("> 0] @ basis / _inradius(corners)", "> 0] @ basis")),
    ("corners taken for the circle of u", DESIGN, LEAST,
     wrong_reach("found = np.where((c >= 0).all(axis=1), np.maximum(found, value), found)",
                 "found = found + 0 * value")),
    ("mean of all tokens instead of the visible ones", DESIGN, LEAST,
     wrong_reach("mean = self.X.cumsum(axis=1) / np.arange(1, T + 1)[:, None]",
                 "mean = 0 * self.X + self.X.mean(axis=1, keepdims=True)")),
    ("radius instead of its square", DESIGN, LEAST,
     wrong_reach("radius, \"radius\", largest=validate.LARGEST) ** 2",
                 "radius, \"radius\", largest=validate.LARGEST) ** 4 / 2")),
    ("covariance that is not divided by the number of tokens", "small-radii check-order",
     "exponent in r of bound",
     wrong_reach("L = slope * keys.T @ keys / len(keys)", "L = slope * keys.T @ keys")),
    ("claim: slope 0.8 leaves nothing", "check-bound", "bound with slope 0.8",
     ("check-bound", 'coarse(hand_bound[0.8], 2), 0.035', 'coarse(hand_bound[0.8], 2), 0.01')),
    ("claim: free attention is as good", "check-bound", "bound with slope 0.8",
     ("check-bound", "coarse(hand_bound[0.8], 2)", "coarse(hand_bound[0.0], 2)")),
    ("claim: a slope of zero always suffices", "check-bound", "best of the slopes",
     ("check-bound", "attained.min(axis=1).max()", "2 * attained.min(axis=1).max()")),
    ("claim: proved and found agree on the teacher", "check-bound", "teacher: largest proved",
     ("check-bound", "(proved / found).max()), 2)", "(proved / found).max()), 1.1)")),
    # the order
    ("claim: the error is of order r³", "check-order", "exponent in r of bound",
     ("check-order", "coarse(exponent(above_truth), 3), 4", "coarse(exponent(above_truth), 3), 3")),
    ("claim: half a power more", "check-order", "exponent in r of bound",
     ("check-order", "coarse(exponent(above_truth), 3), 4",
      "coarse(exponent(above_truth), 3), 4.5")),
    ("claim: a fifth of the constant is enough", "small-radii check-order", "largest (bound",
     ("small-radii", "constant = third_moment_constant()",
      "constant = 0.2 * third_moment_constant()")),
    ("half-range and range of the tokens confused", "small-radii check-order", "a fifth",
     ("small-radii", "(diameter / 2) ** 3", "diameter ** 3")),
    ("claim: Chapter 4b is exact to first order too", "check-order", "bounds of Chapter 4b",
     ("check-order", "coarse(exponent(above_truth_4b), 2), 2",
      "coarse(exponent(above_truth_4b), 2), 4")),
    # the tasks
    ("cost of the law itself forgotten", "mixtures copy excess check-tasks",
     "largest floor / risk reached",
     ("mixtures", "return ends.found, own + radius**2", "return ends.found, 5 * own + radius**2")),
    ("radius instead of its square in the gap", "mixtures copy excess check-tasks",
     "empty laws: largest found / proved",
     ("mixtures", "own + radius**2 * reach", "own + radius**0.5 / 4 * reach")),
    ("entropy in bits", "copy excess check-tasks", "largest floor / risk reached",
     ("copy", "entr((1 - s) * risk.Y + s * p).sum(axis=-1).mean()",
      "entr((1 - s) * risk.Y + s * p).sum(axis=-1).mean() / np.log(2)")),
    ("least cost with the other sign", "copy excess check-tasks", "largest floor / risk reached",
     ("copy", "- s * least", "+ s * least")),
    ("claim: an optimum under an unequal law", "echo check-tasks", "echo: proved gap",
     ("echo", "basis[:, None, :]))", "basis[:, None, :]), [0.6, 0.2, 0.2])")),
    ("claim: a factor of 1.2 on the copy task", "check-tasks", "copy, r = 1: proved / found",
     ("check-tasks", "(2, 2, 2", "(2, 1.2, 2")),
    ("claim: Chapter 4b had reached it", "check-tasks", "least with the bounds of",
     ("check-tasks", ".min(), 3), 1.5)", ".min(), 3), 5)")),
]  # fmt: skip


class TestCertificate(Chapter):
    cells = CELLS
    smaller = SMALLER
    wrong = WRONG
