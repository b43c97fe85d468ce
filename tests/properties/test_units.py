"""Angles are radians in the package, and every docstring that speaks of one says so."""

import importlib
import inspect
import pkgutil
import re

import mfbook

#: An angle as a number: not one by which something is only sorted or turned.
ANGLE = re.compile(
    r"(?<!by )(?<!increasing )\bangles?\b|geodesic (distance|step)|lengths? of (the )?arc"
)


def documented():
    """Docstrings of public functions, classes and members."""
    for info in pkgutil.walk_packages(mfbook.__path__, "mfbook."):
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            yield f"{info.name}.{name}", inspect.getdoc(thing) or ""
            for part, member in vars(thing).items() if inspect.isclass(thing) else ():
                if not part.startswith("_"):
                    yield f"{info.name}.{name}.{part}", inspect.getdoc(member) or ""


def test_the_unit_of_an_angle_is_named():
    angled = {name: doc for name, doc in documented() if ANGLE.search(doc.partition("\n>>> ")[0])}
    assert [name for name, doc in angled.items() if "radian" not in doc] == []
    found = {name.rpartition(".")[2] for name in angled}
    assert {"clusters", "kernel", "distance"} <= found
