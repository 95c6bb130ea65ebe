"""The panel in a real kernel, driven by the messages of a page: with the environment's ipykernel and with the one before it."""

import json
from itertools import pairwise
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from labkit.device.open import cuda_count
from labkit.panel.page import EMPTY, REQUEST_SLOTS, SLOTS, VIEW_SLOTS
from labkit.panel.strip import AGAIN_AFTER_S, AHEAD, KEPT_POINTS
from tests.browser.equipment import one_ipykernel
from tests.panel.kernel import PLOTLY, WIDGET, Kernel, ended
from tests.panel.shown import Shown

SMALL = "image_size=32, batch_size=4, out=None"
PANEL = f"panel = labkit.Panel('pipeline', device='simulated:t4', {SMALL})\npanel"
FIGURES = [slot for slot in SLOTS[2:] if slot not in (*VIEW_SLOTS, *REQUEST_SLOTS)]


@pytest.fixture(scope="module")
def shown(kernel: Kernel) -> Shown:
    """A panel that stays warm, for tests that leave it at rest."""
    return Shown(kernel, kernel.execute(PANEL, cell="first"))


@pytest.fixture
def panel(kernel: Kernel, shown: Shown) -> Shown:
    """The panel at rest, as it began; what was heard before is forgotten."""
    kernel.paints = True
    if shown.status["can"]["stop"]:
        shown.did("stop")
        shown.until("idle")
    shown.did("reset")
    shown.did("run_for", seconds=None)
    for model in kernel.models.values():
        model.updates.clear()
        model.customs.clear()
    kernel.stray = ""
    return shown


def title(bundle: dict[str, Any]) -> str:
    return bundle[PLOTLY]["layout"]["title"]["text"]


def drawn(panel: Shown) -> bool:
    return all(PLOTLY in panel.slots[SLOTS.index(name)] for name in FIGURES)


# ---- what is shown ----------------------------------------------------------------------------------------


def test_a_cell_shows_one_view_with_controls_and_strip_and_a_place_for_each_figure(kernel: Kernel):
    cell = kernel.execute(PANEL.replace("panel", "another"), cell="shows")
    assert [sorted(output) for output in cell.outputs] == [["application/vnd.jupyter.widget-view+json", "text/plain"]] + [
        ["text/html", "text/plain"]
    ] * len(SLOTS)
    another = Shown(kernel, cell)
    assert (another.controls.name, another.strip.name) == ("Controls", "LiveStrip")
    assert another.slots == [EMPTY] * len(SLOTS)
    assert {knob["name"] for knob in another.controls.state["spec"]["knobs"]} >= {"prefetch", "image_size"}
    assert another.values["knobs"]["image_size"] == 32
    assert another.status["phase"] == "idle"
    assert another.status["can"]["run"]
    assert cell.printed == ""
    kernel.execute("another.close()")
    kernel.until(lambda: another.controls.closed)


def test_run_leads_from_idle_over_starting_to_running_and_stop_back(panel: Shown):
    panel.did("run")
    panel.until("running")
    panel.moved()
    assert (panel.status["can"]["run"], panel.status["can"]["stop"]) == (False, True)
    panel.did("stop")
    panel.until("idle")
    assert panel.phases == ["starting", "running", "stopping", "idle"]
    assert panel.status["can"]["run"]


def test_the_strip_is_a_few_messages_ahead_of_what_was_painted_and_then_sends_one_a_second(kernel: Kernel, panel: Shown):
    kernel.paints = False
    panel.did("run")
    panel.moved(AHEAD + 2)
    sent_s = [custom.sent_s for custom in panel.strip.customs[AHEAD - 1 : AHEAD + 2]]
    assert min(later - earlier for earlier, later in pairwise(sent_s)) > AGAIN_AFTER_S - 0.05, "nobody has painted any"
    unpainted = len(panel.strip.customs)
    kernel.paints = True
    kernel.say(panel.strip, {"ack": panel.strip.customs[-1].content["n"]})
    panel.moved(6)
    gaps = [later.sent_s - earlier.sent_s for earlier, later in pairwise(panel.strip.customs[unpainted:])]
    assert min(gaps) < AGAIN_AFTER_S / 2
    numbers = [custom.content["n"] for custom in panel.strip.customs]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_page_that_opens_again_is_sent_the_state_of_every_widget_and_the_whole_strip(kernel: Kernel, panel: Shown):
    panel.ran(0.5)
    states = kernel.all_states()
    assert {comm_id for comm_id, model in kernel.models.items() if not model.closed} == set(states)
    assert states[panel.controls.comm_id]["state"]["status"]["phase"] == "idle"
    panel.strip.customs.clear()
    kernel.say(panel.strip, {"hello": True})
    panel.moved(1)
    assert panel.strip.customs[0].content["reset"]
    assert len(panel.strip.customs[0].buffers[0]) > 0


