"""Write the repository's public address wherever it has to stand.

``[project.urls] Repository`` in pyproject.toml is the one source: the book's launch buttons read
it when the book is built. README.md, CITATION.cff, the first page and the chapters' cells for
Colab cannot read it, so they hold copies, which this script rewrites and
``tests/book/test_repository.py`` compares.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIES = (
    "README.md",
    "CITATION.cff",
    "book/index.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "book").glob("*.ipynb")),
)


def address(root: Path = ROOT) -> str:
    """The repository's address as pyproject.toml gives it."""
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]["urls"]["Repository"]


def binder(url: str) -> str:
    """The Binder launcher of a GitHub or GitLab address (JupyterLab, at the book's folder)."""
    match = re.fullmatch(r"https://(github|gitlab)\.com/([\w.-]+)/([\w.-]+)", url)
    if not match:
        raise ValueError(f"URL: expected https://github.com/OWNER/NAME or gitlab, got {url!r}")
    host, owner, name = match.groups()
    path = f"gh/{owner}/{name}" if host == "github" else f"gl/{owner}%2F{name}"
    return f"https://mybinder.org/v2/{path}"


def rewrite(root: Path, new: str) -> list[str]:
    """Replace the address in pyproject.toml and its copies; return the names of changed files."""
    old = address(root)
    pairs = [(binder(old), binder(new)), (old, new)]
    changed = []
    for name in ("pyproject.toml", *COPIES):
        path = root / name
        before = after = path.read_text()
        for left, right in pairs:
            after = re.sub(re.escape(left) + r"(?![\w-])", right, after)
        if after != before:
            path.write_text(after)
            changed.append(name)
    return changed


if __name__ == "__main__":
    try:
        print("\n".join(rewrite(ROOT, sys.argv[1].rstrip("/"))) or "nothing to change")
    except ValueError as error:
        sys.exit(str(error))
