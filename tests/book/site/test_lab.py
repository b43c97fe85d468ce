"""The edition for JupyterLab in a real JupyterLab: opened untrusted, as in Binder, and run."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from nbformat import v4

from tools import for_lab
from tools.chapters import chapters, read, text
from tools.run_notebooks import METADATA

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAMES = [path.stem for path in chapters()]
JUPYTER = [sys.executable, "-m", "jupyter"]
TOKEN = "a-reader"
#: Generous: a machine with other work starts JupyterLab in half a minute.
LONG = 120_000

#: All cells are rendered, not only those in the window; and nobody is asked about news.
SETTINGS = {
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false"},
}
#: A figure with frames and a cell to try, as chapters have them, that run in a moment.
TRIAL = """\
from mfbook.book import plots

def line(slope):
    series = [{"x": [0, 1], "y": [0, slope], "label": "line"}]
    return plots.curves(series, xlabel="x", ylabel="y")
"""
FRAMES = """\
plots.frames(line, [1, 2, 3], name="slope", alt="A line of slope {}".format, caption="Lines.")"""
TRY_IT = """\
plots.try_it(line, {"slope": ("slope of the line", [1, 2, 3], 2)},
             alt="A line of slope {slope}".format, caption="A line.")"""

# Everything that is checked of a chapter that nobody has run.
FOUND = """() => {
    const all = (selector) => [...document.querySelectorAll(`.jp-Notebook ${selector}`)];
    const seen = (e) => e.checkVisibility() && e.getBoundingClientRect().height > 0;
    return {
        pictures: all('figure').map(f => [...f.querySelectorAll('img')].filter(seen).length),
        frames: all('figure.mf-frames').length,
        hints: all('.mf-frames-hint').filter(seen).length,
        collapsed: all('.jp-InputPlaceholder, .jp-Cell-inputArea .jp-Placeholder').length,
        missing: all('[title*="Not Found"]').map(e => e.textContent),
        files: all('.myst a[href*="/files/"]').map(a => a.href),
        own: all('.myst a[href^="#"]').map(a => a.getAttribute('href').slice(1))
            .filter(id => !id || !document.getElementById(id)),
        waiting: all('.jp-MarkdownCell').filter(c => !c.querySelector('.myst > *')).length,
        text: document.querySelector('.jp-Notebook').innerText,
    };
}"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The edition, and a small notebook with what chapters have."""
    folder = tmp_path_factory.mktemp("lab") / "book"
    for_lab.write(folder)
    cells = [v4.new_code_cell(source) for source in (TRIAL, FRAMES, TRY_IT)]
    trial = v4.new_notebook(cells=cells, metadata=METADATA)
    nbformat.write(trial, folder / "trial.ipynb")
    return folder


