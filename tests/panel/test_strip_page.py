"""The strip in a browser: what it draws, what it says to the kernel, and that it is cheap whatever comes."""

from dataclasses import replace
from itertools import combinations
from time import monotonic
from typing import Any

import numpy as np
import pytest

from labkit.panel.frame import StripMark
from labkit.panel.strip import Flow
from tests.panel.strip_page import MARKS, ROWS, as_json, frames, run_of, show

pytestmark = pytest.mark.browser

HANG_S = 30.0
_RECORDER = """
() => {
  window.drawn = [];
  const pen = CanvasRenderingContext2D.prototype, ran = {};
  for (const name of ["fillText", "fillRect", "drawImage", "putImageData", "clearRect"]) {
    ran[name] = pen[name];
    pen[name] = function (...given) {
      const start = this.textAlign === "right" ? -1 : this.textAlign === "center" ? -0.5 : 0;
      const wide = name === "fillText" ? this.measureText(given[0]).width : 0;
      if (name === "clearRect") window.drawn = [];
      window.drawn.push({ name, words: given[0], x: given[1] + start * wide, y: given[2], wide, colour: this.fillStyle });
      return ran[name].apply(this, given);
    };
  }
}
"""


class Connected:
    """A kernel's end of the strip: what the page says goes to the flow, what the flow sends goes to the page."""

    def __init__(self, page: Any):
        self.page = page
        self.sent = 0
        self.heard: list[dict[str, Any]] = []
        self.flow = Flow(self._send, lambda: 0.0)

    def _send(self, header: dict[str, Any], buffers: list[bytes]) -> None:
        self.sent += 1
        self.page.evaluate("window.tell", as_json(header, buffers))

    def hear(self) -> None:
        """Pass on what the page has said since."""
        said = self.page.evaluate("window.sent.splice(0)")
        self.heard += said
        for message in said:
            self.flow.hear(message)

    def until(self, now_s: float, view: str = "#strip") -> None:
        """Until a view shows this time, and has said so."""
        give_up_s = monotonic() + HANG_S
        while float(data(self.page, "now", view) or "nan") != now_s:
            assert monotonic() < give_up_s, f"{view} shows {data(self.page, 'now', view)}, not {now_s}"
            self.hear()
            self.page.wait_for_timeout(10)
        self.hear()


def data(page: Any, name: str, view: str = "#strip") -> str:
    return page.locator(f"{view} .labkit-strip").get_attribute(f"data-{name}")


def show_recorded(page: Any, run: list[Any], width: int = 900, theme: str = "light") -> list[dict[str, Any]]:
    """Show a run; everything that was drawn in the last picture."""
    page.evaluate(_RECORDER)
    show(page, run, width, theme)
    return page.evaluate("window.drawn")


# ---- what it says to the kernel ------------------------------------------------------------------------------


def test_a_view_says_hello_and_acknowledges_what_it_has_painted(page: Any):
    show(page, [])
    kernel = Connected(page)
    kernel.hear()
    assert kernel.heard[0] == {"hello": True}
    for frame in frames(0.5):
        kernel.flow.push(frame)
        kernel.until(frame.now_s)
    assert [message["ack"] for message in kernel.heard[1:]] == list(range(1, kernel.sent + 1))
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
    kernel.until(0.1)
    assert "ack" in kernel.heard[-1]


def test_a_model_that_ends_leaves_nothing_behind(page: Any):
    show(page, run_of("begun"))
    assert page.evaluate("window.listeners()") == 1
    page.evaluate("window.close_view(); window.end()")
    assert page.evaluate("window.listeners()") == 0


def test_a_kernel_that_is_gone_leaves_the_picture(page: Any):
    show(page, run_of("begun"))
    painted = int(data(page, "painted"))
    page.evaluate("Object.defineProperty(window, 'sent', { value: { push() { throw new Error('gone') } } })")
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    page.wait_for_function(f"document.querySelector('.labkit-strip').dataset.painted > {painted}")


