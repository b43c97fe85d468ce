"""What keeps the repository alive: workflows, versions and release notes."""

import datetime
import re
import tomllib

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

from tools.chapters import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: Schemas that come with check-jsonschema, and the files that have to follow them.
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.dependabot": [ROOT / ".github" / "dependabot.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


def read(path) -> tuple[dict, list[dict], list[dict], str]:
    """A workflow, its jobs, their steps, and all that they run in a shell."""
    workflow = yaml.safe_load(path.read_text())
    jobs = list(workflow["jobs"].values())
    steps = [step for job in jobs for step in job.get("steps", [])]
    variants = [v for j in jobs for v in j.get("strategy", {}).get("matrix", {}).get("include", [])]
    lines = [*(v.get("command", "") for v in variants), *(s.get("run", "") for s in steps)]
    return workflow, jobs, steps, "\n".join(lines)


def test_files_follow_their_schemas():
    for schema, files in SCHEMAS.items():
        done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, *map(str, files)])
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_runs_what_is_there_and_is_careful(path):
    """Little is permitted, nothing runs for ever, actions are GitHub's own by major version."""
    workflow, jobs, steps, commands = read(path)
    called = re.findall(r"\bmake ([a-z]+)", commands)
    files = re.findall(r"(?:^|\s)(\.ci/\S+|tools/\S+)", commands)
    assert called or files
    assert set(called) <= set(re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text()))
    files += [job["uses"] for job in jobs if "uses" in job]
    assert all((ROOT / name).is_file() for name in files)
    assert workflow["permissions"] == {"contents": "read"} and "concurrency" in workflow
    assert all("timeout-minutes" in job or "uses" in job for job in jobs)
    for step in (step for step in steps if "uses" in step):
        assert re.fullmatch(r"actions/[\w/-]+@v\d+", step["uses"])
        if step["uses"].startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}


def test_workflows_test_every_python_and_publish_what_make_book_writes():
    found = (re.fullmatch(r".* :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"])
    versions = [match[1] for match in found if match]
    tests, pages = (read(ROOT / ".github" / "workflows" / f"{n}.yml") for n in ("test", "pages"))
    assert tests[0]["jobs"]["test"]["strategy"]["matrix"]["python"] == versions
    assert PROJECT["requires-python"] == f">={versions[0]}"
    (uploaded,) = [s["with"]["path"] for s in pages[2] if "upload-pages" in s.get("uses", "")]
    assert "make book" in pages[3]
    assert f"{uploaded}/index.html" in (ROOT / "Makefile").read_text()


def test_release_notes_have_a_section_for_each_version():
    notes = (ROOT / "CHANGELOG.md").read_text()
    first, *released = re.findall(r"(?m)^## (.*)$", notes)
    assert first == "Unreleased"
    versions, dates = zip(*(section.split(" - ") for section in released), strict=True)
    order = [tuple(map(int, version.split("."))) for version in versions]
    days = [datetime.date.fromisoformat(date) for date in dates]
    assert order == sorted(set(order), reverse=True) and days == sorted(days, reverse=True)
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"(?m)^### (.*)$", notes)) <= kinds
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["date-released"]) == (versions[0], days[0])
    assert versions[0] == PROJECT["version"]