@pytest.fixture(scope="module")
def lab(folder):
    """The address of a JupyterLab with settings of its own."""
    home, port = folder.parent, free_port()
    (home / "settings").mkdir()
    (home / "settings" / "overrides.json").write_text(json.dumps(SETTINGS))
    address = f"http://127.0.0.1:{port}/"
    own = {
        f"JUPYTER_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")
    }
    with open(home / "log.txt", "w") as log:
        server = subprocess.Popen(
            [*JUPYTER, "lab", "--no-browser", "--allow-root", "--ip", "127.0.0.1",
             "--port", str(port), f"--IdentityProvider.token={TOKEN}",
             f"--ServerApp.root_dir={folder}", f"--LabApp.app_settings_dir={home / 'settings'}",
             f"--LabApp.workspaces_dir={home / 'workspaces'}",
             f"--LabApp.user_settings_dir={home / 'user'}"],
            stdout=log, stderr=log, env={**os.environ, **own, "JUPYTER_PREFER_ENV_PATH": "1"},
        )  # fmt: skip
        try:
            for _ in range(LONG // 1000):
                try:
                    urllib.request.urlopen(f"{address}api?token={TOKEN}", timeout=5).close()
                    break
                except OSError:
                    assert server.poll() is None, (home / "log.txt").read_text()[-2000:]
                    time.sleep(1)
            yield address
        finally:
            server.terminate()
            server.wait(timeout=60)


@pytest.fixture
def visit(lab, browser):
    context = browser.new_context(viewport={"width": 1200, "height": 1400})
    context.set_default_timeout(LONG)

    def open_notebook(name):
        page = context.new_page()
        page.goto(f"{lab}lab/tree/{name}?token={TOKEN}&reset")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        return page

    yield open_notebook
    context.close()


def settled(page) -> dict:
    """What is found when two looks at it agree: formulas and outputs come one after the other."""
    before, found = None, page.evaluate(FOUND)
    for _ in range(LONG // 3000):
        if found == before and found["text"].strip() and not found["waiting"]:
            return found
        page.wait_for_timeout(3000)
        before, found = found, page.evaluate(FOUND)
    raise AssertionError("the notebook does not come to rest")


def run_all(page):
    # without a kernel it would ask for one
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).first.click()


def test_the_pair_declares_itself_compatible():
    listed = subprocess.run(
        [*JUPYTER, "labextension", "list"], capture_output=True, text=True, check=True
    )
    said = listed.stdout + listed.stderr
    assert "jupyterlab-myst" in said and "not compatible" not in said, said


@pytest.mark.by_turn(one=7)
@pytest.mark.parametrize("name", NAMES)
def test_an_untrusted_chapter_is_whole(name, visit, folder):
    """One picture a figure, links to files that are there, folded cells, no trace of widgets."""
    notebook = read(folder / f"{name}.ipynb")
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found = settled(visit(f"{name}.ipynb"))
    assert all(count <= 1 for count in found["pictures"]), found["pictures"]
    stored = "".join(
        text(o.get("data", {}).get("text/html", "")) for c in code for o in c["outputs"]
    )
    assert found["frames"] == found["hints"] == stored.count('<figure class="mf-frames"')
    hidden = [c for c in code if c["metadata"].get("jupyter", {}).get("source_hidden")]
    assert found["collapsed"] == len(hidden) > 0
    assert not found["missing"] and not found["own"]
    assert found["files"]
    for link in found["files"]:
        path = unquote(urlsplit(link).path).partition("/files/")[2]
        assert (folder / path).is_file(), link
    assert "Error displaying widget" not in found["text"] and "Loading widget" not in found["text"]
    first = found["text"].strip()[:400]
    assert "colab" not in first.lower()
    # roles that were not translated, and directives that JupyterLab does not know
    assert not re.search(r"\{[a-z:]+\}`|unknown directive", found["text"])


@pytest.mark.by_turn
def test_a_link_to_another_chapter_opens_it(visit):
    page = visit("01-introduction.ipynb")
    page.locator(".jp-Notebook .myst a[href*='02-model.ipynb']").first.click()
    shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) h1")
    shown.filter(has_text="Notation and model").wait_for()


#: The picture is another element after each computation.
CHANGED = "old => ![null, undefined, old].includes(document.querySelector('.widget-html img')?.src)"


@pytest.mark.by_turn
def test_a_run_makes_the_slider_move_by_keyboard_and_the_cell_to_try_compute(visit):
    page = visit("trial.ipynb")
    run_all(page)
    slider = page.locator("figure.mf-frames input")
    slider.focus()
    for key in ("ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert slider.input_value() == "2"
    alt = page.locator("figure.mf-frames > img").get_attribute("alt")
    assert alt == "A line of slope 3" and not page.locator(".mf-frames-hint").is_visible()
    picture = page.locator(".widget-html img").first
    before = picture.get_attribute("src")
    # by its name and by keyboard, as a screen reader does
    page.get_by_role("combobox", name="slope of the line", exact=True).focus()
    for key in ("Space", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_function(CHANGED, arg=before)
    assert picture.get_attribute("alt") == "A line of slope 3"


def trying() -> list[str]:
    """Chapters with a cell to try, the fastest first."""
    seconds = json.loads((for_lab.book.BOOK / "timings.json").read_text())
    found = [p.stem for p in chapters() if "plots.try_it(" in p.read_text(encoding="utf-8")]
    return sorted(found, key=lambda name: seconds.get(name, {}).get("seconds", 1000))


@pytest.mark.weekly
def test_a_chapter_is_run_and_its_cell_to_try_computes_again(visit):
    name, *_ = trying()
    page = visit(f"{name}.ipynb")
    run_all(page)
    box = page.locator(".jp-OutputArea-output .widget-vbox").first
    box.wait_for(timeout=5 * LONG)
    named = box.get_by_role("combobox", name=re.compile(r"\w{3}"))
    assert named.count() == box.locator("select, input, [role=slider]").count() > 0
    control = named.first
    control.scroll_into_view_if_needed()
    picture = box.locator(".widget-html img").first
    before = picture.get_attribute("src")
    control.select_option(index=control.locator("option").count() - 1)
    button = box.locator("button")
    if button.count():
        button.first.click()
    page.wait_for_function(CHANGED, arg=before)
