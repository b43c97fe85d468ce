"""Tasks: known optima are optimal, hand-made heads solve what they should, real text is text."""

import ast
import hashlib
import itertools
import math
import re
import sys
import textwrap
from collections import Counter
from dataclasses import replace
from pydoc_data.topics import topics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr

from mfbook.book.tasks import (
    ALPHABET,
    Task,
    bigram_bits,
    bits_per_character,
    clean,
    copy_head,
    copy_task,
    corpus,
    corpus_hash,
    entropy,
    induction_head,
    induction_task,
    prose,
    task_from_text,
    teacher_student,
    text_task,
    unigram_bits,
)
from mfbook.book.tasks.embedding import names, positions, tied, words
from mfbook.book.tasks.text import _windows
from mfbook.measure import Measure
from mfbook.models.attention import HeadShape, attention_weights, features, softmax

SHAPE = HeadShape(4, 2, 2)


def teacher(rng=0, **changes):
    sizes = dict(sequences=10, tokens=5, vocabulary=6, heads=3, rng=rng) | changes
    return teacher_student(SHAPE, **sizes)


# ------------------------------------------------------------------------------ the teacher


@pytest.mark.parametrize("seed", range(3))
def test_teacher_is_optimal(seed):
    task = teacher(seed)
    R = task.risk(SHAPE, SHAPE.ball(4.0))
    assert abs(R(task.teacher) - task.optimal_risk) < 1e-14
    probes = SHAPE.ball(4.0).sample(seed, 200)
    local = R.at(task.teacher)
    assert np.abs(local.first_variation(probes)).max() <= 1e-15
    assert np.abs(local.gradient(probes)).max() <= 1e-15
    # the labels are worth learning: far from uniform, far from certain
    assert 0.3 < task.optimal_risk < 0.97 * np.log(6)


def test_excess_risk_is_the_divergence_from_the_teacher():
    task = teacher()
    R = task.risk(SHAPE)
    for n in (1, 5):
        mu = Measure(SHAPE.ball(4.0).sample(n, n))
        p = softmax(mu.integrate(features(mu.atoms, task.X, task.W_U, SHAPE)))
        divergence = rel_entr(task.Y, p).sum(axis=-1).mean()
        assert divergence > 0.01
        assert R(mu) - task.optimal_risk == pytest.approx(divergence, rel=1e-12)


def test_teacher_task_is_bounded():
    task = teacher(scale=2.5)
    assert np.linalg.norm(task.X, axis=-1).max() <= 1
    for W in SHAPE.split(task.teacher.atoms):
        norms = np.linalg.norm(W, axis=(1, 2))
        assert (norms <= 2.5 * (1 + 1e-15)).all() and (norms > 0.5).all()
    assert task.teacher.size == 3


# ------------------------------------------------------------------------- copying, induction


@pytest.mark.parametrize("lag", [1, 2, 6])
def test_copy_labels_are_what_they_say(lag):
    task = copy_task(sequences=20, tokens=8, vocabulary=5, lag=lag, rng=3)
    assert (task.tokens[:, 0] == -1).all() and task.tokens[:, 1:].min() == 0
    for s, t in np.ndindex(20, 8):
        expected = np.full(5, 0.2)
        if t - lag >= 1:
            expected = np.eye(5)[task.tokens[s, t - lag]]
        np.testing.assert_array_equal(task.Y[s, t], expected)
    assert task.optimal_risk == pytest.approx((lag + 1) / 8 * np.log(5), rel=1e-14)


