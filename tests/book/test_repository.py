"""The files around the book: workflows, pinned versions, licences, one command for all tests."""

import base64
import re
import tomllib

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner
from packaging.requirements import Requirement

from tools.chapters import ROOT, figure
from tools.run_notebooks import README_FIGURE, README_SOURCE

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: Schemas that come with check-jsonschema, and the files that have to follow them.
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.dependabot": [ROOT / ".github" / "dependabot.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def workflow(path) -> tuple[dict, list[dict], list[dict], str]:
    """A workflow, its jobs, their steps, and all that they run in a shell."""
    whole = yaml.safe_load(path.read_text())
    jobs = list(whole["jobs"].values())
    steps = [step for job in jobs for step in job.get("steps", [])]
    variants = [v for j in jobs for v in j.get("strategy", {}).get("matrix", {}).get("include", [])]
    lines = [*(v.get("command", "") for v in variants), *(s.get("run", "") for s in steps)]
    return whole, jobs, steps, "\n".join(lines)


def test_files_follow_their_schemas():
    for schema, files in SCHEMAS.items():
        done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, *map(str, files)])
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_runs_what_is_there_and_is_careful(path):
    """Little is permitted, nothing runs for ever, actions are GitHub's own by major version."""
    whole, jobs, steps, commands = workflow(path)
    called = re.findall(r"\bmake ([a-z]+)", commands)
    files = re.findall(r"(?:^|\s)(\.ci/\S+|tools/\S+)", commands)
    assert called or files
    assert set(called) <= set(re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text()))
    files += [job["uses"] for job in jobs if "uses" in job]
    assert all((ROOT / name).is_file() for name in files)
    assert whole["permissions"] == {"contents": "read"} and "concurrency" in whole
    assert all("timeout-minutes" in job or "uses" in job for job in jobs)
    for step in (step for step in steps if "uses" in step):
        assert re.fullmatch(r"actions/[\w/-]+@v\d+", step["uses"])
        if step["uses"].startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}


def test_workflows_test_every_python_and_publish_what_make_book_writes():
    found = (re.fullmatch(r".* :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"])
    versions = [match[1] for match in found if match]
    tests, pages = (
        workflow(ROOT / ".github" / "workflows" / f"{n}.yml") for n in ("test", "pages")
    )
    assert tests[0]["jobs"]["test"]["strategy"]["matrix"]["python"] == versions
    assert PROJECT["requires-python"] == f">={versions[0]}"
    (uploaded,) = [s["with"]["path"] for s in pages[2] if "upload-pages" in s.get("uses", "")]
    assert "make book" in pages[3]
    assert f"{uploaded}/index.html" in (ROOT / "Makefile").read_text()


def test_continuous_integration_runs_the_command_of_the_readme():
    assert re.search(r"^make test\b", read("README.md"), re.M)
    assert read(".ci/run").strip().splitlines()[-1] == "make test"


def test_licences_are_there():
    assert "BSD 3-Clause" in read("LICENSE")
    assert "Attribution 4.0 International" in read("LICENSES/CC-BY-4.0.txt")


def test_versions_agree_and_constraints_pin_every_requirement():
    assert yaml.safe_load(read("CITATION.cff"))["version"] == PROJECT["version"]
    pinned = {line.split("==")[0] for line in read("constraints.txt").splitlines()}
    extras = PROJECT["optional-dependencies"]
    needed = [line for name in ("book", "run", "test", "weekly") for line in extras[name]]
    assert {Requirement(line).name for line in (*PROJECT["dependencies"], *needed)} <= pinned


def test_the_readme_shows_the_figure_of_the_book():
    assert str(README_FIGURE.relative_to(ROOT)) in read("README.md")
    assert README_FIGURE.read_bytes() == base64.b64decode(figure(*README_SOURCE))
