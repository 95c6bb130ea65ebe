"""The flow between the kernel and the page: nothing queues and nothing is lost."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.figures.colours import LANE_COLOURS
from labkit.panel import strip
from labkit.panel.frame import StripMark
from labkit.panel.strip import AGAIN_AFTER_S, AHEAD, UNHEARD_MOST, Flow, LiveStrip
from tests.panel.strip_reader import Page, frame

HANG_S = 30.0


@pytest.fixture
def page() -> Page:
    return Page()


def test_the_first_frame_is_sent_at_once_and_whole(page: Page):
    page.flow.push(
        frame(1.0, tiles=(("throughput", "100 items/s"),), marks=(StripMark(0.5, "prefetch 0 → 4", "…"),))
    )
    assert page.header == {
        "n": 1,
        "reset": True,
        "now_s": 1.0,
        "lanes": ["host", "compute"],
        "rows": ["host", "compute"],
        "names": ["train"],
        "marks": [{"t_s": 0.5, "words": "prefetch 0 → 4", "change": "…"}],
        "label": "measured on CPU threads",
        "simulated": False,
        "tiles": [["throughput", "100 items/s"]],
        "series": ["throughput, items/s", "step interval, ms"],
        "running": True,
    }
    assert page.points.tolist() == [[1.0, 100.0, 20.0, 0.25, 0.5]]
    assert page.slices is not None
    assert page.slices.tolist() == [[0.0, -0.5, -0.25, 0.0]]


def test_numbers_travel_as_float32_and_never_as_json(page: Page):
    page.flow.push(frame(1.0, 2.0))
    assert page.sizes == [2 * 5 * 4 + 4 * 4]
    assert "points" not in page.header
    assert "slices" not in page.header


def test_while_the_page_paints_frames_become_one_message(page: Page):
    page.flow.push(frame(1.0))
    page.flow.push(frame(2.0))
    page.flow.push(frame(3.0, 4.0, label="measured on CPU threads", running=False))
    assert len(page.messages) == 1
    page.ack()
    assert len(page.messages) == 2
    assert (page.header["n"], page.header["reset"], page.header["now_s"], page.header["running"]) == (
        2,
        False,
        4.0,
        False,
    )
    assert page.times_s == [1.0, 2.0, 3.0, 4.0]


def test_a_second_of_messages_may_be_on_their_way_before_the_page_answers():
    sent: list[int] = []
    flow = Flow(lambda header, buffers: sent.append(header["n"]), lambda: 0.0)
    for number in range(40):
        flow.push(frame(number / 10))
    assert sent == list(range(1, AHEAD + 1))
    flow.hear({"ack": AHEAD - 2})
    for number in range(40, 80):
        flow.push(frame(number / 10))
    assert sent[-1] == 2 * AHEAD - 2, "never more than so many unanswered"


def test_an_acknowledgement_with_nothing_new_sends_nothing(page: Page):
    page.flow.push(frame(1.0))
    page.ack()
    page.ack()
    assert len(page.messages) == 1


def test_an_acknowledgement_of_an_older_message_does_not_count_for_the_newest(page: Page):
    page.flow.push(frame(1.0))
    page.now_s = 1.0
    page.flow.push(frame(2.0))
    assert len(page.messages) == 2
    page.ack(1)
    page.flow.push(frame(3.0))
    assert len(page.messages) == 2
    page.ack(2)
    assert page.times_s == [1.0, 2.0, 3.0]
    page.ack(3)
    page.ack(1)
    page.flow.push(frame(4.0))
    assert page.times_s == [1.0, 2.0, 3.0, 4.0]


def test_a_silent_page_gets_a_message_a_second_and_after_thirty_none(page: Page):
    sent_at_s = []
    for number in range(1000):
        page.now_s = number / 10
        before = len(page.messages)
        page.flow.push(frame(page.now_s))
        sent_at_s += [page.now_s] * (len(page.messages) - before)
    assert sent_at_s == [float(second) for second in range(UNHEARD_MOST)]


def test_only_an_awaited_message_carries_slices(page: Page):
    many = np.zeros((50_000, 4), np.float32)
    for number in range(400):
        page.now_s = number / 10
        page.flow.push(frame(page.now_s, slices=many))
    point = 5 * 4
    assert page.sizes == [point + many.nbytes] + [10 * point] * (UNHEARD_MOST - 1)
    page.ack()
    assert page.sizes[-1] == (400 - 1 - 10 * (UNHEARD_MOST - 1)) * point + many.nbytes


def test_the_last_slices_follow_an_acknowledgement_though_no_frame_comes_any_more(page: Page):
    page.flow.push(frame(1.0))
    page.now_s = AGAIN_AFTER_S
    last = np.array([[1, -0.75, 0, 0]], np.float32)
    page.flow.push(frame(2.0, slices=last, running=False))
    assert len(page.messages) == 2
    page.ack()
    assert page.slices is not None
    assert page.slices.tolist() == last.tolist()
    page.ack()
    assert len(page.messages) == 3


def test_an_acknowledgement_wakes_a_page_that_was_hidden(page: Page):
    for number in range(500):
        page.now_s = number / 10
        page.flow.push(frame(page.now_s))
    assert len(page.messages) == UNHEARD_MOST
    page.ack()
    assert page.times_s == pytest.approx([number / 10 for number in range(500)])
    assert page.header["n"] == UNHEARD_MOST + 1


@pytest.mark.parametrize(
    "content", [None, "ack", {}, {"ack": "1"}, {"ack": None}, {"ack": -5}, {"hello": False}, {"ack": 1.0}]
)
def test_what_is_no_answer_is_none(page: Page, content: object):
    page.flow.push(frame(1.0))
    page.flow.push(frame(2.0))
    page.flow.hear(content)
    assert len(page.messages) == 1


def test_an_acknowledgement_of_what_was_never_sent_counts_for_what_was(page: Page):
    page.flow.push(frame(1.0))
    page.ack(1_000_000)
    page.flow.push(frame(2.0))
    page.flow.push(frame(3.0))
    assert len(page.messages) == 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"lanes": ("host",)}, r"points of a strip frame are of shape \(1, 5\); allowed: \(any number, 4\)"),
        (
            {"slices": np.zeros((1, 3))},
            r"slices of a strip frame are of shape \(1, 3\); allowed: \(any number, 4\)",
        ),
        ({"points": np.zeros(5)}, r"points of a strip frame are of shape \(5,\); allowed: \(any number, 5\)"),
    ],
)
def test_a_frame_of_a_wrong_shape_is_refused(page: Page, wrong: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        page.flow.push(replace(frame(1.0), **wrong))
    assert page.messages == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["push", "push", "ack", "late ack", "second"]), max_size=120))
def test_a_page_that_hears_all_needs_no_second_snapshot(deeds: list[str]):
    page, pushed, last_ack = Page(), 0, 0
    for deed in deeds:
        if deed == "push":
            pushed += 1
            page.flow.push(frame(pushed / 8))
        elif deed == "second":
            page.now_s += AGAIN_AFTER_S
        else:
            last_ack = len(page.messages) if deed == "ack" else last_ack
            page.ack(last_ack)
    page.ack()
    assert page.times_s == [number / 8 for number in range(1, pushed + 1)]
    assert (
        [header["reset"] for header, _ in page.messages] == [True] + [False] * (len(page.messages) - 1)
        if pushed
        else [True]
    )


def test_frames_from_one_thread_and_answers_from_another_lose_nothing(page: Page):
    done = threading.Event()

    def answer() -> None:
        while not done.is_set():
            page.ack()

    answering = threading.Thread(target=answer, daemon=True)
    answering.start()
    for number in range(1, 1001):
        page.flow.push(frame(number / 16))
    done.set()
    answering.join(HANG_S)
    assert not answering.is_alive()
    page.ack()
    assert page.times_s == [number / 16 for number in range(1, 1001)]
    assert [header["n"] for header, _ in page.messages] == list(range(1, len(page.messages) + 1))


def test_a_message_waits_for_the_one_before_to_be_sent():
    sent, begun, go_on = [], threading.Event(), threading.Event()

    def send(header: dict[str, Any], _buffers: list[bytes]) -> None:
        if header["n"] == 1:
            begun.set()
            go_on.wait(HANG_S)
        sent.append(header["n"])

    flow = Flow(send, ahead=1)
    pushing = threading.Thread(target=lambda: flow.push(frame(1.0)), daemon=True)
    pushing.start()
    assert begun.wait(HANG_S)
    asking = threading.Thread(target=lambda: flow.hear({"hello": True}), daemon=True)
    asking.start()
    asking.join(0.1)  # time enough to overtake, if it could
    go_on.set()
    for thread in (pushing, asking):
        thread.join(HANG_S)
    assert sent == [1, 2]


def test_the_widget_sends_frames_and_hears_the_page(monkeypatch: pytest.MonkeyPatch):
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(LiveStrip, "send", lambda _, content, buffers=None: sent.append(content))
    widget = LiveStrip()
    for number in range(AHEAD + 1):
        widget.push(frame(1.0 + number / 100))
    assert [header["n"] for header in sent] == list(range(1, AHEAD + 1))
    widget._handle_custom_msg({"ack": 1}, [])
    assert [header["n"] for header in sent] == list(range(1, AHEAD + 2))
    widget._handle_custom_msg({"hello": True}, [])
    assert [header["reset"] for header in sent] == [True, *[False] * AHEAD, True]
    widget.clear()
    assert sent[-1]["label"] == ""
    widget.close()
    widget.push(frame(3.0))


def test_the_strip_has_the_colours_of_the_figures():
    widget = LiveStrip()
    assert widget.get_state("colours") == {"colours": LANE_COLOURS}
    widget.close()


def test_the_script_is_small_and_says_nothing_to_the_console():
    folder = Path(strip.__file__).parent
    script = (folder / "strip.js").read_text(encoding="utf-8")
    assert (folder / "strip.js").stat().st_size < 20_000
    assert "console." not in script
    assert "window." not in script
