"""Tasks: known optima are optimal, hand-made heads solve what they should, real text is text."""

import ast
import hashlib
import itertools
import math
import re
import textwrap
from collections import Counter
from contextlib import suppress
from pydoc_data.topics import topics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr

from companion.tasks import (
    ALPHABET,
    Task,
    bigram_bits,
    clean,
    copy_head,
    copy_task,
    corpus,
    corpus_hash,
    induction_task,
    prose,
    teacher_student,
    text_task,
    unigram_bits,
)
from companion.tasks.embedding import words
from mfbook.attention import HeadShape, attention_weights, features, softmax
from mfbook.measure import Measure

SHAPE = HeadShape(4, 2, 2)


def maker(make, *arguments, **sizes):
    return lambda rng=0, **changes: make(*arguments, **{**sizes, "rng": rng, **changes})


teacher = maker(teacher_student, SHAPE, sequences=10, tokens=5, vocabulary=6, heads=3)
copying = maker(copy_task, sequences=10, tokens=6, vocabulary=4, lag=2)
induction = maker(induction_task, sequences=10, tokens=6, vocabulary=4)
reading = maker(text_task, sequences=10, tokens=6, held_out=3)
MAKERS = {"teacher": teacher, "copy": copying, "induction": induction, "text": reading}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_same_seed_same_task(make):
    one, two, other = make(7), make(np.random.default_rng(7)), make(8)
    assert (one.X == two.X).all() and (one.Y == two.Y).all() and (one.X != other.X).any()
    assert np.abs(one.W_U.sum(axis=1)).max() < 1e-13


# ------------------------------------------------------------------------------ the teacher


@pytest.mark.parametrize("seed", range(2))
def test_teacher_is_optimal(seed):
    task = teacher(seed)
    R, ball = task.risk(SHAPE, SHAPE.ball(4.0)), SHAPE.ball(4.0)
    assert abs(R(task.teacher) - task.optimal_risk) < 1e-14
    local, probes = R.at(task.teacher), ball.sample(seed, 200)
    assert np.abs(local.first_variation(probes)).max() <= 1e-15
    assert np.abs(local.gradient(probes)).max() <= 1e-15
    # the labels are worth learning: far from uniform, far from certain
    assert 0.3 < task.optimal_risk < 0.97 * np.log(6)
    # the excess risk of other heads is the divergence from the teacher
    mu = Measure(probes[:5])
    p = softmax(mu.integrate(features(mu.atoms, task.X, task.W_U, SHAPE)))
    divergence = rel_entr(task.Y, p).sum(axis=-1).mean()
    assert R(mu) - task.optimal_risk == pytest.approx(divergence, rel=1e-12) and divergence > 0.01


# ------------------------------------------------------------------------- copying, induction


@pytest.mark.parametrize("lag", [1, 3, 6])
def test_copying_and_the_head_that_solves_it(lag):
    task = copying(4, sequences=30, tokens=8, vocabulary=5, lag=lag)
    assert (task.tokens[:, 0] == -1).all() and task.tokens[:, 1:].min() == 0
    for s, t in np.ndindex(30, 8):
        known = t - lag >= 1
        law = np.eye(5)[task.tokens[s, t - lag]] if known else np.full(5, 0.2)
        np.testing.assert_array_equal(task.Y[s, t], law)
    assert task.optimal_risk == pytest.approx((lag + 1) / 8 * np.log(5), rel=1e-14)

    shape = HeadShape(6, 3, 4)
    R = task.risk(shape)

    def head(scale, lag=lag):
        return copy_head(shape, tokens=8, lag=lag, scale=scale)

    excesses = [R(Measure.dirac(head(s))) - task.optimal_risk for s in (4, 8, 16, 32)]
    assert (np.diff(excesses) < 0).all() and 0 <= excesses[-1] < 1e-12
    # a head that looks one position further is confidently wrong
    assert R(Measure.dirac(head(32, lag - 1 or 2))) - task.optimal_risk > 10
    # the stated margin and size, at t = 7 for the target and its neighbour
    for W in shape.split(head(3.0)):
        assert np.linalg.norm(W, 2) == pytest.approx(3)
    A = attention_weights(head(3.0)[None], task.X, shape)[0]
    margin = np.log(A[:, 7, 7 - lag] / A[:, 7, 8 - lag])
    np.testing.assert_allclose(margin, 9 * (1 - math.cos(math.pi / 8)) / math.sqrt(3))


