"""What the strip remembers: two minutes of one device, for whoever comes late or comes back."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.panel.frame import StripMark
from labkit.panel.strip import AGAIN_AFTER_S, KEPT_POINTS
from tests.panel.strip_reader import Page, frame


@pytest.fixture
def page() -> Page:
    return Page()


def test_hello_is_answered_with_everything_at_once(page: Page):
    page.reaches = False
    page.flow.push(frame(1.0))
    page.flow.push(frame(2.0))
    page.reaches = True
    page.flow.hear({"hello": True})
    assert page.header["reset"]
    assert page.times_s == [1.0, 2.0]
    assert page.slices is not None
    page.flow.push(frame(3.0))
    assert len(page.messages) == 2  # the snapshot has not been painted yet
    page.ack()
    assert page.times_s == [1.0, 2.0, 3.0]
    assert not page.header["reset"]


def test_hello_before_the_first_frame_is_answered_with_an_empty_strip(page: Page):
    page.flow.hear({"hello": True})
    assert (page.header["reset"], page.header["label"], page.header["running"], page.sizes) == (
        True,
        "",
        False,
        [0],
    )


def test_a_page_that_was_away_longer_than_the_memory_gets_everything_anew(page: Page):
    page.flow.push(frame(0.0))
    for number in range(1, KEPT_POINTS + 2):
        page.flow.push(frame(number / 100))
    page.ack()
    assert page.header["reset"]
    assert page.times_s == pytest.approx([number / 100 for number in range(2, KEPT_POINTS + 2)])


def test_two_minutes_are_kept(page: Page):
    for second in range(200):
        page.flow.push(frame(float(second), marks=(StripMark(10.0, "old"), StripMark(90.0, "new"))))
    page.flow.hear({"hello": True})
    assert page.times_s == [float(second) for second in range(79, 200)]
    assert [mark["words"] for mark in page.header["marks"]] == ["new"]


def test_lanes_that_come_are_unknown_before_and_lanes_that_stay_are_kept(page: Page):
    page.flow.push(frame(1.0))
    page.flow.push(
        replace(frame(2.0), lanes=("d2h", "host"), points=np.array([[2, 200, 20, 0.1, 0.3]], np.float32))
    )
    page.flow.hear({"hello": True})
    assert page.header["lanes"] == ["d2h", "host"]
    nan = float("nan")
    np.testing.assert_array_equal(
        page.points, np.array([[1, 100, 20, nan, 0.25], [2, 200, 20, 0.1, 0.3]], np.float32)
    )


@pytest.mark.parametrize(
    "other", [{"label": "simulated H200: a prediction", "simulated": True}, {"label": "measured on GPU"}]
)
def test_another_device_begins_a_new_history(page: Page, other: dict[str, Any]):
    page.flow.push(frame(1.0))
    page.ack()
    page.flow.push(frame(2.0, **other))
    assert page.header["reset"]
    assert page.times_s == [2.0]


def test_time_that_goes_back_begins_a_new_history(page: Page):
    page.flow.push(frame(50.0))
    page.ack()
    page.flow.push(frame(3.0))
    assert page.header["reset"]
    assert page.times_s == [3.0]


def test_a_simulation_is_never_sent_without_the_word(page: Page):
    page.flow.push(frame(1.0, label="simulated H200", simulated=True))
    assert page.header["label"] == "simulated H200: a prediction"


def test_clear_forgets_here_and_in_the_page(page: Page):
    page.flow.push(frame(1.0))
    page.flow.clear()
    assert len(page.messages) == 1
    page.ack()
    assert page.header["reset"]
    assert (page.times_s, page.header["label"], page.header["tiles"]) == ([], "", [])
    page.flow.hear({"hello": True})
    assert page.times_s == []


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["push", "push", "push", "ack", "late ack", "second", "hello", "lost"]), max_size=120
    )
)
def test_however_a_page_behaves_it_ends_with_every_point_in_order(deeds: list[str]):
    page, pushed, last_ack = Page(), 0, 0
    for deed in deeds:
        if deed == "push":
            pushed += 1
            page.flow.push(frame(pushed / 8))
        elif deed == "ack":
            last_ack = len(page.messages)
            page.ack(last_ack)
        elif deed == "late ack":
            page.ack(last_ack)
        elif deed == "second":
            page.now_s += AGAIN_AFTER_S
        else:
            page.reaches = deed == "hello"
            if page.reaches:
                page.flow.hear({"hello": True})
    page.reaches = True
    page.flow.hear({"hello": True})
    page.ack()
    assert page.times_s == [number / 8 for number in range(1, pushed + 1)]
    assert [header["n"] for header, _ in page.messages] == list(range(1, len(page.messages) + 1))