@pytest.mark.parametrize("lag", [1, 3, 6])
def test_copy_head_solves_copying(lag):
    task = copy_task(sequences=30, tokens=8, vocabulary=5, lag=lag, rng=4)
    shape = HeadShape(6, 3, 4)
    R = task.risk(shape)

    def excess(scale, lag=lag):
        return R(Measure.dirac(copy_head(shape, tokens=8, lag=lag, scale=scale)))

    excesses = [excess(scale) - task.optimal_risk for scale in (4, 8, 16, 32)]
    assert (np.diff(excesses) < 0).all() and 0 <= excesses[-1] < 1e-12
    # a head that looks one position further is confidently wrong
    assert excess(32, lag - 1 or 2) > 10
    A = attention_weights(copy_head(shape, tokens=8, lag=lag, scale=32)[None], task.X, shape)[0]
    np.testing.assert_array_equal(A.argmax(-1), np.tile(np.maximum(np.arange(8) - lag, 0), (30, 1)))


def test_copy_head_has_the_stated_margin_and_size():
    T, lag, V, scale, shape = 8, 3, 5, 3.0, HeadShape(6, 3, 4)
    task = copy_task(sequences=6, tokens=T, vocabulary=V, lag=lag, rng=0)
    theta = copy_head(shape, tokens=T, lag=lag, scale=scale)
    for W in shape.split(theta):
        assert np.linalg.norm(W, 2) == pytest.approx(scale)
    A = attention_weights(theta[None], task.X, shape)[0]
    margin = np.log(A[:, 4, 1] / A[:, 4, 2])  # t = 4: target 1 against its neighbour 2
    np.testing.assert_allclose(margin, scale**2 * (1 - math.cos(math.pi / T)) / math.sqrt(3))


def test_induction_labels_are_the_law_of_the_next_word():
    """Count all maps and first words that agree with what has been seen (V = 3)."""
    V, T = 3, 6
    task = induction_task(sequences=60, tokens=T, vocabulary=V, rng=5)
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
        for run, number in runs.items():
            if run[:t] == seen:
                law[run[t]] += number
        np.testing.assert_allclose(task.Y[s, t], law / law.sum(), atol=1e-15)


def test_induction_head_solves_induction():
    V, shape = 6, HeadShape(11, 6, 5)
    task = induction_task(sequences=40, tokens=12, vocabulary=V, rng=6)
    R = task.risk(shape)
    excesses = [
        R(Measure.dirac(induction_head(shape, scale=s))) - task.optimal_risk for s in (2, 4, 8, 16)
    ]
    assert (np.diff(excesses) < 0).all() and 0 <= excesses[-1] < 1e-12
    # without the mark there is nowhere to look when nothing matches
    W_Q, W_K, W_V, W_O = (W.copy() for W in shape.split(induction_head(shape, scale=16)))
    W_Q[-1] = 0
    assert R(Measure.dirac(shape.join(W_Q, W_K, W_V, W_O))) > task.optimal_risk + 1


def test_induction_cannot_be_done_by_position():
    """The embedding says which words stand at t and t - 1, and where the start is; no more."""
    task = induction_task(sequences=40, tokens=12, vocabulary=6, rng=6)
    by_words = {}
    for s, t in itertools.product(range(40), range(2, 12)):
        key = task.tokens[s, t - 1], task.tokens[s, t]
        expected = by_words.setdefault(key, task.X[s, t])
        np.testing.assert_array_equal(task.X[s, t], expected)
    assert len(by_words) > 20


@pytest.mark.parametrize("V", [2, 5, 29])
def test_words_are_a_regular_simplex(V):
    e = words(V)
    gram = (V * np.eye(V) - 1) / (V - 1)
    np.testing.assert_allclose(e[:V] @ e[:V].T, gram, atol=1e-14)
    assert (e[-1] == 0).all()
    W_U = tied(V, 3)
    assert np.abs(W_U.sum(axis=1)).max() < 1e-14
    assert np.linalg.norm(W_U, 2) == pytest.approx(math.sqrt(V / (V - 1)))


def test_positions_are_unit_vectors_that_depend_on_the_distance():
    p = positions(8, 2)
    gram = p @ p.T
    for lag in range(8):
        expected = (math.cos(math.pi * lag / 8) + math.cos(math.pi * lag / 4)) / 2
        np.testing.assert_allclose(np.diagonal(gram, lag), expected, atol=1e-15)


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