def test_induction_labels_are_the_law_of_the_next_word():
    """Count all maps and first words that agree with what has been seen (V = 3)."""
    V, T = 3, 6
    task = induction(5, sequences=60, tokens=T, vocabulary=V)
    runs = Counter()
    for follows in itertools.product(range(V), repeat=V):
        for word in range(V):
            run = [word]
            while len(run) < T:
                run.append(follows[run[-1]])
            runs[tuple(run)] += 1
    assert (task.tokens[:, 0] == -1).all()
    np.testing.assert_array_equal(task.Y[:, 0], np.full((60, V), 1 / V))
    for s, t in itertools.product(range(60), range(1, T)):
        seen = tuple(task.tokens[s, 1 : t + 1])
        law = np.zeros(V)
        for run, times in runs.items():
            if run[:t] == seen:
                law[run[t]] += times
        np.testing.assert_allclose(task.Y[s, t], law / law.sum(), atol=1e-15)


def test_induction_is_solved_by_one_head_and_not_by_position():
    shape = HeadShape(11, 6, 5)
    task = induction(6, sequences=40, tokens=12, vocabulary=6)
    R = task.risk(shape)
    W_Q, W_K, W_V, W_O = (W.copy() for W in shape.split(np.zeros(shape.size)))
    W_Q[:5, :5] = W_K[5:-1, :5] = W_V[:5, :5] = W_O[:5, :5] = np.eye(5)
    W_Q[-1, 5], W_K[-1, 5] = 1, -0.25  # the mark: look at the empty position where nothing matches
    head = shape.join(W_Q, W_K, W_V, W_O)
    excesses = [R(Measure.dirac(s * head)) - task.optimal_risk for s in (2, 4, 8, 16)]
    assert (np.diff(excesses) < 0).all() and 0 <= excesses[-1] < 1e-12
    W_Q[-1] = 0
    assert R(Measure.dirac(16 * shape.join(W_Q, W_K, W_V, W_O))) > task.optimal_risk + 1
    # it cannot be done by position: a token is the words at t and t - 1, and no more
    by_words = {}
    for s, t in itertools.product(range(40), range(2, 12)):
        key = task.tokens[s, t - 1], task.tokens[s, t]
        np.testing.assert_array_equal(task.X[s, t], by_words.setdefault(key, task.X[s, t]))
    assert len(by_words) > 20


# ------------------------------------------------------------------------------------- text


@given(st.text(max_size=200) | st.text(alphabet="aB.,;é \n'2_", max_size=60))
def test_cleaning_leaves_only_the_alphabet(text):
    cleaned = clean(text)
    assert set(cleaned) <= set(ALPHABET)
    assert clean(cleaned) == cleaned
    assert not re.search(r"  | [.,]|[.,][^ ]|^[ .,]| $", cleaned)


def test_cleaning_keeps_every_plain_word():
    text = "Café STRASSE, naïve Straße; x_1 don't (well)."
    assert clean(text) == "cafe strasse, naive strasse x dont well."
    assert clean("ﬁne \N{MATHEMATICAL BOLD CAPITAL A}") == "fine a"  # ligature, capital symbol


def test_corpus_is_prose_without_code():
    """Every block that Python can parse is code: none may be left, and there are many."""
    assert set(corpus()) == set(ALPHABET) and 150_000 < len(corpus()) < 500_000
    # letters are as frequent as in English, within what one subject allows
    counts = Counter(corpus())
    assert [c for c, _ in counts.most_common(3)] == [" ", "e", "t"]
    assert 4 < counts["e"] / counts["u"] < 6
    document = "\n\n".join(topics.values())
    kept = prose(document)
    assert hashlib.sha256(clean(kept).encode()).hexdigest()[:16] == corpus_hash()
    kept, blocks, code = set(kept.splitlines()), re.split(r"\n[ \t]*\n", document), 0
    for block in blocks:
        with suppress(SyntaxError):
            ast.parse(textwrap.dedent(block))
            code += 1
            assert " ".join(block.split()) not in kept
    assert code > 100
    marks = re.compile(r">>>|::=|\+---|====|\*\*\*\*")
    assert len(list(filter(marks.search, blocks))) > 100
    assert not any(map(marks.search, kept))


def test_prose_keeps_sentences_and_drops_the_rest():
    sentence = "A list keeps the order in which its items were added to it."
    rest = [
        "Title of a section\n******************", "   for item in items:\n       print(item)",
        '  stmt ::= "for" target_list "in" starred_list ":" suite', "Short one.",
        "+-----------+--------+\n| Operation | Result |\n+-----------+--------+",
        "The loop below counts to three and x0 x1 x2 x3 stops.",  # less than three quarters plain
    ]  # fmt: skip
    document = "\n\n".join([rest[0], sentence, rest[1], f"* {sentence}", *rest[2:], sentence])
    assert set(prose(document).splitlines()) == {sentence}
    assert prose("The loop below counts to three and it x1 x2 x3 stops.")


