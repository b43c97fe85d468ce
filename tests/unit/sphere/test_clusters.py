"""Clusters on the sphere: against all pairs, in closed form, under symmetries."""

import numpy as np
import pytest
from examples import circle, on_circle, points
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from mfbook.measure import Measure
from mfbook.space import Sphere
from mfbook.sphere import clusters


def flat(angles, d):
    """Points of a great circle in R^d."""
    return np.concatenate([on_circle(*angles), np.zeros((len(angles), d - 2))], axis=1)


def brute_force(x, threshold):
    """Components of the graph of all pairs within the threshold."""
    distance = 2 * np.arcsin(np.minimum(np.linalg.norm(x[:, None] - x, axis=2) / 2, 1))
    return connected_components(distance <= threshold, directed=False)


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 40) | st.integers(129, 180))
def test_single_linkage_against_all_pairs(seed, d, n):
    """Crowds and single particles; equivalent under permutations and rotations."""
    rng = np.random.default_rng(seed)
    centres, width = points(rng, 4, d), rng.choice([0.0, 0.03, 1.0])
    x = Sphere().project(centres[rng.integers(4, size=n)] + width * rng.normal(size=(n, d)))
    w = rng.dirichlet(np.ones(n)) * (np.arange(n) % 3 > 0) + 1e-9
    mu, threshold = Measure(x, w / w.sum()), 10 ** rng.uniform(-3, 0.5)
    count, labels = brute_force(x, threshold)
    found = clusters(mu, threshold=threshold)
    assert found.count == count and np.array_equal(found.labels, labels)
    assert found.masses == pytest.approx(np.bincount(labels, mu.weights))
    for k in range(count):
        inside = labels == k
        mean = mu.weights[inside] @ x[inside]
        if np.isfinite(found.centres[k]).all():
            np.testing.assert_allclose(found.centres[k], mean / np.linalg.norm(mean), atol=1e-7)
            spread = Sphere().distance(x[inside], np.tile(found.centres[k], (inside.sum(), 1)))
            assert found.spread[k] == pytest.approx(spread.max(), abs=1e-12)
    apart = np.linalg.norm(x[:, None] - x, axis=2)[labels[:, None] == labels].max()
    assert found.within(x) == (2 * np.arcsin(min(apart / 2, 1)) <= threshold)
    order, Q = rng.permutation(n), np.linalg.qr(rng.normal(size=(d, d)))[0]
    turned = clusters(Measure(Sphere().project(x @ Q)[order], mu.weights[order]), beta=9.0)
    plain = clusters(mu, beta=9.0)
    same = plain.labels[:, None] == plain.labels
    assert np.array_equal(same[np.ix_(order, order)], turned.labels[:, None] == turned.labels)
    if d == 2:  # the circle inside a sphere
        more = np.concatenate([x, np.zeros((n, 1))], axis=1)
        assert np.array_equal(clusters(more, threshold=threshold).labels, labels)


@pytest.mark.parametrize("d", [2, 3])
def test_rings_chains_and_single_particles(d):
    ring = flat(2 * np.pi * np.arange(40) / 40, d)
    whole = clusters(ring, threshold=0.16)
    assert whole.count == 1 and whole.spread[0] == np.pi and np.isnan(whole.centres).all()
    assert not whole.within(ring)
    assert clusters(ring, threshold=0.15).count == 40
    chain = clusters(ring[:20], threshold=0.16)
    assert chain.count == 1 and chain.spread[0] == pytest.approx(19 * np.pi / 40)
    pair = clusters(ring[[0, 20]], threshold=4.0)
    assert pair.count == 1 and np.isnan(pair.centres).all() and pair.spread[0] == np.pi
    same = clusters(np.repeat(ring[:2], 15, axis=0), threshold=0.0)
    assert same.count == 2 and same.spread.max() < 1e-15
    three = clusters(ring[:3], threshold=0.3)  # spread 0.157 around the centre, 0.314 across
    assert three.count == 1 and not three.within(ring[:3])
    for size in (1e-2, 1e-6, 1e-10):  # a heavy end: the centre does not tell how far they are apart
        chain = Measure(flat(size * np.arange(3.0), d), [0.98, 0.01, 0.01])
        for across, within in ((1.95, False), (2.05, True)):
            assert clusters(chain, threshold=across * size).within(chain.atoms) == within
    seam = clusters(flat([3.1, -3.1, 0.0, 0.2], d), threshold=0.25)
    assert seam.labels.tolist() == [0, 0, 1, 1]
    assert seam.centres == pytest.approx(flat([np.pi, 0.1], d))
    assert seam.spread == pytest.approx([np.pi - 3.1, 0.1])


