"""Saving a run while it goes on, so that what is done survives an interruption."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

#: Seconds between two savings.
EVERY = 30.0


def fingerprint(*parts) -> str:
    """Hash of arrays and plain values: which run a checkpoint belongs to."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(repr((part.shape, part.dtype.str)).encode() + part.tobytes())
        else:
            # an address in memory says nothing about what is there
            digest.update(re.sub(" at 0x[0-9a-f]+", "", repr(part)).encode() + b"\0")
    return digest.hexdigest()[:16]


def probe(v) -> str:
    """One number by which a field is recognised, from its velocities at the start."""
    v = np.asarray(v, dtype=float).ravel()
    return f"{v @ np.cos(np.arange(v.size)) + 0.0:.6e}"


def read(path, name: str) -> dict:
    """Arrays of an ``.npz`` file, and its ``about``; ValueError names what is not such a file."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as data:
            return {**data, "about": json.loads(str(data["about"]))}
    except (EOFError, KeyError, TypeError, ValueError, BadZipFile):
        raise ValueError(f"{name}: expected a file saved by mfbook, got '{path}'") from None


class Checkpoint:
    """One file that holds the state of one run; without a path it does nothing."""

    def __init__(self, path, key: str):
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"checkpoint: expected a path or None, got {path!r}")
        self.path, self.key = None if path is None else Path(path), key
        if self.path is not None and not self.path.parent.is_dir():
            raise ValueError(f"checkpoint: expected an existing folder, got '{self.path.parent}'")
        self._saved = time.monotonic()

    def load(self) -> dict | None:
        """The saved state: arrays and plain values; None if there is none yet.

        Raises ValueError if the file belongs to another run.
        """
        if self.path is None or not self.path.exists():
            return None
        data = read(self.path, "checkpoint")
        about = data.pop("about")
        if about.pop("key", None) != self.key:
            raise ValueError(
                f"checkpoint: '{self.path}' belongs to a run with other arguments; "
                "remove it or choose another path"
            )
        return {**about, **data}

    def save(self, arrays: dict, about: dict) -> None:
        """Write the state; a crash in between leaves the previous file."""
        if self.path is None:
            return
        part = self.path.with_name(self.path.name + ".part")
        with open(part, "wb") as file:
            np.savez(file, about=json.dumps({**about, "key": self.key}), **arrays)
        os.replace(part, self.path)
        self._saved = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to save again."""
        return self.path is not None and time.monotonic() - self._saved > EVERY