def test_corpus_is_prose():
    assert set(corpus()) == set(ALPHABET)
    assert 150_000 < len(corpus()) < 500_000
    # letters are as frequent as in English, within what one subject allows
    counts = Counter(corpus())
    assert [c for c, _ in counts.most_common(3)] == [" ", "e", "t"]
    assert 4 < counts["e"] / counts["u"] < 6
    assert "assert statements are a convenient way to insert debugging assertions" in corpus()


def test_corpus_has_no_code():
    """Every block that Python can parse is code: none may be left, and there are many."""
    document = "\n\n".join(topics.values())
    kept = set(prose(document).splitlines())
    blocks = re.split(r"\n[ \t]*\n", document)
    code = 0
    for block in blocks:
        try:
            ast.parse(textwrap.dedent(block))
        except SyntaxError:
            continue
        code += 1
        assert " ".join(block.split()) not in kept
    assert code > 100
    marks = re.compile(r">>>|::=|\+---|====|\*\*\*\*")
    assert len(list(filter(marks.search, blocks))) > 100
    assert not any(map(marks.search, kept))


def test_prose_keeps_sentences_and_drops_the_rest():
    sentence = "A list keeps the order in which its items were added to it."
    document = f"""Title of a section
******************

{sentence}

   for item in items:
       print(item)

* {sentence.replace("list", "tuple")}

  stmt ::= "for" target_list "in" starred_list ":" suite

+-----------+--------+
| Operation | Result |
+-----------+--------+

{sentence}

Short one."""
    assert prose(document).splitlines() == [sentence, sentence.replace("list", "tuple")]


def test_prose_at_the_edge():
    """Eight words, three quarters of them plain."""
    for kept in (
        "The loop below counts to three and stops.",
        "The loop below counts to three and it x1 x2 x3 stops.",
    ):
        assert prose(kept) == kept
    assert prose("The loop below counts to three then.") == ""
    assert prose("The loop below counts to three and x0 x1 x2 x3 stops.") == ""


def test_corpus_hash_is_of_the_text():
    assert corpus_hash() == hashlib.sha256(corpus().encode()).hexdigest()[:16]
    again = clean(prose("\n\n".join(topics.values())))
    assert hashlib.sha256(again.encode()).hexdigest().startswith(corpus_hash())


def test_windows_do_not_overlap():
    ids = np.arange(1000)
    windows = _windows(ids, 7, 142, np.random.default_rng(0), "sequences")
    assert windows.shape == (142, 8)
    inputs, labels = windows[:, :-1].ravel(), windows[:, 1:].ravel()
    assert len(set(inputs)) == inputs.size and len(set(labels)) == labels.size
    np.testing.assert_array_equal(windows, windows[:, :1] + np.arange(8))
    with pytest.raises(ValueError, match=r"sequences: expected at most 142.* got 143"):
        _windows(ids, 7, 143, np.random.default_rng(0), "sequences")


def test_held_out_windows_come_from_the_last_tenth():
    text = "ab" * 450 + "yz" * 50
    task = text_task(sequences=99, tokens=9, held_out=11, rng=0, text=text)
    a, b, y, z = (ALPHABET.index(c) for c in "abyz")
    used = lambda t: set(t.tokens.ravel()) | set(t.Y.argmax(axis=-1).ravel())  # noqa: E731
    assert used(task) == {a, b} and used(task.held_out) == {y, z}


def test_text_task_predicts_the_next_character():
    task = text_task(sequences=50, tokens=12, held_out=20, rng=1)
    for part in (task, task.held_out):
        np.testing.assert_array_equal(part.Y.argmax(axis=-1)[:, :-1], part.tokens[:, 1:])
        for s in range(len(part.X)):
            window = "".join(part.sequence(s)) + part.words[part.Y[s, -1].argmax()]
            assert window in corpus()
        np.testing.assert_allclose(np.linalg.norm(part.X, axis=-1), math.sqrt(2))
        np.testing.assert_allclose(part.X[..., :28], words(29)[part.tokens])
    assert task.words == tuple(ALPHABET) and task.optimal_risk is None
    # the same held-out windows whatever the number of sequences
    other = text_task(sequences=5, tokens=12, held_out=20, rng=1)
    np.testing.assert_array_equal(other.held_out.X, task.held_out.X)


