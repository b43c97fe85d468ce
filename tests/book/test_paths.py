"""The paths on the first page lead to real places, take as long as they say, and stand alone.

``tools/paths.py`` reads what a reader of a path reads, from the sources; ``--write`` puts its
minutes in.
"""

import re
from dataclasses import replace

import pytest

from tools.chapters import BOOK
from tools.paths import Piece, introduced, minutes, missing, paths, used, walk, where

#: From the shortest to the longest, with the minutes that the name promises.
NAMES = {"Ten minutes": (5, 10), "One hour": (35, 60), "One day": (3 * 60, 8 * 60)}
BEFORE = (BOOK / "index.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def steps_of():
    """The steps of each path, read."""
    return paths()


def test_the_paths_stand_first(steps_of):
    """Before the map of all statements, and before the other ways in."""
    assert list(steps_of) == list(NAMES)
    headings = re.findall(r"^##? (.*)", BEFORE, re.MULTILINE)
    assert headings.index("Where to begin") == 1
    assert BEFORE.index("(paths)=") < BEFORE.index("```{statement-links}")


@pytest.mark.parametrize("name", NAMES)
def test_every_step_leads_to_a_place(name, steps_of):
    """``paths`` raises where a step leads nowhere; no place is visited twice."""
    steps = steps_of[name]
    assert len({step.anchor for step in steps}) == len(steps) >= 4
    assert all((BOOK / f"{step.page}.ipynb").exists() for step in steps)


@pytest.mark.parametrize("name", NAMES)
def test_minutes_are_those_of_the_words(name, steps_of):
    """To a minute or a fifth at each step; the whole keeps the promise of its name."""
    for step in steps_of[name]:
        allowed = max(1.0, 0.2 * step.found)
        assert abs(step.minutes - step.found) <= allowed, (
            f"{step.anchor}: {step.minutes} min, found {step.found:.1f}: tools/paths.py --write"
        )
    least, most = NAMES[name]
    assert least <= sum(step.found for step in steps_of[name]) <= most
    assert least <= sum(step.minutes for step in steps_of[name]) <= most


@pytest.mark.parametrize("name", NAMES)
def test_a_path_introduces_every_symbol_that_it_uses(name, steps_of):
    lacking = {step.anchor: step.missing for step in steps_of[name] if step.missing}
    assert not lacking


def test_without_its_beginning_a_path_does_not(steps_of):
    """The test above can fail: what the first steps introduce is missing without them."""
    steps = [replace(step) for step in steps_of["One hour"]]
    later = walk([step for step in steps if step.page != steps[0].page], "", BOOK)
    assert len({name for step in later for name in step.missing}) >= 4
    short = [replace(step) for step in steps_of["Ten minutes"] if step.anchor != "start-model"]
    assert r"\Psi" in {name for step in walk(short, "", BOOK) for name in step.missing}


@pytest.mark.parametrize(
    "block, names",
    [
        (r"Let $M$ heads be drawn.", {"M"}),
        (r"The risk $R$ falls.", {"R"}),
        (r"It is at most $B/M$, where $B$ bounds them.", {"B"}),
        (r"Then $\Psi=\frac{\delta R}{\delta\mu}$.", {r"\Psi"}),
        (r"A head $\theta=(W_Q,W_K)$ is two matrices.", {r"\theta", "W_<Q>", "W_<K>"}),
        (r"$T$ words", {"T"}),
        (r"see [$\kappa$](#symbol-kappa)", {r"\kappa"}),
        (r"for all $n\le N=\lceil1/\varepsilon\rceil$", {"N"}),
        # these introduce nothing
        (r"It falls like $C/\sqrt M$.", set()),
        (r"Then $R(\mu)\le B$ holds.", set()),
        (r"It is less than $\Gamma$ times $\Lambda$.", set()),
        (r"see [$\kappa$](#result-static)", set()),
    ],
)
def test_what_introduces_a_symbol(block, names):
    assert introduced(block) == names


def test_what_is_used_and_missing():
    assert used(r"$f(X;\mu)=\int\varphi\,d\mu$, $W_U^\top$ and $x_t$") == [
        "f", "X", r"\mu", r"\varphi", "W_<U>",
    ]  # fmt: skip
    piece = Piece("Let $M$ be large.\n\nThen $\\kappa/M$ is small.", 0, frozenset())
    assert missing(piece, set()) == [r"\kappa"]
    assert missing(piece, {r"\kappa"}) == []


def test_minutes_count_words_formulas_and_figures():
    assert minutes(Piece("word " * 200, 0, frozenset())) == 1
    assert minutes(Piece("word " * 190 + "\n\n$$\na+b=c\n$$", 0, frozenset())) == 1
    assert minutes(Piece("", 3, frozenset())) == 1


def test_a_place_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="^no-such-place: on no page"):
        where("no-such-place")
