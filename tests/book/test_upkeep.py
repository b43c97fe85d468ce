"""What keeps the repository alive: workflows, versions, release notes, and the check of links."""

import datetime
import http.server
import json
import re
import subprocess
import sys
import threading
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


def read(path) -> dict:
    """A workflow; YAML 1.1 takes the key ``on`` for a truth value."""
    return yaml.safe_load(path.read_text())


def jobs(path) -> list[dict]:
    return list(read(path)["jobs"].values())


def steps(path) -> list[dict]:
    return [step for job in jobs(path) for step in job.get("steps", [])]


def commands(path) -> str:
    """All that a workflow runs in a shell."""
    variants = [
        variant.get("command", "")
        for job in jobs(path)
        for variant in job.get("strategy", {}).get("matrix", {}).get("include", [])
    ]
    return "\n".join([*variants, *(step.get("run", "") for step in steps(path))])


def classified() -> list[str]:
    """The versions of Python that the classifiers name."""
    found = (re.fullmatch(r".* :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"])
    return [match[1] for match in found if match]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_file_follows_its_schema(schema):
    arguments = ["--builtin-schema", schema, *map(str, SCHEMAS[schema])]
    done = CliRunner().invoke(check_jsonschema, arguments)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_runs_what_is_there(path):
    targets = re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text())
    called = re.findall(r"\bmake ([a-z]+)", commands(path))
    scripts = re.findall(r"(?:^|\s)(\.ci/\S+|tools/\S+)", commands(path))
    local = [job["uses"] for job in jobs(path) if "uses" in job]
    assert called or scripts
    assert set(called) <= set(targets)
    assert all((ROOT / name).is_file() for name in [*scripts, *local])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_is_careful(path):
    """Little is permitted, nothing runs for ever, actions are GitHub's own by major version."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "concurrency" in workflow
    assert all("timeout-minutes" in job or "uses" in job for job in jobs(path))
    for step in steps(path):
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w/-]+@v\d+", step["uses"])
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"].get("fetch-depth", 1) in (1, 2)
            assert {**step["with"], "fetch-depth": 1} == {
                "persist-credentials": False, "fetch-depth": 1,
            }  # fmt: skip


def test_tests_run_on_every_python_that_is_promised():
    matrix = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == classified()
    assert PROJECT["requires-python"] == f">={classified()[0]}"


def test_pages_are_those_that_make_book_writes():
    path = ROOT / ".github" / "workflows" / "pages.yml"
    (uploaded,) = [s["with"]["path"] for s in steps(path) if "upload-pages" in s.get("uses", "")]
    assert "make book" in commands(path)
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
    assert (versions[0], days[0]) == (PROJECT["version"], citation["date-released"])


class Site(http.server.BaseHTTPRequestHandler):
    """One page and nothing else."""

    def do_GET(self):
        self.send_response(200 if self.path == "/page" else 404)
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_broken_links_are_found(server, tmp_path):
    """With the options of `make links`."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"]
    options = {name: value for name, value in config.items() if name.startswith("linkcheck_")}
    (tmp_path / "conf.py").write_text("".join(f"{k} = {v!r}\n" for k, v in options.items()))
    addresses = {
        f"{server}/page": "working",
        f"{server}/gone": "broken",
        f"{server}/issues/new?title=Error": "ignored",
        "page.html#theorem": "ignored",
    }
    (tmp_path / "index.rst").write_text("\n\n".join(f"`<{address}>`__" for address in addresses))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-b", "linkcheck", tmp_path, tmp_path / "out"],
        capture_output=True, text=True,
    )  # fmt: skip
    lines = (tmp_path / "out" / "output.json").read_text().splitlines()
    assert {entry["uri"]: entry["status"] for entry in map(json.loads, lines)} == addresses
    assert done.returncode == 1