@given(st.integers(1, 20), st.integers(2, 60), st.integers(0, 9))
def test_windows_tile_the_text_and_the_last_tenth_is_held_out(T, tenth, seed):
    """With all windows drawn, every character is once an input, and once the next one."""
    tenth += T
    text = "".join(np.random.default_rng(seed).choice(list(ALPHABET[:26]), 10 * tenth))
    cut = 9 * tenth
    parts = {"sequences": text[:cut], "held_out": text[cut:]}
    sizes = {name: (len(part) - 1) // T for name, part in parts.items()}
    task = text_task(**sizes, tokens=T, rng=seed, text=text)
    for drawn, (name, part) in zip((task, task.held_out), parts.items(), strict=True):
        n = sizes[name] * T
        for ids, expected in ((drawn.tokens, part[:n]), (drawn.Y.argmax(-1), part[1 : n + 1])):
            assert Counter(ALPHABET[i] for i in ids.ravel()) == Counter(expected)
        assert (drawn.Y.argmax(axis=-1)[:, :-1] == drawn.tokens[:, 1:]).all()


def test_text_task_shows_windows_of_the_corpus():
    task = reading(1, sequences=50, tokens=12, held_out=20)
    for part in (task, task.held_out):
        assert all("".join(part.sequence(s)) in corpus() for s in range(len(part.X)))
        np.testing.assert_allclose(np.linalg.norm(part.X, axis=-1), math.sqrt(2))
        np.testing.assert_allclose(part.X[..., :28], words(29)[part.tokens])
    assert task.words == tuple(ALPHABET) and task.optimal_risk is None
    # the same held-out windows whatever the number of sequences
    assert (reading(1, sequences=5, tokens=12, held_out=20).held_out.X == task.held_out.X).all()


def test_baselines_agree_with_counting():
    task = reading(2, sequences=40, tokens=6, held_out=15)
    pairs = Counter()
    for s, t in np.ndindex(40, 6):
        pairs[int(task.tokens[s, t]), int(task.Y[s, t].argmax())] += 1
    uni = bi = 0
    for s, t in np.ndindex(15, 6):
        a, b = int(task.held_out.tokens[s, t]), int(task.held_out.Y[s, t].argmax())
        n_b = sum(n for (_, c), n in pairs.items() if c == b)
        n_a = sum(n for (c, _), n in pairs.items() if c == a)
        # half a count for each of the 29 characters, where nothing else is said
        uni -= math.log2((n_b + 0.5) / (240 + 29 / 2)) / 90
        bi -= math.log2((pairs[a, b] + 0.5) / (n_a + 29 / 2)) / 90
    assert unigram_bits(task) == pytest.approx(uni, rel=1e-13)
    assert bigram_bits(task) == pytest.approx(bi, rel=1e-13)


# ---------------------------------------------------------------------- what a task may be


def test_risk_uses_the_space():
    task, shape = reading(sequences=4, tokens=3, held_out=2), HeadShape(32, 2, 2)
    R = task.held_out_risk(shape, shape.ball(2.0))
    assert R.space == shape.ball(2.0) and len(R.X) == 2
    assert R(Measure.dirac(np.zeros(shape.size))) == pytest.approx(np.log(29), rel=1e-14)


# ---------------------------------------------------------------------- sentences of one's own


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=2, max_size=6), min_size=1, max_size=5)
)
def test_a_task_holds_the_sentences_it_was_made_of(lines):
    task = Task.from_sentences([" ".join(line) for line in lines], end="z")
    S, T, V = len(lines), max(map(len, lines)) - 1, len(task.words)
    assert task.X.shape == (S, T, V + 2) and task.Y.shape == (S, T, V)
    for s, line in enumerate(lines):
        full = [*line, *"z" * (T + 1 - len(line))]
        assert task.sequence(s) == tuple(full[:-1])
        assert [task.words[i] for i in task.Y[s].argmax(axis=1)] == full[1:]
        # the identity reads the word off its token, and positions are the same for all sentences
        np.testing.assert_array_equal(task.X[s] @ task.W_U, np.eye(V)[task.tokens[s]])
        np.testing.assert_array_equal(task.X[s, :, V:], task.X[0, :, V:])
    assert len(np.unique(task.X[0, :, V:].round(6), axis=0)) == T
    assert task.Y.sum() == S * T and set(np.unique(task.Y)) <= {0.0, 1.0}