def test_baselines_agree_with_counting():
    task = text_task(sequences=40, tokens=6, held_out=15, rng=2)
    pairs = Counter()
    for s, t in np.ndindex(40, 6):
        pairs[int(task.tokens[s, t]), int(task.Y[s, t].argmax())] += 1
    total = uni = bi = 0
    for s, t in np.ndindex(15, 6):
        a, b = int(task.held_out.tokens[s, t]), int(task.held_out.Y[s, t].argmax())
        n_b = sum(n for (_, c), n in pairs.items() if c == b)
        n_a = sum(n for (c, _), n in pairs.items() if c == a)
        uni -= math.log2((n_b + 0.5) / (240 + 29 / 2))
        bi -= math.log2((pairs[a, b] + 0.5) / (n_a + 29 / 2))
        total += 1
    assert unigram_bits(task) == pytest.approx(uni / total, rel=1e-13)
    assert bigram_bits(task) == pytest.approx(bi / total, rel=1e-13)


def test_baselines_know_soft_labels_and_positions_without_a_word():
    """On copying neither helps: the words are independent. Only position 0 has its own row."""
    sizes = dict(sequences=4000, tokens=4, vocabulary=2, lag=1)
    task = replace(copy_task(**sizes, rng=0), held_out=copy_task(**sizes, rng=1))
    assert unigram_bits(task) == pytest.approx(1, abs=1e-3)
    assert bigram_bits(task) == pytest.approx(1, abs=1e-3)
    # "no word" is a context of its own, not the last word
    tokens, Y = np.array([[-1, 1]] * 500), np.eye(2)[[[0, 1]] * 500]
    sure = Task(np.ones((500, 2, 1)), Y, [[1.0, -1.0]], "sure", tokens)
    assert bigram_bits(replace(sure, held_out=sure)) < 0.01


def test_bigrams_beat_single_letters_and_those_beat_nothing():
    task = text_task(sequences=1024, tokens=8, held_out=256, rng=0)
    assert bigram_bits(task) + 0.5 < unigram_bits(task) < math.log2(29) - 0.5


@pytest.mark.slow
def test_a_trained_layer_beats_bigrams():
    """Stochastic gradient descent on 16 heads: characters before the last are used."""
    task = text_task(sequences=4096, tokens=8, held_out=512, rng=0)
    shape, rng = HeadShape(32, 4, 4), np.random.default_rng(1)
    R = task.risk(shape)
    theta = rng.normal(scale=shape.d**-0.5, size=(16, shape.size))
    for _ in range(300):
        mu = Measure(theta)
        theta = mu.atoms - 6 * R.sample(rng, 128).at(mu).gradient(mu.atoms)
    bits = bits_per_character(task.held_out_risk(shape)(Measure(theta)))
    # by 0.35 bits with the text that Python 3.11 ships, by 0.09 with that of 3.13
    assert bits < bigram_bits(task)


# ------------------------------------------------------------------------------ a reader's file


def test_task_from_a_file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("Où est la bibliothèque? Elle est là, à gauche. " * 40, encoding="utf-8")
    task = task_from_text(path, sequences=30, tokens=8, held_out=5, rng=0)
    assert task.name == "mine.txt"
    assert "".join(task.sequence(0)) in clean(path.read_text(encoding="utf-8"))
    same = task_from_text(str(path), sequences=30, tokens=8, held_out=5, rng=0)
    np.testing.assert_array_equal(task.X, same.X)


