"""Import paths of version 0.2, which still work, with a warning, until version 0.4."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
import warnings
from types import ModuleType

#: Where the public names of an old module are now.
MOVED = {
    "attention": ["models.attention"],
    "certificate": ["optimise"],
    "confinement": ["models.confinement"],
    "derivatives": ["bounds.derivatives"],
    "ensemble": ["models.attention.ensemble"],
    "experiments": ["book.experiments"],
    "influence": ["flow.influence"],
    "layers": ["models.layers"],
    "network": ["models.network"],
    "parallel": ["models.attention.parallel"],
    "plots": ["book.plots"],
    "report": ["book.report"],
    "sphere": ["models.sphere", "models.activations", "landscape", "equilibria", "bounds"],
    "sweep": ["book.sweep"],
    "tasks": ["book.tasks"],
    "tokens": ["models.tokens"],
}
#: What is called otherwise now.
RENAMED = {("layers", "TwoLayerRisk"): "StackedRisk"}


class _Old(ModuleType):
    """Hands on the names of the modules that took the place of an old one."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        old = self.__name__.removeprefix("mfbook.")
        for place in _places(old):
            module = importlib.import_module(place)
            try:
                return getattr(module, RENAMED.get((old, name), name))
            except AttributeError:
                continue
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def _places(old: str) -> list[str]:
    """New modules for an old one, or for a module inside an old one."""
    head, _, rest = old.partition(".")
    found = [f"mfbook.{place}" for place in MOVED.get(head, ())]
    return [f"{found[0]}.{rest}"] if rest and len(found) == 1 else [] if rest else found


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        package, _, old = fullname.partition(".")
        if package != "mfbook" or not _places(old):
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec):
        return _Old(spec.name)

    def exec_module(self, module):
        places = " and ".join(_places(module.__name__.removeprefix("mfbook.")))
        for place in _places(module.__name__.removeprefix("mfbook.")):
            importlib.import_module(place)
        warnings.warn(
            f"{module.__name__} is now {places}; the old path goes in version 0.4",
            DeprecationWarning,
            stacklevel=2,
        )


def install() -> None:
    """Let old paths be found where no new one is."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