# ---- figures ----------------------------------------------------------------------------------------------


def test_after_a_run_the_places_are_filled_though_the_cell_has_ended(kernel: Kernel, panel: Shown):
    outputs = len(panel.cell.outputs)
    panel.ran(0.5)
    kernel.until(lambda: drawn(panel), "figures")
    assert len(panel.cell.outputs) == outputs
    assert [title(panel.slots[SLOTS.index(name)]) != "" for name in FIGURES] == [True] * len(FIGURES)
    assert "simulated T4" in panel.slots[0]["text/html"]
    assert panel.slots[1] == EMPTY, "nothing was guessed"
    assert kernel.unread == [], "every message has found its place"


def test_what_is_shown_besides_appears_when_it_is_asked_for(kernel: Kernel, panel: Shown):
    panel.ran(0.5)
    panel.did("view", name="mistakes", on=True)
    place = SLOTS.index("mistakes told")
    kernel.until(lambda: "INVALID" in panel.slots[place].get("text/html", ""), "the mistakes")
    panel.did("view", name="mistakes", on=False)
    kernel.until(lambda: panel.slots[place] == EMPTY, "an empty place")


def test_a_saved_notebook_has_its_figures_and_stays_below_a_megabyte(kernel: Kernel, panel: Shown):
    panel.ran(0.5)
    panel.did("pin")
    panel.did("turn", knob="prefetch", value=0)
    panel.ran(0.5)
    kernel.until(lambda: drawn(panel) and "Timelines" in title(panel.slots[SLOTS.index("timeline")]), "both timelines")
    outputs = [new_output("display_data", output) for output in panel.cell.outputs]
    notebook = new_notebook(cells=[new_code_cell(PANEL, outputs=outputs)])
    nbformat.validate(notebook)
    assert len(json.dumps(notebook)) < 1_000_000


# ---- what is not allowed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "fields", "words", "what_to_do"),
    [
        ("turn", {"knob": "prefetch", "value": 65}, "0 to 64", "choose a value"),
        ("turn", {"knob": "speed", "value": 1}, "there is no knob 'speed'", "choose a value"),
        ("device", {"name": "cuda"}, "there is no cuda here", "choose another device"),
        ("device", {"name": "simulated:abacus"}, "abacus", "choose another machine"),
        ("machine", {"figure": "warp", "value": 9.0}, "warp", "choose another machine"),
        ("preset", {"name": "fast"}, "naive, overlapped", ""),
        ("compare", {}, "nothing is pinned as A: pin a run first", ""),
        ("pin_stored", {"id": "nobody"}, "there is no runs folder", "runs folder"),
    ],
)
def test_what_is_not_allowed_is_told_with_what_to_do_and_changes_nothing(
    kernel: Kernel, panel: Shown, command: str, fields: dict[str, Any], words: str, what_to_do: str
):
    if fields.get("name") == "cuda" and cuda_count()[0]:
        pytest.skip("there is a GPU")
    before = {**panel.values, "seq": 0}
    panel.did(command, **fields)
    message = panel.status["message"]
    assert message["level"] == "error"
    assert words in message["words"]
    assert what_to_do in message["what_to_do"]
    assert {**panel.values, "seq": 0} == before
    assert panel.status["can"]["run"]
    assert kernel.stray == ""


def test_an_error_nobody_foresaw_is_told_and_kept_with_its_traceback(kernel: Kernel, panel: Shown):
    kernel.execute("panel.session.run = lambda: 1 / 0")
    panel.did("run")
    assert panel.status["message"]["words"] == "ZeroDivisionError: division by zero"
    assert "panel.errors" in panel.status["message"]["what_to_do"]
    assert "Traceback" in kernel.value("panel.errors[-1]")
    kernel.execute("del panel.session.run")
    panel.ran(0.2)
    assert panel.status["message"] is None
    assert kernel.stray == ""


def test_an_error_while_a_frame_is_drawn_is_told_and_the_run_goes_on(kernel: Kernel, panel: Shown):
    kernel.execute("panel._show.on_frame = lambda frame: 1 / 0")
    panel.did("run")
    panel.until("running")
    kernel.until(lambda: panel.status["message"], "the message")
    assert panel.status["message"]["words"] == "ZeroDivisionError: division by zero"
    kernel.execute("del panel._show.on_frame")
    panel.did("stop")
    panel.until("idle")
    panel.ran(0.2)
    assert panel.status["message"] is None