# ---- what it shows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [420, 900, 1400])
def test_the_words_of_toggles_never_overlap_and_the_newest_are_there(page: Any, width: int):
    page.set_viewport_size({"width": width, "height": 420})
    drawn = show_recorded(page, run_of("crowded"), width)
    words = [
        each
        for each in drawn
        if each["name"] == "fillText" and "workers" in each["words"] and "→" in each["words"]
    ]
    assert words[0]["words"].startswith("workers 15 → 16")
    assert words[0]["words"].endswith("+3.1 % (+2.7 to +3.5)")
    assert len(words) >= 3
    for one, other in combinations(words, 2):
        apart = one["x"] + one["wide"] < other["x"] or other["x"] + other["wide"] < one["x"]
        assert apart or abs(one["y"] - other["y"]) >= 13, (one, other)


def test_a_toggle_is_told_with_its_change(page: Any):
    drawn = show_recorded(page, run_of("running"))
    said = {each["words"] for each in drawn if each["name"] == "fillText"}
    assert {f"{mark.words}   {mark.change}" for mark in MARKS} <= said
    assert page.locator(".change dt").text_content() == "batch_size 16 → 64"
    assert page.locator(".change dd").text_content() == "…"
    assert data(page, "marks") == "4"


def test_lanes_have_their_names_and_shares_and_what_is_unknown_is_no_zero(page: Any):
    last = list(frames(1.0))[-1]
    points = last.points.copy()
    points[:, 3:] = [[0.0, 1.0, np.nan, 0.5, 0.123]]
    drawn = show_recorded(page, [replace(last, points=points)])
    words = [each["words"] for each in drawn if each["name"] == "fillText"]
    shown = words[words.index("host") : words.index("busy share")]
    assert shown == ["host", "0 %", "workers", "100 %", "h2d", "–", "compute", "50 %", "d2h", "12 %"]


def test_the_timeline_is_one_picture_a_row_however_many_slices(page: Any):
    chance = np.random.default_rng(5)
    start = chance.uniform(-1, 0, 50_000)
    slices = np.stack([chance.integers(0, len(ROWS), 50_000), start, start + 1e-5, start * 0], axis=1).astype(
        np.float32
    )
    run = [replace(frame, slices=slices if frame.now_s == 1.0 else slices[:0]) for frame in frames(1.0)]
    few, many = run[0], run[-1]
    counts = []
    for frame in (few, many):
        drawn = show_recorded(page, [frame])
        names = [each["name"] for each in drawn if each["name"] != "fillText"]
        counts.append({name: names.count(name) for name in ("drawImage", "fillRect")})
        page.reload()
    assert counts[0] == counts[1]
    assert counts[0]["drawImage"] == len(ROWS)


@pytest.mark.parametrize(("share", "strength"), [(1.0, 255), (0.5, 128), (0.01, 77)])
def test_a_column_of_the_timeline_is_as_strong_as_its_unit_was_busy(page: Any, share: float, strength: int):
    page.evaluate(
        """() => {
          const put = CanvasRenderingContext2D.prototype.putImageData;
          CanvasRenderingContext2D.prototype.putImageData = function (image, ...at) {
            window.pixels = [image.width, ...image.data.slice(400, 404)];
            return put.call(this, image, ...at);
          };
        }"""
    )
    columns = 900 - 2 * 8 - 70 - 52  # the width of the page without its margin and the gutters
    slices = np.array([[0, 100 / columns - 1, (100 + share) / columns - 1, 0]], np.float32)
    show(page, [replace(next(frames(0.1)), rows=("compute",), slices=slices)], 900)
    wide, *pixel = page.evaluate("window.pixels")
    assert wide == columns
    assert pixel[:3] == [0x0B, 0x7A, 0x6F]
    assert abs(pixel[3] - strength) <= 2


def test_a_device_is_always_named_and_a_prediction_is_marked_by_words_colour_and_ground(page: Any):
    colours = {}
    for state, label in (
        ("running", "measured on CPU threads"),
        ("simulated", "simulated H200: a prediction"),
    ):
        drawn = show_recorded(page, run_of(state))
        assert page.locator(".device").text_content() == label
        colours[state] = page.evaluate("getComputedStyle(document.querySelector('.device')).color")
        ground = page.evaluate("getComputedStyle(document.querySelector('canvas')).backgroundImage")
        assert ("gradient" in ground) == (state == "simulated")
        said = {each["words"] for each in drawn if each["name"] == "fillText"}
        assert ("throughput, items/s, a prediction" in said) == (state == "simulated")
        assert data(page, "simulated") == str(state == "simulated").lower()
    assert colours["running"] != colours["simulated"]


