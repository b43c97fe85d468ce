"""Write the repository's public address wherever it has to stand, or take it out.

``[project.urls] Repository`` in pyproject.toml is the one source: the book's launch buttons and
links to report errors read it when the book is built, and without it they are left out. README.md,
CITATION.cff, the first page and the chapters' cells for Colab cannot read it, so each of them has
two wordings, one with an address and one without (``PLACES``); this script puts in the right one
and ``tests/book/test_repository.py`` compares.

    python tools/set_address.py https://github.com/someone/mfbook    # make address URL=...
    python tools/set_address.py                  # the wordings again, as pyproject.toml has it
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "pyproject.toml"
#: File, the words without a public address, the words with one.
PLACES = [
    (
        SOURCE,
        "# There is none yet.",
        '[project.urls]\nRepository = "{url}"',
    ),
    (
        "README.md",
        "*This book has no public address yet: what follows is for a copy of its folder.*",
        "[![Launch Binder](https://mybinder.org/badge_logo.svg)]"
        "({binder}/main?urlpath=lab/tree/book/01-introduction.ipynb)",
    ),
    (
        "README.md",
        "cd mfbook     # the folder of this file",
        "git clone {url} && cd {name}",
    ),
    (
        "README.md",
        "needs a public address, which the book does not have yet;\n  `make address` then puts "
        "a badge here and buttons on the pages. Until then: `make lab`\n  writes the edition for "
        "JupyterLab, which Binder will show, and says how to open it.",
        "the badge above opens the chapters in JupyterLab on Binder.",
    ),
    (
        "CITATION.cff",
        "# repository-code: none yet",
        "repository-code: {url}",
    ),
    (
        "book/index.md",
        "This copy of the book has no public address yet, so its pages have no button for Binder "
        "or Colab.\n  On your own machine `make lab` writes the chapters for JupyterLab and says "
        "how to open them; change\n  a number and run the cell again.",
        "The rocket at the top of a chapter opens it in JupyterLab on Binder, or on Colab. Change "
        "a number and\n  run the cell again. Starting takes a few minutes.",
    ),
    (
        "book/index.md",
        "In the folder of the book, `make book` renders",
        "`git clone {url}`, then `make book` renders",
    ),
    *(
        (str(path.relative_to(ROOT)), r'"ADDRESS = \"\"', r'"ADDRESS = \"{url}\"')
        for path in sorted((ROOT / "book").glob("*.ipynb"))
    ),
]  # fmt: skip


def address(root: Path = ROOT) -> str:
    """The repository's public address as pyproject.toml gives it; empty if there is none."""
    project = tomllib.loads((root / SOURCE).read_text(encoding="utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "")


def parts(url: str) -> tuple[str, str, str]:
    """Host, owner and name of a GitHub or GitLab address."""
    match = re.fullmatch(r"https://(github|gitlab)\.com/([\w.-]+)/([\w.-]+)", url)
    if not match or "OWNER" in match.groups():
        raise ValueError(
            f"URL: expected https://github.com/<owner>/<name> or gitlab.com, got {url!r}"
        )
    return match[1], match[2], match[3]


def binder(url: str) -> str:
    """The Binder launcher of a GitHub or GitLab address (JupyterLab, at the book's folder)."""
    host, owner, name = parts(url)
    path = f"gh/{owner}/{name}" if host == "github" else f"gl/{owner}%2F{name}"
    return f"https://mybinder.org/v2/{path}"


def wording(without: str, with_: str, url: str) -> str:
    """What has to stand at a place."""
    return with_.format(url=url, binder=binder(url), name=parts(url)[2]) if url else without


def either(without: str, with_: str) -> re.Pattern:
    """What may stand at a place now: the words without an address, or with any."""
    some = re.sub(r"\\\{(url|binder|name)\\\}", r"[^\\s\"`]+", re.escape(with_))
    return re.compile(rf"{re.escape(without)}|{some}")


def rewrite(root: Path, url: str) -> list[str]:
    """Put an address in everywhere, or take it out (``url`` empty); the names of changed files."""
    if url:
        parts(url)
    changed = []
    for name, without, with_ in PLACES:
        path = root / name
        before = path.read_text(encoding="utf-8")
        new = wording(without, with_, url)
        after, count = either(without, with_).subn(lambda _, new=new: new, before)
        if count != 1:
            raise ValueError(f"{name}: found {count} times, not once: {without!r}")
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(name)
    return list(dict.fromkeys(changed))


def main(arguments: list[str]) -> None:
    """Set the address that is given; without one, the wordings as pyproject.toml asks for them."""
    url = arguments[0].rstrip("/") if arguments else address()
    if arguments and not url:
        raise ValueError("URL: expected https://github.com/<owner>/<name>, got nothing")
    print("\n".join(rewrite(ROOT, url)) or "nothing to change")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
