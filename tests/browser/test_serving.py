"""The panel of a server in a real browser: a policy turned while requests come, and every request accounted for at the end."""

from __future__ import annotations

import json
from pathlib import Path

from tests.browser.equipment import one_ipykernel
from tests.browser.lab import DARK, JupyterLab
from tests.browser.page import NotebookPage
from tests.browser.panel_page import PanelPage

SERVER = "import labkit\npanel = labkit.Panel('batching', device='cpu', model='fixed', rate=150.0)\npanel"
OF_REQUESTS = ("Side by side", "Throughput over time", "Latency from the intended arrival", "Timeline", "Distribution of latency")


@one_ipykernel
def test_a_policy_is_turned_on_a_running_server(lab: JupyterLab, page: NotebookPage, tmp_path: Path) -> None:
    lab.write("server.ipynb", [SERVER, "run = panel.result()\nprint(run.summary.requests.sent, sum(run.summary.requests.answers.values()))"])
    panel = PanelPage(page.open("server.ipynb"), 0).show()
    panel.runs()
    page.until(lambda: "requests/s" in page.text(0) and "latency p50" in page.text(0), "the tiles of a server")
    panel.choose("policy", "none")
    page.until(lambda: panel.marks == 1, "the mark of the toggle")
    panel.fill("rate", 300)
    page.until(lambda: "rate 150.0 → 300.0" in page.text(0) and "median" in page.text(0), "what the toggles did")
    panel.moves(20)
    panel.stops()

    def drawn() -> bool:
        titles = json.dumps([figure["layout"]["title"] for figure in panel.figures()])
        return all(title in titles for title in OF_REQUESTS)

    page.until(drawn, f"the figures {', '.join(OF_REQUESTS)}")
    page.screenshot(tmp_path / "server-light.png")
    page.use_theme(DARK)
    page.screenshot(tmp_path / "server-dark.png")
    page.run(1)
    sent, answered = page.text(1).split()
    assert int(sent) > 100 and sent == answered