def test_task_from_a_bad_file(tmp_path):
    sizes = dict(sequences=30, tokens=8, held_out=5, rng=0)
    with pytest.raises(FileNotFoundError, match="path: expected a text file, found none at"):
        task_from_text(tmp_path / "absent.txt", **sizes)
    with pytest.raises(FileNotFoundError, match="path: expected a text file"):
        task_from_text(tmp_path, **sizes)
    with pytest.raises(TypeError, match="path: expected a str or a path, got int"):
        task_from_text(3, **sizes)
    path = tmp_path / "file.txt"
    for content, message in [
        (b"\xff\xfe\x00", "path: expected UTF-8 text"),
        (b"", "text: expected letters a to z, got none in 0 characters"),
        ("12 — 34 Привет".encode(), "text: expected letters a to z, got none"),
        (b"too short", "held_out: expected at most 0"),
        (b"enough to evaluate " * 30, "sequences: expected at most 63.* got 64"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            task_from_text(path, **sizes | {"sequences": 64})


# --------------------------------------------------------------------- seeds, Task, bad input

MAKERS = {
    "teacher": teacher,
    "copy": lambda rng=0, **c: copy_task(
        **dict(sequences=10, tokens=6, vocabulary=4, lag=2, rng=rng) | c
    ),
    "induction": lambda rng=0, **c: induction_task(
        **dict(sequences=10, tokens=6, vocabulary=4, rng=rng) | c
    ),
    "text": lambda rng=0, **c: text_task(**dict(sequences=10, tokens=6, held_out=3, rng=rng) | c),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_same_seed_same_task(make):
    one, two, other = make(7), make(np.random.default_rng(7)), make(8)
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.Y, two.Y)
    assert not np.array_equal(one.X, other.X)
    assert np.abs(one.W_U.sum(axis=1)).max() < 1e-13


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        *((n, {"sequences": 0}, ValueError, "sequences: expected an integer >= 1") for n in MAKERS),
        *((n, {"tokens": -3}, ValueError, "tokens: expected an integer >=") for n in MAKERS),
        *((n, {"tokens": 2.5}, TypeError, "tokens: expected an integer, got 2.5") for n in MAKERS),
        *((n, {"rng": None}, TypeError, "rng: expected a numpy.random.Gen") for n in MAKERS),
        *((n, {"rng": np.random}, TypeError, "rng: expected a numpy.random.Gen") for n in MAKERS),
        *(
            (n, {"vocabulary": 1}, ValueError, "vocabulary: expected an integer >= 2, got 1")
            for n in ("teacher", "copy", "induction")
        ),
        ("teacher", {"heads": 0}, ValueError, "heads: expected an integer >= 1, got 0"),
        ("teacher", {"scale": 0}, ValueError, "scale: expected a finite number > 0, got 0"),
        ("teacher", {"scale": -1.0}, ValueError, "scale: expected a finite number > 0"),
        ("teacher", {"scale": "big"}, TypeError, "scale: expected a real number"),
        ("copy", {"lag": 0}, ValueError, "lag: expected an integer >= 1, got 0"),
        ("copy", {"lag": 6}, ValueError, "lag: expected at most 4 for 6 tokens, got 6"),
        ("copy", {"lag": 5}, ValueError, "lag: expected at most 4 for 6 tokens, got 5"),
        ("text", {"held_out": 0}, ValueError, "held_out: expected an integer >= 1, got 0"),
        ("text", {"text": b"bytes"}, TypeError, "text: expected a str, got bytes"),
        ("text", {"text": "..., 123"}, ValueError, "text: expected letters a to z, got none in 8"),
        ("text", {"tokens": 10**6}, ValueError, "held_out: expected at most 0, the windows of"),
    ],
)
def test_bad_sizes_are_refused(name, change, error, message):
    with pytest.raises(error, match=message):
        MAKERS[name](**change)


