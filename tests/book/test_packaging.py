"""The wheel and the source distribution: what is in them, what they say, that the wheel works."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from tools.chapters import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.weekly]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"{PROJECT['name']}-{PROJECT['version']}"
#: Run far from the repository: every module is imported, and a teacher has the entropy as its risk.
EXAMPLE = """
import importlib, pkgutil
import mfbook
import numpy as np

for module in pkgutil.walk_packages(mfbook.__path__, "mfbook."):
    importlib.import_module(module.name)
rng, shape = np.random.default_rng(0), mfbook.HeadShape(3, 2, 2)
X, W_U = rng.normal(size=(8, 4, 3)), rng.normal(size=(3, 5))
teacher = mfbook.Measure(rng.normal(size=(2, shape.size)))
logits = np.einsum("n,nstv->stv", teacher.weights, mfbook.features(teacher.atoms, X, W_U, shape))
Y = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
R = mfbook.AttentionRisk(X, Y, W_U, shape)
print(mfbook.__file__, abs(R(teacher) + (Y * np.log(Y)).sum(axis=-1).mean()))
"""


def source_files() -> list[str]:
    """The files of a clone: those that git tracks, and new ones that it does not ignore."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: what belongs to the repository is not known")
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source distribution, built from a copy of the clone as `make dist` does."""
    clone, out = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("dist")
    for name in source_files():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, clone],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    wheel, source = sorted(out.iterdir())
    assert (wheel.name, source.name) == (f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz")
    return wheel, source


def test_distributions_hold_the_package_and_nothing_else(built):
    wheel, source = built
    package = {name for name in source_files() if name.startswith("mfbook/")}
    names = set(zipfile.ZipFile(wheel).namelist())
    about = {name for name in names if name.startswith(f"{NAME}.dist-info/")}
    assert names - about == package
    assert {
        f"{NAME}.dist-info/licenses/{name}" for name in ("LICENSE", "LICENSES/CC-BY-4.0.txt")
    } <= about
    with tarfile.open(source) as archive:
        files = {m.name.removeprefix(f"{NAME}/") for m in archive.getmembers() if m.isfile()}
    generated = {"PKG-INFO", "setup.cfg"} | {n for n in files if n.startswith("mfbook.egg-info/")}
    assert package <= files and files - generated - package == {
        "LICENSE", "LICENSES/CC-BY-4.0.txt", "README.md", "pyproject.toml",
    }  # fmt: skip


def test_metadata_are_valid_and_those_of_the_project(built):
    text = zipfile.ZipFile(built[0]).read(f"{NAME}.dist-info/METADATA")
    found = Metadata.from_email(text, validate=True)
    assert (found.name, str(found.version)) == (PROJECT["name"], PROJECT["version"])
    assert str(found.requires_python) == PROJECT["requires-python"]
    assert (found.license_expression, found.project_urls or {}) == (
        PROJECT["license"],
        PROJECT.get("urls", {}),
    )
    assert found.description.strip() == (ROOT / "README.md").read_text().strip()
    assert set(found.provides_extra) == set(PROJECT["optional-dependencies"])
    plain = {str(need) for need in found.requires_dist if need.marker is None}
    assert plain == {str(Requirement(line)) for line in PROJECT["dependencies"]}


def test_installed_wheel_works_outside_of_the_repository(built, tmp_path):
    place = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--no-index", "--target", place, built[0]],
        check=True,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXAMPLE], cwd=tmp_path, capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": str(place)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    where, excess = done.stdout.split()
    assert where == str(place / "mfbook" / "__init__.py") and float(excess) < 1e-14
