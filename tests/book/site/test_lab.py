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

import pytest
from rendered import CHAPTER, LONG, daily

from tools import for_lab
from tools.chapters import BOOK, chapters, read, text

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAMES = [path.stem for path in chapters()]
JUPYTER = [sys.executable, "-m", "jupyter"]
TOKEN = "a-reader"
#: All cells are rendered, not only those in the window; and nobody is asked about news.
SETTINGS = {
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false"},
}
# Everything that is checked of a chapter that nobody has run.
FOUND = """() => {
    const all = (selector) => [...document.querySelectorAll(`.jp-Notebook ${selector}`)];
    const seen = (e) => e.checkVisibility() && e.getBoundingClientRect().height > 0;
    return {
        waiting: all('.jp-MarkdownCell').filter(c => !c.querySelector('.myst > *')).length,
        collapsed: all('.jp-InputPlaceholder, .jp-Cell-inputArea .jp-Placeholder').length,
        frames: all('figure.mf-frames').length,
        hints: all('.mf-frames-hint').filter(seen).length,
        crowded: all('figure').filter(f => [...f.querySelectorAll('img')].filter(seen).length > 1)
            .map(f => f.innerText),
        missing: all('[title*="Not Found"]').map(e => e.textContent),
        files: all('.myst a[href*="/files/"]').map(a => a.href),
        lost: all('.myst a[href^="#"]').map(a => a.getAttribute('href').slice(1))
            .filter(id => !id || !document.getElementById(id)),
        text: document.querySelector('.jp-Notebook').innerText,
    };
}"""
# Formulas and outputs come one after the other.
COUNTED = f"""expected => {{
    const found = ({FOUND})();
    return Object.entries(expected).every(([key, value]) => found[key] === value);
}}"""
#: The picture is another element after each computation.
CHANGED = "old => ![null, undefined, old].includes(document.querySelector('.widget-html img')?.src)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab") / "book"
    for_lab.write(folder)
    return folder


@pytest.fixture(scope="module")
def lab(folder):
    """The address of a JupyterLab with settings of its own."""
    home = folder.parent
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    (home / "settings").mkdir()
    (home / "settings" / "overrides.json").write_text(json.dumps(SETTINGS))
    address = f"http://127.0.0.1:{port}/"
    own = {f"JUPYTER_{kind}_DIR": str(home / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
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
    with browser.new_context(viewport={"width": 1200, "height": 1400}) as context:
        context.set_default_timeout(LONG)

        def open_notebook(name):
            page = context.new_page()
            page.goto(f"{lab}lab/tree/{name}?token={TOKEN}&reset")
            page.wait_for_selector(".jp-Notebook .jp-CodeCell")
            return page

        yield open_notebook


@pytest.mark.parametrize("name", daily(NAMES, CHAPTER.removesuffix(".html")))
def test_an_untrusted_chapter_is_whole(name, visit, folder):
    """One picture a figure, links to files that are there, folded cells, no trace of widgets."""
    code = [c for c in read(folder / f"{name}.ipynb")["cells"] if c["cell_type"] == "code"]
    stored = "".join(
        text(o.get("data", {}).get("text/html", "")) for c in code for o in c["outputs"]
    )
    frames = stored.count('<figure class="mf-frames"')
    hidden = sum(c["metadata"].get("jupyter", {}).get("source_hidden", False) for c in code)
    page = visit(f"{name}.ipynb")
    counts = {"waiting": 0, "collapsed": hidden, "frames": frames, "hints": frames}
    try:
        # looking at each frame would leave the page no time
        page.wait_for_function(COUNTED, arg=counts, polling=1000)
    finally:
        found = page.evaluate(FOUND)
    assert {key: found[key] for key in counts} == counts and hidden
    assert not found["crowded"] and not found["missing"] and not found["lost"]
    assert found["files"]
    for link in found["files"]:
        path = unquote(urlsplit(link).path).partition("/files/")[2]
        assert (folder / path).is_file(), link
    # widgets, roles that were not translated, and directives that JupyterLab does not know
    left = r"Error displaying widget|Loading widget|\{[a-z:]+\}`|unknown directive"
    assert not re.search(left, found["text"])


@pytest.mark.weekly
def test_opening_a_chapter_does_not_mark_it_as_changed(visit):
    page = visit("01-introduction.ipynb")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.wait_for_timeout(2000)
    assert not page.locator(".lm-TabBar-tab.jp-mod-dirty").count()
    assert page.get_by_text("is a still picture").count()


@pytest.mark.weekly
def test_the_pair_declares_itself_compatible():
    listed = subprocess.run(
        [*JUPYTER, "labextension", "list"], capture_output=True, text=True, check=True
    )
    said = listed.stdout + listed.stderr
    assert "jupyterlab-myst" in said and "not compatible" not in said, said


@pytest.mark.weekly
def test_a_link_to_another_chapter_opens_it(visit):
    page = visit("01-introduction.ipynb")
    page.locator(".jp-Notebook .myst a[href*='02-model.ipynb']").first.click()
    shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) h1")
    shown.filter(has_text="Notation and model").wait_for()


@pytest.mark.weekly
def test_a_chapter_is_run_its_slider_moves_and_its_cell_to_try_computes_again(visit):
    seconds = json.loads((BOOK / "timings.json").read_text())
    to_try = [p.stem for p in chapters() if "plots.try_it(" in p.read_text(encoding="utf-8")]
    page = visit(f"{min(to_try, key=lambda name: seconds[name]['seconds'])}.ipynb")
    # without a kernel it would ask for one
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).first.click()
    box = page.locator(".jp-OutputArea-output .widget-vbox").first
    box.wait_for(timeout=5 * LONG)
    # by name and by keyboard, as a screen reader does
    control = box.get_by_role("combobox", name=re.compile(r"\w{3}")).first
    before = box.locator(".widget-html img").first.get_attribute("src")
    control.press("Home")
    control.press("End")
    if (button := box.locator("button")).count():
        button.first.press("Enter")
    page.wait_for_function(CHANGED, arg=before)
    figure = page.locator("figure.mf-frames").first
    slider, picture = figure.locator("input"), figure.locator(":scope > img")
    shown = picture.get_attribute("alt")
    slider.press("Home" if slider.input_value() != "0" else "End")
    assert picture.get_attribute("alt") != shown
    assert not figure.locator(".mf-frames-hint").is_visible()