def test_bad_shapes_are_refused():
    with pytest.raises(TypeError, match="shape: expected a HeadShape, got tuple"):
        teacher_student((4, 2, 2), sequences=1, tokens=1, vocabulary=2, heads=1, rng=0)
    for shape in (HeadShape(2, 2, 2), HeadShape(6, 1, 4), HeadShape(6, 2, 3)):
        with pytest.raises(ValueError, match="shape: expected d >= 3, k >= 2 and v >= d - 2"):
            copy_head(shape, tokens=8, lag=2, scale=1.0)
    with pytest.raises(ValueError, match="lag: expected at most 6 for 8 tokens, got 7"):
        copy_head(HeadShape(6, 2, 4), tokens=8, lag=7, scale=1.0)
    for sizes in ((10, 9, 9), (1, 3, 3), (11, 5, 5), (11, 6, 4)):
        with pytest.raises(ValueError, match="shape: expected d = 2V - 1"):
            induction_head(HeadShape(*sizes), scale=1.0)
    with pytest.raises(ValueError, match="scale: expected a finite number > 0"):
        induction_head(HeadShape(11, 6, 5), scale=0)


GOOD = dict(
    X=np.ones((2, 3, 2)), Y=np.full((2, 3, 2), 0.5), W_U=[[1.0, -1.0], [0.0, 0.0]], name="good"
)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": np.ones((2, 3))}, ValueError, r"X: expected shape \(S, T, d\)"),
        ({"X": np.full((2, 3, 2), np.nan)}, ValueError, "X: expected finite numbers"),
        ({"Y": np.full((2, 4, 2), 0.5)}, ValueError, r"Y: expected shape \(2, 3, 2\)"),
        ({"Y": np.ones((2, 3, 2))}, ValueError, "Y: expected to sum to 1"),
        ({"W_U": np.ones((3, 2))}, ValueError, r"W_U: expected shape \(2, V\)"),
        ({"W_U": np.eye(2)}, ValueError, "W_U: expected rows that sum to zero, got sum 1 in row 0"),
        ({"name": 3}, TypeError, "name: expected a str, got int"),
        ({"words": ("a",)}, ValueError, "words: expected 2 of them, got 1"),
        ({"tokens": np.zeros((2, 3))}, TypeError, "tokens: expected integers, got dtype float64"),
        ({"tokens": np.zeros((2, 2), int)}, ValueError, r"tokens: expected shape \(2, 3\)"),
        ({"tokens": np.full((2, 3), 2)}, ValueError, "tokens: expected integers from -1 to 1"),
        ({"tokens": np.full((2, 3), -2)}, ValueError, "tokens: expected integers from -1 to 1"),
        ({"teacher": np.zeros(3)}, TypeError, "teacher: expected a Measure, got ndarray"),
        ({"held_out": (1, 2)}, TypeError, "held_out: expected a Task, got tuple"),
        (
            {"held_out": Task(**GOOD | {"W_U": np.zeros((2, 2))})},
            ValueError,
            "held_out: expected the same W_U",
        ),
    ],
)
def test_bad_fields_are_refused(change, error, message):
    Task(**GOOD)
    with pytest.raises(error, match=message):
        Task(**GOOD | change)


def test_what_a_task_lacks_is_named():
    task = Task(**GOOD)
    for use in (unigram_bits, bigram_bits, lambda t: t.held_out_risk(HeadShape(2, 1, 1))):
        with pytest.raises(ValueError, match="task: expected one with sequences held out"):
            use(task)
    with pytest.raises(ValueError, match="task: expected one with tokens"):
        bigram_bits(replace(task, held_out=task))
    with pytest.raises(TypeError, match="task: expected a Task, got str"):
        unigram_bits("text")
    with pytest.raises(ValueError, match="smoothing: expected a finite number > 0"):
        unigram_bits(replace(task, held_out=task), smoothing=0)
    with pytest.raises(ValueError, match="tokens, words: expected a task that has both"):
        task.sequence(0)