@pytest.mark.parametrize("d", [2, 3])
def test_neighbours_at_exactly_the_threshold(d):
    x = np.eye(d)
    assert clusters(x, threshold=np.pi / 2).count == 1
    assert clusters(x, threshold=np.pi / 2 * (1 - 1e-12)).count == d
    ends = np.array([x[0], -x[0]]) * (1 + 1e-9)
    assert clusters(ends, threshold=np.pi).count == 1  # half a turn reaches everything
    assert clusters(ends, threshold=3.1).count == 2
    if d == 2:
        assert clusters(x, threshold=np.pi / 2, linkage="arcs").count == 1


def test_arcs_count_as_the_source_does():
    """A particle joins while it is within the threshold of its cluster's first."""
    x = circle(40)
    found = clusters(x, threshold=0.32, linkage="arcs")
    assert found.count == 14 and found.spread.max() <= 0.32 / 2 + 1e-12 and found.within(x)
    # from the largest gap on, whatever the origin of angles
    for turn in np.linspace(0, 6, 7):
        angles = turn + np.array([0.0, 0.1, 0.25, 0.3, 1.0, 1.15])
        labels = clusters(on_circle(*angles), threshold=0.2, linkage="arcs").labels
        assert labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert clusters(x, threshold=7.0, linkage="arcs").count == 1


@pytest.mark.parametrize("d", [2, 3])
def test_centres_of_light_and_of_balanced_clusters(d):
    x = flat([0.0, 0.2, 2.0, 2.1, 4.0], d)
    for size in (1e-14, 1e-200, 1e-300, 2.0**-1070):
        found = clusters(Measure(x, [size, 3 * size, 0.0, 0.0, 1.0]), threshold=0.3)
        assert found.count == 3 and found.masses[0] == pytest.approx(4 * size, rel=1e-12)
        means = Sphere().project(np.array([x[0] + 3 * x[1], x[2] + x[3]]))
        np.testing.assert_allclose(found.centres[:2], means, atol=1e-15)
    # the mean of two nearly opposite particles has half the angle between one and minus the other
    for angle, placed in ((3e-12, True), (1e-12, False)):
        pair = np.zeros((2, d))
        pair[:, 1], pair[0, 0], pair[1, 0] = angle / 2, 1.0, -1.0
        found = clusters(pair, threshold=4.0)
        assert np.isfinite(found.centres).all() == placed
        assert found.spread[0] == pytest.approx(np.pi / 2 if placed else np.pi, abs=1e-9)


def test_default_thresholds_and_what_is_refused():
    for d, beta, expected in ((2, 0.01, 5.0), (2, 25.0, 0.1), (3, 0.01, np.pi / 6), (3, 25.0, 0.1)):
        assert clusters(np.eye(d), beta).threshold == pytest.approx(expected)
    x = on_circle(0.0, 1.0)
    for name, call in (
        ("mu", lambda: clusters(2 * x, 1.0)), ("mu", lambda: clusters(Measure(2 * x), 1.0)),
        ("mu", lambda: clusters(Measure(x + 0j), 1.0)), ("threshold", lambda: clusters(x)),
        ("threshold", lambda: clusters(x, 1.0, threshold=1.0)),
        ("linkage", lambda: clusters(x, 1.0, linkage="complete")),
        ("linkage", lambda: clusters(np.eye(3), 1.0, linkage="arcs")),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=f"^{name}:"):
            call()
