"""Fixed embeddings: words at the corners of a simplex, positions as angles."""

from __future__ import annotations

import string

import numpy as np
import scipy


def words(V: int) -> np.ndarray:
    """Corners of a regular simplex on the unit sphere of R^(V-1), and its centre as last row."""
    corners = scipy.linalg.helmert(V).T * np.sqrt(V / (V - 1))
    return np.concatenate([corners, np.zeros((1, V - 1))])


def positions(T: int, frequencies: int) -> np.ndarray:
    """Unit vectors (T, 2*frequencies): angles that make 1/2, 2/2, ... turns over the sequence."""
    angle = np.pi / T * np.arange(T)[:, None] * np.arange(1, frequencies + 1)
    p = np.stack([np.cos(angle), np.sin(angle)], axis=-1) / np.sqrt(frequencies)
    return p.reshape(T, 2 * frequencies)


def join(words, positions) -> np.ndarray:
    """Words (S, T, a) and positions (T, b) side by side, (S, T, a + b)."""
    return np.concatenate([words, np.broadcast_to(positions, (len(words), *positions.shape))], -1)


def tied(V: int, rest: int) -> np.ndarray:
    """Words as columns over ``rest`` rows of zeros: rows sum to zero."""
    return np.concatenate([words(V)[:V].T, np.zeros((rest, V))])


def names(V: int) -> tuple[str, ...]:
    """Letters, or numbers where letters do not suffice."""
    return tuple(string.ascii_lowercase[:V]) if V <= 26 else tuple(map(str, range(V)))
