"""Sentences as data: words and positions as tokens, the next word as label."""

from __future__ import annotations

import numpy as np


def sentence_data(sentences, projection, rng, end) -> dict:
    """Arguments of a task; see ``from_sentences``."""
    lines = [line.split() for line in sentences]
    longest = max(map(len, lines))
    lines = [[*line, *[end.strip()] * (longest - len(line))] for line in lines]
    words = tuple(dict.fromkeys(word for line in lines for word in line))
    ids = np.array([[words.index(word) for word in line] for line in lines])
    V, T = len(words), longest - 1
    angle = np.pi / (T + 1) * np.arange(T)
    place = np.broadcast_to(np.stack([np.cos(angle), np.sin(angle)], axis=1), (len(ids), T, 2))
    W_U = np.eye(V + 2, V)
    if projection == "random":
        W_U = np.random.default_rng(rng).normal(size=W_U.shape) / np.sqrt(V + 2)
        W_U -= W_U.mean(axis=1, keepdims=True)
    return {
        "X": np.concatenate([np.eye(V)[ids[:, :-1]], place], axis=2),
        "Y": np.eye(V)[ids[:, 1:]],
        "W_U": W_U,
        "tokens": ids[:, :-1],
        "words": words,
    }
