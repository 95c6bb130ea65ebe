"""What the strip shows in a browser, in every width and theme, and that it is cheap whatever comes."""

from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from tests.panel.strip_kernel import data, show_recorded
from tests.panel.strip_page import LANES, MARKS, ROWS, frames, run_of, show, show_held

pytestmark = pytest.mark.browser


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
    assert page.locator(".change div").text_content() == "batch_size 16 → 64"
    assert page.locator(".change b").text_content() == "…"
    assert data(page, "marks") == "4"


def test_where_there_is_no_room_a_toggle_is_told_without_its_change(page: Any):
    page.set_viewport_size({"width": 420, "height": 420})
    drawn = show_recorded(page, run_of("running"), 420)
    said = [each["words"] for each in drawn if each["name"] == "fillText" and "→" in each["words"]]
    assert said[0] == "batch_size 16 → 64   …"
    assert said.count("prefetch 0 → 4") == 1


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


@pytest.mark.parametrize("state", ["running", "crowded"])
@pytest.mark.parametrize("width", [420, 1400])
def test_every_row_of_the_timeline_has_its_place_and_every_role_its_name(page: Any, state: str, width: int):
    page.set_viewport_size({"width": width, "height": 420})
    drawn = show_recorded(page, run_of(state), width)
    boxes = [each["given"] for each in drawn if each["name"] == "drawImage"]
    assert [row for _, row, *_ in boxes] == list(range(len(run_of(state)[-1].rows)))
    for above, below in pairwise(boxes):
        assert above[5] + above[7] < below[5]
    names = [each for each in drawn if each["name"] == "fillText" and each["y"] > boxes[0][5]]
    names = [each for each in names if each["words"] in (*LANES, *ROWS)]
    assert len(names) == len({role.split()[0] for role in run_of(state)[-1].rows})
    for above, below in pairwise(names):
        assert below["y"] - above["y"] >= 9.5


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
    show_held(page, run_of("begun"))
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
    assert box["height"] <= 460
    assert page.locator("canvas").bounding_box()["height"] >= 260
    assert root.evaluate(
        "(root) => root.scrollWidth <= root.clientWidth && root.scrollHeight <= root.clientHeight"
    )
    tops = page.locator(".tile, .state").evaluate_all(
        "(parts) => parts.map((part) => part.getBoundingClientRect().toJSON())"
    )
    for one, other in combinations(tops, 2):
        beside = one["right"] <= other["left"] or other["right"] <= one["left"]
        assert beside or one["bottom"] <= other["top"] or other["bottom"] <= one["top"]


def test_the_theme_of_jupyterlab_is_followed(page: Any):
    page.set_viewport_size({"width": 900, "height": 420})
    drawn = show_recorded(page, run_of("stopped"))
    before = next(each["colour"] for each in drawn if each["words"] == "host")
    page.evaluate("document.documentElement.style.setProperty('--jp-ui-font-color1', '#fedcba')")
    page.evaluate("document.body.dataset.jpThemeName = 'another'")
    page.wait_for_function("window.drawn.some((each) => each.colour === '#fedcba')")
    after = next(each["colour"] for each in page.evaluate("window.drawn") if each["words"] == "host")
    assert (before, after) == ("rgba(0, 0, 0, 0.87)", "#fedcba")


def test_a_theme_that_comes_while_the_strip_is_hidden_for_a_moment_is_not_missed(page: Any):
    show_recorded(page, run_of("stopped"))
    page.evaluate(
        """async () => {
          const strip = document.querySelector("#strip");
          strip.style.display = "none";
          document.documentElement.style.setProperty("--jp-ui-font-color1", "#fedcba");
          document.body.dataset.jpThemeName = "another";
          await Promise.resolve(); // the strip has heard of the theme
          await new Promise((done) => requestAnimationFrame(done));
          strip.style.display = "";
        }"""
    )
    page.wait_for_function("window.drawn.some((each) => each.colour === '#fedcba')")


def test_without_jupyterlab_the_systems_light_or_dark_is_followed(page: Any):
    drawn = show_recorded(page, run_of("stopped"), 340, "none")
    assert {each["colour"] for each in drawn if each["words"] == "host"} == {"#16191d"}
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("window.drawn.some((each) => each.words === 'host' && each.colour === '#e6e9ed')")


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