def test_smallest_tasks():
    task, shape = copy_task(sequences=5, tokens=3, vocabulary=2, lag=1, rng=0), HeadShape(3, 2, 1)
    head = copy_head(shape, tokens=3, lag=1, scale=20.0)
    assert task.risk(shape)(Measure.dirac(head)) - task.optimal_risk < 1e-3
    with pytest.raises(ValueError, match="^shape: "):
        copy_head(HeadShape(2, 2, 1), tokens=3, lag=1, scale=1.0)
    induction = induction_task(sequences=6, tokens=2, vocabulary=2, rng=0)
    assert induction.X.shape == (6, 2, 3)
    assert induction_head(shape, scale=1.0).shape == (shape.size,)
    taught = teacher_student(shape, sequences=2, tokens=1, vocabulary=2, heads=1, rng=0)
    assert taught.Y.shape == (2, 1, 2)


def test_a_task_cannot_change():
    task = copy_task(sequences=2, tokens=4, vocabulary=3, lag=1, rng=0)
    for array in (task.X, task.Y, task.W_U, task.tokens):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        task.name = "another"


def test_risk_uses_the_space_and_the_precision():
    task, shape = text_task(sequences=4, tokens=3, held_out=2, rng=0), HeadShape(32, 2, 2)
    ball = shape.ball(2.0)
    R = task.held_out_risk(shape, ball, np.float32)
    assert R.space == ball and R.X.dtype == np.float32 and len(R.X) == 2
    assert R(Measure.dirac(np.zeros(shape.size))) == pytest.approx(np.log(29), rel=1e-6)
    with pytest.raises(ValueError, match="shape: expected d = "):
        task.risk(HeadShape(3, 1, 1))


def test_entropy_and_bits():
    assert entropy(np.full((2, 3, 8), 1 / 8)) == pytest.approx(math.log(8), rel=1e-15)
    assert entropy(np.eye(8)[[[0, 3, 5]]]) == 0
    assert bits_per_character(entropy(np.full((1, 1, 8), 1 / 8))) == pytest.approx(3, rel=1e-15)
    with pytest.raises(ValueError, match="Y: expected to sum to 1"):
        entropy(np.ones((1, 2, 3)))


