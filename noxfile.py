"""The oldest and the newest versions: ``nox`` runs the unit tests and the chapters with each.

nox                     both
nox --session oldest    the lower bounds in pyproject.toml, on the oldest Python
nox --session newest    what is newest, on whatever Python runs nox
"""

import tomllib
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Of the time of the oldest Matplotlib, which newer ones warn.
CONTEMPORARY = ["pyparsing<3.3"]
#: As ``make`` sets them.
PLAIN = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


def test(session: nox.Session) -> None:
    """Run the unit tests and the chapters; ``nox -- tests/unit/flow`` these alone."""
    given = session.posargs or ["tests/unit", *map(str, sorted(Path("book").glob("*.ipynb")))]
    parallel = ["--numprocesses", "logical", "--dist", "loadfile"]
    options = ["--nbval", "--nbval-current-env", "--quiet", "-m", "not browser", *parallel]
    session.run("python", "-m", "pytest", *options, *given, env=PLAIN)


@nox.session(python="3.11")
def oldest(session: nox.Session) -> None:
    """The least versions that pyproject.toml allows."""
    least = [bound.replace(">=", "==") for bound in PROJECT["dependencies"]]
    session.install(*least, *CONTEMPORARY, "--editable", ".[run,test]")
    test(session)


@nox.session
def newest(session: nox.Session) -> None:
    """The newest versions that pyproject.toml allows."""
    session.install("--editable", ".[run,test]")
    test(session)