def test_a_run_that_ends_or_falls_silent_is_not_called_running(page: Any):
    page.clock.install()
    show(page, run_of("begun"))
    assert data(page, "state") == "running"
    page.clock.run_for(2500)
    assert data(page, "state") == "running"
    page.clock.run_for(1000)
    assert data(page, "state") == "no news"
    page.clock.resume()
    show(page, run_of("stopped"))
    assert data(page, "state") == "stopped"
    assert page.locator(".state").text_content() == "measured on CPU threadsstopped"


def test_before_anything_has_run_the_strip_says_so(page: Any):
    drawn = show_recorded(page, [])
    assert [each["words"] for each in drawn if each["name"] == "fillText"] == ["nothing has run yet"]
    assert not page.locator(".change").is_visible()


@pytest.mark.parametrize("width", [420, 760, 1400])
@pytest.mark.parametrize("state", ["running", "simulated", "crowded"])
def test_everything_fits(page: Any, state: str, width: int):
    page.set_viewport_size({"width": width, "height": 420})
    show(page, run_of(state), width)
    root = page.locator(".labkit-strip")
    box = root.bounding_box()
    assert box["width"] == width
    assert box["height"] <= 400
    assert page.locator("canvas").bounding_box()["height"] >= 260
    assert root.evaluate(
        "(root) => root.scrollWidth <= root.clientWidth && root.scrollHeight <= root.clientHeight"
    )
    tops = page.locator("dl, .state").evaluate_all(
        "(parts) => parts.map((part) => part.getBoundingClientRect().toJSON())"
    )
    for one, other in combinations(tops, 2):
        beside = one["right"] <= other["left"] or other["right"] <= one["left"]
        assert beside or one["bottom"] <= other["top"] or other["bottom"] <= one["top"]


def test_the_theme_of_jupyterlab_is_followed(page: Any):
    page.set_viewport_size({"width": 900, "height": 420})
    drawn = show_recorded(page, run_of("begun"))
    before = next(each["colour"] for each in drawn if each["words"] == "host")
    page.evaluate("document.documentElement.style.setProperty('--jp-ui-font-color1', '#fedcba')")
    page.evaluate("document.body.dataset.jpThemeName = 'another'")
    page.wait_for_function("window.drawn.some((each) => each.colour === '#fedcba')")
    after = next(each["colour"] for each in page.evaluate("window.drawn") if each["words"] == "host")
    assert (before, after) == ("rgba(0, 0, 0, 0.87)", "#fedcba")


def test_the_picture_has_the_screens_pixels(chromium: Any):
    page = chromium.new_page(device_scale_factor=2, viewport={"width": 900, "height": 420})
    show(page, run_of("begun"), 900)
    wide, high, shown = page.evaluate(
        "(({ width, height, clientWidth }) => [width, height, clientWidth])(document.querySelector('canvas'))"
    )
    assert wide == 2 * shown
    page.locator("#strip").evaluate("(strip) => (strip.style.width = '600px')")
    page.wait_for_function(
        "document.querySelector('canvas').width === 2 * document.querySelector('canvas').clientWidth"
    )
    assert page.locator("canvas").bounding_box()["width"] < 600
    assert high > 0
    page.close()


# ---- for everybody -------------------------------------------------------------------------------------------


def test_what_is_drawn_is_also_written(page: Any):
    show(page, run_of("running"))
    assert page.get_by_role("img").get_attribute("aria-label")
    assert page.locator(".tiles dd").all_text_contents() == ["745 items/s", "86 ms", "compute 94 %"]
    assert page.locator("[aria-live=polite]").text_content() == (
        "measured on CPU threads, running, batch_size 16 → 64, …; throughput 745 items/s; step interval 86 ms; busiest lane compute 94 %"
    )


def test_it_speaks_at_most_every_two_seconds_and_says_the_last_thing(page: Any):
    page.clock.install()
    show(page, [])
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
        kernel.flow.push(replace(frame, marks=(StripMark(0.1, "prefetch 0 → 4", f"+{number} %"),)))
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
    page.clock.install()
    show(page, [])
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
