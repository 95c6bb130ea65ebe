"""The strip in a browser: what it says to the kernel, and to those who see little or want less motion."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labkit.panel.frame import StripMark
from tests.panel.strip_kernel import Connected, data
from tests.panel.strip_page import frames, messages, run_of, show, show_held

pytestmark = pytest.mark.browser


# ---- what it says to the kernel ------------------------------------------------------------------------------


def test_a_view_says_hello_and_acknowledges_what_it_has_painted(page: Any):
    show(page, [])
    kernel = Connected(page)
    kernel.hear()
    assert kernel.heard[0] == {"hello": True}
    for frame in frames(0.5):
        kernel.flow.push(frame)
        kernel.until(frame.now_s)
    kernel.until_answered()
    said = [message["ack"] for message in kernel.heard[1:]]
    assert said == sorted(set(said)) and said[-1] == kernel.sent
    assert len(said) < kernel.sent, "several pictures have one answer"
    assert data(page, "marks") == "0"
    assert int(data(page, "painted")) >= 6


def test_a_missing_message_is_asked_for(page: Any):
    show(page, [])
    kernel = Connected(page)
    kernel.hear()
    first, second, third = frames(0.3)
    kernel.flow.push(first)
    kernel.until(first.now_s)
    kernel.flow._send = lambda header, buffers: None
    kernel.flow.push(second)
    kernel.flow.hear({"ack": 10**6})
    kernel.flow._send = kernel._send
    kernel.flow.push(third)
    kernel.until(third.now_s)
    assert {"hello": True} in kernel.heard[1:]


def test_two_views_share_one_history_and_answer_once(page: Any):
    show(page, [])
    kernel = Connected(page)
    kernel.hear()
    run = list(frames(1.0))
    for frame in run[:5]:
        kernel.flow.push(frame)
        kernel.until(frame.now_s)
    page.evaluate("void (window.close_second = window.open_view('#second'))")
    kernel.until(run[4].now_s, "#second")
    kernel.heard.clear()
    kernel.flow.push(run[5])
    kernel.until(run[5].now_s)
    kernel.until(run[5].now_s, "#second")
    said = [message["ack"] for message in kernel.heard]
    assert said == sorted(set(said))
    page.evaluate("window.close_second()")
    kernel.flow.push(run[6])
    kernel.until(run[6].now_s)
    assert data(page, "now", "#second") == str(run[5].now_s)


def test_what_is_not_seen_is_not_acknowledged_until_it_is(page: Any):
    show(page, [])
    kernel = Connected(page)
    kernel.hear()
    page.evaluate("document.querySelector('#strip').style.display = 'none'")
    kernel.heard.clear()
    kernel.flow.push(next(frames(0.1)))
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    kernel.hear()
    assert kernel.heard == []
    page.evaluate("document.querySelector('#strip').style.display = ''")
    kernel.until_answered()
    assert "ack" in kernel.heard[-1]


def test_a_model_that_ends_leaves_nothing_behind(page: Any):
    show(page, run_of("begun"))
    assert page.evaluate("window.listeners()") == 1
    page.evaluate("window.close_view(); window.end()")
    assert page.evaluate("window.listeners()") == 0


def test_a_kernel_that_is_gone_leaves_the_picture(page: Any):
    show(page, run_of("begun"))
    page.evaluate("void (window.sent.push = () => { throw new Error('gone') })")
    message = {"header": {**messages(run_of("begun"))[-1]["header"], "n": 100, "now_s": 3.5}, "buffers": [""]}
    page.evaluate("window.tell", message)
    page.wait_for_function("document.querySelector('.labkit-strip').dataset.now === '3.5'")


# ---- for everybody -------------------------------------------------------------------------------------------


def test_what_is_drawn_is_also_written(page: Any):
    show(page, run_of("running"))
    assert page.get_by_role("img").get_attribute("aria-label")
    assert page.locator(".tiles b").all_text_contents() == ["745 items/s", "86 ms", "compute 94 %"]
    assert page.locator("[aria-live=polite]").text_content() == (
        "measured on CPU threads, running, batch_size 16 → 64, …; throughput 745 items/s; step interval 86 ms; busiest lane compute 94 %"
    )


def test_it_speaks_at_most_every_two_seconds_and_says_the_last_thing(page: Any):
    show_held(page, [])
    page.evaluate(
        """() => {
          window.spoken = [];
          const aloud = document.querySelector("[aria-live]");
          new MutationObserver(() => window.spoken.push([performance.now(), aloud.textContent])).observe(aloud, { childList: true });
        }"""
    )
    kernel = Connected(page)
    kernel.hear()
    for number, frame in enumerate(frames(6.0)):
        change = (StripMark(0.1, "prefetch 0 → 4", f"+{number} %"),)
        kernel.flow.push(replace(frame, marks=change, running=number < 59))
        page.clock.run_for(100)
        kernel.hear()
    page.clock.run_for(3000)
    spoken = page.evaluate("window.spoken")
    times_ms = [at_ms for at_ms, _ in spoken]
    assert 3 <= len(spoken) <= 5
    assert min(np.diff(times_ms)) >= 1990
    assert "+59 %" in spoken[-1][1]


def test_who_wants_less_motion_gets_two_pictures_a_second(page: Any):
    page.emulate_media(reduced_motion="reduce")
    show_held(page, [])
    kernel = Connected(page)
    kernel.hear()
    painted = int(data(page, "painted"))
    for frame in frames(5.0):
        kernel.flow.push(frame)
        page.clock.run_for(100)
        kernel.hear()
    page.clock.run_for(1000)
    kernel.hear()
    page.clock.run_for(1000)
    assert 9 <= int(data(page, "painted")) - painted <= 12
    assert data(page, "now") == "5"