@pytest.mark.parametrize(
    "content",
    [
        "run", 7, [], {}, {"do": "run"}, {"do": "explode", "seq": 1}, {"do": "run", "seq": "1"}, {"do": "run", "seq": 1, "also": 1},
        {"do": "turn", "seq": 1, "knob": "prefetch", "value": [1]}, {"do": ["run"], "seq": 1}, {"do": "turn", "seq": 1},
    ],
)  # fmt: skip
def test_a_message_that_is_no_command_is_ignored(kernel: Kernel, panel: Shown, content: Any):
    before = panel.values
    kernel.say(panel.controls, content)
    kernel.until(lambda: panel.controls.customs, "word that it was ignored")
    assert "reason" in panel.controls.customs[0].content
    assert panel.values == before
    panel.did("unpin")


@pytest.mark.parametrize("content", ["ack", {"ack": "1"}, {"ack": 10**9}, {"ack": -1}, {"ack": None}, {}])
def test_a_strip_that_says_nonsense_goes_on(kernel: Kernel, panel: Shown, content: Any):
    kernel.say(panel.strip, content)
    panel.did("run")
    panel.moved(2)
    panel.did("stop")
    panel.until("idle")
    assert kernel.stray == ""


def test_a_state_that_is_told_late_does_not_hide_the_newest(kernel: Kernel, panel: Shown):
    kernel.execute("late = panel.session.state")
    panel.did("turn", knob="prefetch", value=9)
    kernel.execute("panel._show.on_state(late)")
    assert panel.values["knobs"]["prefetch"] == 9


# ---- several panels ---------------------------------------------------------------------------------------


def test_a_second_panel_has_controls_of_its_own_and_waits_its_turn(kernel: Kernel, panel: Shown):
    source = f"second = labkit.Panel('pipeline', device='simulated:h200', prefetch=3, {SMALL})\nsecond"
    second = Shown(kernel, kernel.execute(source, cell="second"))
    assert second.controls.comm_id != panel.controls.comm_id
    assert (panel.values["device"], second.values["device"]) == ("simulated:t4", "simulated:h200")
    second.did("turn", knob="prefetch", value=7)
    panel.did("turn", knob="prefetch", value=1)
    assert (panel.values["knobs"]["prefetch"], second.values["knobs"]["prefetch"]) == (1, 7)
    panel.did("run")
    panel.until("running")
    second.did("run")
    second.until("waiting")
    assert second.status["words"] == "waits its turn: another panel is running"
    assert second.status["can"]["stop"]
    frames = len(second.strip.customs)
    panel.moved(2)
    assert len(second.strip.customs) == frames
    panel.did("stop")
    second.until("running")
    second.moved(1)
    panel.until("idle")
    second.did("stop")
    second.until("idle")
    assert "simulated T4" in panel.strip.customs[-1].content["label"]
    assert "simulated H200" in second.strip.customs[-1].content["label"]
    kernel.execute("second.close()")
    kernel.until(lambda: second.controls.closed)


def test_panels_shown_by_one_cell_live_side_by_side(kernel: Kernel):
    source = f"pair = [labkit.Panel('pipeline', device=device, {SMALL}) for device in ('cpu', 'simulated:t4')]\ndisplay(*pair)"
    cell = kernel.execute(source, cell="pair")
    boxes = [kernel.models[view["model_id"]] for view in cell.shown(WIDGET)]
    assert [box.closed for box in boxes] == [False, False]
    kernel.execute(f"pair[0]\n{PANEL.replace('panel', 'pair')}", cell="pair")
    assert [box.closed for box in boxes] == [True, True]
    kernel.execute("pair.close()")


def test_a_cell_that_is_executed_again_closes_what_it_showed_and_nothing_accumulates(kernel: Kernel, panel: Shown):
    source = f"labkit.Panel('pipeline', device='simulated:t4', {SMALL})"
    others = set(kernel.children())
    counted, before, workers = [], None, set()
    for phase in ("idle", "starting", "running", "idle", "starting", "idle"):
        shown = Shown(kernel, kernel.execute(source, cell="again"))
        if before is not None:
            kernel.until(lambda before=before: before.box.closed and before.controls.closed and before.strip.closed)
            assert ended(workers)
        workers = set(kernel.children()) - others
        assert len(workers) == 1
        threads = kernel.value("__import__('threading').active_count()")
        counted.append((threads, sum(not model.closed for model in kernel.models.values())))
        if phase != "idle":
            shown.did("run")
            shown.until(phase)
        before = shown
    assert len(set(counted)) == 1, f"(threads, widgets) after each time: {counted}"
    shown.ran(0.2)
    kernel.execute("_.close()")
    assert ended(workers)