def test_a_python_without_its_documentation_has_no_corpus(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    getattr(corpus, "cache_clear", lambda: None)()
    with pytest.raises(RuntimeError, match="without pydoc_data; use task_from_text"):
        corpus()


# --------------------------------------------------------------------- ends of what is allowed


def test_rows_of_the_projection_may_be_off_by_rounding():
    def made(row, dtype=np.float64):
        return Task(**GOOD | {"W_U": np.array([row, [0.0, 0.0]], dtype)})

    for dtype in (np.float64, np.float32):
        eps = float(np.finfo(dtype).eps)
        for n, allowed in ((14, True), (18, False)):  # 4 V eps of the sum of sizes, here two
            if allowed:
                made([1, -1 + n * eps], dtype)
            else:
                with pytest.raises(ValueError, match="^W_U: expected rows that sum to zero"):
                    made([1, -1 + n * eps], dtype)
        for n, allowed in ((7, True), (9, False)):  # of one, where the row is small
            if allowed:
                made([0.125, -0.125 + n * eps], dtype)
            else:
                with pytest.raises(ValueError, match="sum to zero, got sum .* in row 0"):
                    made([0.125, -0.125 + n * eps], dtype)
    with pytest.raises(ValueError, match="sum to zero, got sum 1 in row 1"):
        Task(**GOOD | {"W_U": [[0.0, 0.0], [0.5, 0.5]]})


def test_words_and_tokens_of_a_task():
    ids = np.array([[-1, 0, 1], [1, -1, 0]])
    task = Task(**GOOD | {"tokens": ids, "words": ["yes", "no"]})
    assert task.words == ("yes", "no")
    assert task.sequence(0) == ("", "yes", "no") and task.sequence(-1) == ("no", "", "yes")
    np.testing.assert_array_equal(task.tokens, ids)
    for part in ({"tokens": ids}, {"words": ("yes", "no")}):
        with pytest.raises(ValueError, match="^tokens, words: expected a task that has both"):
            Task(**GOOD | part).sequence(0)
    for bad in ("ab", 3, ["yes", 3], {"yes", "no"}):
        with pytest.raises(TypeError, match="^words: expected a tuple of str"):
            Task(**GOOD | {"words": bad})
    with pytest.raises(TypeError, match="^optimal_risk: expected"):
        Task(**GOOD | {"optimal_risk": "low"})
    assert type(Task(**GOOD | {"optimal_risk": np.float32(0.5)}).optimal_risk) is float
    assert repr(task) == "Task('good': 2 sequences of 3 tokens in R^2, vocabulary 2)"
    assert repr(replace(task, held_out=task)) == repr(task)[:-1] + ", 2 sequences held out)"


def test_letters_then_numbers():
    assert names(2) == ("a", "b") and names(26)[-1] == "z" and len(names(26)) == 26
    assert names(27) == tuple(str(i) for i in range(27))


def test_pseudo_count_is_one_half_where_nothing_is_said():
    task = text_task(sequences=12, tokens=4, held_out=6, rng=0)
    for bits in (unigram_bits, bigram_bits):
        assert bits(task) == bits(task, 0.5) != bits(task, 1.0)
    without = replace(task, held_out=replace(task.held_out, tokens=None))
    with pytest.raises(ValueError, match="^task: expected one with tokens"):
        bigram_bits(without)
    with pytest.raises(ValueError, match="^task: expected one with tokens"):
        bigram_bits(replace(task, tokens=None))


def test_heads_of_a_teacher_have_norm_up_to_four_where_nothing_is_said():
    task = teacher(heads=60, sequences=2)
    sizes = [np.linalg.norm(W, axis=(1, 2)) for W in SHAPE.split(task.teacher.atoms)]
    assert max(s.max() for s in sizes) <= 4 and min(s.max() for s in sizes) > 3
    for scale in (0.5, 9.0):
        sizes = [
            np.linalg.norm(W, axis=(1, 2))
            for W in SHAPE.split(teacher(heads=60, sequences=2, scale=scale).teacher.atoms)
        ]
        assert max(s.max() for s in sizes) <= scale < 1.3 * min(s.max() for s in sizes)


def test_a_tenth_of_the_text_at_its_end_is_held_out():
    text = "a" * 90 + "b" * 10
    task = text_task(sequences=89, tokens=1, held_out=9, rng=0, text=text)
    assert {"".join(task.sequence(s)) for s in range(89)} == {"a"}
    assert {"".join(task.held_out.sequence(s)) for s in range(9)} == {"b"}
    for sizes, message in (
        ({"sequences": 90, "held_out": 9}, "sequences: expected at most 89"),
        ({"sequences": 89, "held_out": 10}, "held_out: expected at most 9"),
    ):
        with pytest.raises(ValueError, match=message):
            text_task(**sizes, tokens=1, rng=0, text=text)


def test_windows_follow_each_other():
    ids = np.arange(14)
    found = _windows(ids, 4, 3, np.random.default_rng(0), "n")
    np.testing.assert_array_equal(found, [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8], [8, 9, 10, 11, 12]])
    with pytest.raises(ValueError, match="^n: expected at most 3, the windows of 4 characters in"):
        _windows(ids, 4, 4, np.random.default_rng(0), "n")
    assert len(_windows(np.arange(13), 4, 3, np.random.default_rng(0), "n")) == 3
    with pytest.raises(ValueError, match="^n: expected at most 2"):
        _windows(np.arange(12), 4, 3, np.random.default_rng(0), "n")


@pytest.mark.parametrize("V", [2, 5])
def test_no_word_is_the_last_of_the_words(V):
    assert words(V).shape == (V + 1, V - 1) and not words(V)[-1].any()
