"""Print constraints.txt for the installed environment.

The packages of the ``bench`` extra are left out, with what only they need: they are large, differ
by platform, and no test and no chapter uses them.
"""

import re
from importlib.metadata import distribution

from packaging.requirements import Requirement

HEADER = """\
# Exact versions of everything that 'make book', 'make test' and Binder install.
# To renew: make constraints, then make run and make test.
# jsonschema 4.25 and later build a grammar whenever they are imported: a second in each process."""

# A new environment may bring its own, and which one it is does not matter.
UNPINNED = {"wheel"}


def closure(name: str, extras: set[str], found: dict[tuple, str]) -> dict[tuple, str]:
    """Add to ``found`` what the named distribution requires, and what that requires."""
    for line in distribution(name).requires or []:
        need = Requirement(line)
        if need.marker and not any(need.marker.evaluate({"extra": e}) for e in extras or {""}):
            continue
        key = re.sub(r"[-_.]+", "-", need.name).lower()
        visit = (key, *sorted(need.extras))
        if key not in UNPINNED and visit not in found:
            found[visit] = f"{key}=={distribution(need.name).version}"
            closure(need.name, set(need.extras), found)
    return found


print(HEADER)
print("\n".join(sorted(set(closure("mfbook", {"book", "run", "test"}, {}).values()))))