def test_a_panel_that_was_closed_can_be_shown_again(kernel: Kernel):
    cell = kernel.execute(PANEL.replace("panel", "phoenix"), cell="phoenix")
    before = Shown(kernel, cell)
    before.did("turn", knob="prefetch", value=5)
    kernel.execute("phoenix.close(); phoenix.close()")
    kernel.until(lambda: before.box.closed and before.controls.closed and before.strip.closed)
    after = Shown(kernel, kernel.execute("phoenix", cell="elsewhere"))
    assert after.controls is not before.controls
    assert after.values["knobs"]["prefetch"] == 5
    after.ran(0.2)
    kernel.execute("phoenix.close()")


# ---- in code ----------------------------------------------------------------------------------------------


@one_ipykernel
def test_a_later_cell_gets_the_last_run_of_the_panel(kernel: Kernel, panel: Shown):
    panel.ran(0.3)
    first = kernel.value("panel.result().record.id")
    assert kernel.value("panel.result().record.id") == first
    panel.ran(0.3)
    assert kernel.value("panel.result().record.id") != first
    assert kernel.value("panel.result().record.status") == "ok"


@one_ipykernel
def test_a_result_is_measured_where_there_is_none_and_refused_while_something_runs(kernel: Kernel, panel: Shown):
    kernel.execute(f"fresh = labkit.Panel('pipeline', device='simulated:t4', steps=20, {SMALL})")
    panel.did("run")
    panel.until("running")
    refused = kernel.execute("fresh.result()", fails=True)
    assert refused.error == "RunFailed: another panel is running: press Stop, or wait until it has ended, and ask again"
    panel.did("stop")
    panel.until("idle")
    assert kernel.value("fresh.result().record.budget['steps']") == 20
    assert kernel.value("fresh.result() is fresh.result()")
    kernel.execute("fresh.close()")
    assert kernel.value("fresh.result().record.status") == "ok", "kept when it is closed"
    kernel.execute("fresh.close()")


@one_ipykernel
def test_a_result_that_was_interrupted_is_not_kept(kernel: Kernel):
    kernel.execute(f"fresh = labkit.Panel('pipeline', device='cpu', seconds=60, {SMALL})")
    cell = kernel.begin("print('begun', flush=True)\nrun = fresh.result()")
    kernel.until(lambda: cell.printed)
    kernel.interrupt()
    kernel.until(lambda: cell.done, "the end of what was interrupted")
    kernel.execute("fresh._seconds = 0.2")
    assert kernel.value("fresh.result().record.status") == "ok"
    kernel.execute("fresh.close()")


@one_ipykernel
def test_a_result_that_a_thread_measures_and_run_take_turns(kernel: Kernel):
    source = f"fresh = labkit.Panel('pipeline', device='simulated:t4', steps=20, {SMALL})\nfresh"
    fresh = Shown(kernel, kernel.execute(source, cell="fresh"))
    kernel.execute(
        "import threading, time\nresults = []\nmeasure = threading.Thread(target=lambda: results.append(fresh.result()))\n"
        "measure.start()\nwhile fresh.session.workers._running is None: time.sleep(0.01)"
    )
    fresh.ran(0.2)
    kernel.execute("measure.join()")
    assert kernel.value("[run.record.status for run in results]") == ["ok"]
    assert kernel.value("fresh.session.last_run.record.status") == "ok"
    kernel.execute("fresh.close()")


def test_what_is_pressed_while_a_cell_is_executed_is_heard_when_it_has_ended(kernel: Kernel, panel: Shown):
    cell = kernel.begin("import time\ntime.sleep(0.5)")
    for prefetch in (9, 8, 7):
        panel.do("turn", knob="prefetch", value=prefetch)
    panel.did("run")
    assert cell.idle
    panel.until("running")
    assert panel.values["knobs"]["prefetch"] == 7
    panel.did("stop")
    panel.until("idle")
    kernel.until(lambda: cell.done)


def test_thirty_runs_leave_no_thread_and_no_memory_behind(kernel: Kernel, panel: Shown):
    panel.did("run_for", seconds=0.3)
    counted = {}
    for number in range(1, 31):
        panel.did("run")
        panel.until("idle")
        if number in (5, 30):
            kernel.until(lambda: drawn(panel), "figures")
            counted[number] = kernel.value("__import__('threading').active_count()"), kernel.process.memory_info().rss
    assert counted[5][0] == counted[30][0]
    assert counted[30][1] - counted[5][1] < 30_000_000
    assert kernel.value("len(panel._show._strip._flow._points._rows)") <= KEPT_POINTS
    assert panel.status["message"] is None

