"""Angles are radians in the package, and every docstring that speaks of one says so."""

import importlib
import inspect
import pkgutil
import re

import pytest

import mfbook

#: An angle as a number: not one by which something is only sorted or turned.
ANGLE = re.compile(
    r"(?<!by )(?<!increasing )\bangles?\b|geodesic (distance|step)|lengths? of (the )?arc"
)
#: Figures have axes in degrees; what they take is said on their page.
FIGURES = "mfbook.book.plots"


def documented():
    """Public functions, classes and their members, with their docstrings."""
    for info in pkgutil.walk_packages(mfbook.__path__, "mfbook."):
        if info.name.startswith(FIGURES):
            continue
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            yield f"{info.name}.{name}", inspect.getdoc(thing) or ""
            if inspect.isclass(thing):
                for part, member in vars(thing).items():
                    if not part.startswith("_") and (
                        callable(member) or isinstance(member, property)
                    ):
                        yield f"{info.name}.{name}.{part}", inspect.getdoc(member) or ""


ANGLED = {
    name: doc for name, doc in documented() if ANGLE.search(doc.partition("Examples\n---")[0])
}


@pytest.mark.parametrize("name", ANGLED)
def test_the_unit_of_an_angle_is_named(name):
    assert "radian" in ANGLED[name]


def test_such_docstrings_are_found():
    names = {name.rpartition(".")[2] for name in ANGLED}
    assert {"clusters", "default_threshold", "inflection", "kernel", "distance", "settle"} <= names
