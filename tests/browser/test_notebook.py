"""What the notebooks rely on in JupyterLab, with each ipykernel: widgets, and figures that change after their cell has ended."""

import json
from collections.abc import Callable

import nbformat
import pytest

from tests.browser.conftest import NOTEBOOKS
from tests.browser.equipment import Ipykernel, one_ipykernel
from tests.browser.lab import JupyterLab
from tests.browser.page import NotebookPage
from tests.browser.test_headless import MAY_ASK

pytestmark = pytest.mark.browser
PLOTLY = "application/vnd.plotly.v1+json"

COUNTER = '''
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    export default { render({ model, el }) {
      const button = document.createElement("button");
      const show = () => { button.textContent = model.get("text"); };
      button.className = "counter";
      button.onclick = () => model.send({ clicked: 1 });
      model.on("change:text", show);
      show();
      el.append(button);
    } };
    """
    text = traitlets.Unicode("none").tag(sync=True)
    clicks = 0

    def __init__(self):
        super().__init__()
        self.on_msg(self._clicked)

    def _clicked(self, _, content, buffers):
        self.clicks += content["clicked"]
        self.text = f"{self.clicks} in Python"

Counter()
'''

# `when(name, act)` acts in a thread, once the test has written the file `name`, which it does when no cell runs.
FIGURE = """
import threading, time
from pathlib import Path
import plotly.graph_objects as go
from IPython.display import display

def when(name, act):
    def wait_and_act():
        while not Path(name).exists():
            time.sleep(0.01)
        act()
        Path(f"{name}-done").touch()
    threading.Thread(target=wait_and_act, daemon=True).start()

def bundle(points):
    figure = go.Figure(go.Scatter(y=[float(n % 7) for n in range(points)]))
    return {"application/vnd.plotly.v1+json": figure.to_plotly_json(), "text/plain": f"{points} points"}

def update(points):
    shown.update(bundle(points), raw=True)

def redraw(points):
    shown.update({"text/html": ""}, raw=True)
    update(points)

shown = display(bundle(1), raw=True, display_id=True)
"""
POINTS = "document.querySelector('.js-plotly-plot .main-svg')?.closest('.js-plotly-plot').data[0].y.length"


def test_a_cell_runs_in_the_ipykernel_that_was_asked_for_and_its_widget_answers_a_click(
    lab: JupyterLab, page: NotebookPage, ipykernel: Ipykernel
) -> None:
    lab.write("widget.ipynb", [MAY_ASK, COUNTER])
    page.open("widget.ipynb").run_all()
    assert json.loads(page.text(0)) == [ipykernel.version(), True]

    button = page.output(1).locator("button.counter")
    for expected in ("none", "1 in Python", "2 in Python"):
        page.until(lambda text=expected: button.inner_text() == text, f"the button's text {expected!r}")
        button.click()


@one_ipykernel
def test_a_figure_changes_after_its_cell_has_ended_and_is_still_there_in_a_new_page(
    lab: JupyterLab, new_page: Callable[[], NotebookPage]
) -> None:
    acts = ["when('update', lambda: update(2))", "when('redraw', lambda: redraw(3))"]
    lab.write("figure.ipynb", ["\n".join([FIGURE, *acts]), COUNTER])
    page = new_page().open("figure.ipynb")
    page.run_all()
    page.wait_for(f"{POINTS} === 1", "the figure of the cell")

    # plotly's renderer keeps the graph that it has: the notebook has the new figure, the screen the old one.
    act(lab, page, "update")
    page.until(lambda: page.outputs(0)[0]["data"]["text/plain"] == "2 points", "the update in the notebook")
    assert page.page.evaluate(POINTS) == 1

    # An output of another kind in between makes JupyterLab build a new renderer.
    act(lab, page, "redraw")
    page.wait_for(f"{POINTS} === 3", "the figure drawn anew")
    page.until(lambda: "image/png" in page.outputs(0)[0]["data"], "the picture that plotly adds to the output")
    page.save()
    page.shut_down_kernel()
    page.close()

    again = new_page().open("figure.ipynb")
    again.allow("widget model not found")  # the widget's cell has not run in this page's new kernel
    again.until(lambda: "Error displaying widget: model not found" in again.text(1), "the widget's absence in words")
    picture = again.output(0).locator("img.plot-img")
    assert picture.bounding_box()["height"] > 300
    picture.dispatch_event("mouseenter")
    again.wait_for(f"{POINTS} === 3", "the figure, once the pointer is on its picture")


@one_ipykernel
def test_a_hundred_figures_in_the_same_place_leave_the_memory_of_the_page_flat(lab: JupyterLab, page: NotebookPage) -> None:
    drawn = "[(redraw(points), time.sleep(0.02)) for points in range(2, UNTIL)]"
    acts = [f"when('{name}', lambda: {drawn.replace('UNTIL', str(until))})" for name, until in (("warm-up", 22), ("hundred", 102))]
    lab.write("many.ipynb", ["\n".join([FIGURE, *acts])])
    page.open("many.ipynb").run_all()
    act(lab, page, "warm-up")
    page.wait_for(f"{POINTS} === 21", "the last figure of the warm-up")
    before = page.js_heap_bytes()
    act(lab, page, "hundred")
    page.wait_for(f"{POINTS} === 101", "the last of a hundred figures")
    assert page.js_heap_bytes() - before < 4_000_000


@one_ipykernel
def test_the_notebook_that_explains_shows_its_figures(lab: JupyterLab, page: NotebookPage) -> None:
    source = next(path for path in NOTEBOOKS if path.stem == "02_trust_and_explain")
    cells = [cell.source for cell in nbformat.read(source, as_version=4).cells if cell.cell_type == "code"]
    small = [cell.replace("image_size = 96 ", "image_size = 32 ").replace("batch_size = 16 ", "batch_size = 4 ") for cell in cells]
    assert small != cells
    lab.write("explain.ipynb", small)
    page.open("explain.ipynb").run_all()
    shown = [output["data"] for cell in range(len(cells)) for output in page.outputs(cell) if "data" in output]
    titles = [data[PLOTLY]["layout"]["title"]["text"] for data in shown if PLOTLY in data]
    assert [title.partition("</b>")[0].removeprefix("<b>") for title in titles] == [
        "Measured wrongly", "From ideal to measured", "Timeline and critical path", "Bound, prediction and measurement",
        "If a stage were faster", "Roofline", "Timeline",
    ]  # fmt: skip
    page.wait_for("document.querySelectorAll('.js-plotly-plot').length >= 2", "figures that are drawn")
    page.save()


def act(lab: JupyterLab, page: NotebookPage, name: str) -> None:
    """Lets a thread of the notebook do what it waits to do, and waits until it has done it."""
    (lab.root / name).touch()
    page.until((lab.root / f"{name}-done").exists, f"the end of {name!r} in the kernel")
