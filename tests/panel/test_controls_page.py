"""The controls in a browser: every knob has a label, its help and a place in the order of the keyboard, and can be read in every theme."""

from typing import Any

import pytest

from tests.panel.controls_page import SPEC, STATES, STATUS, VALUES, put, sent, show, traits, with_knobs

pytestmark = pytest.mark.browser


# ---- what can be found and read ------------------------------------------------------------------------------


def test_every_knob_is_found_by_its_label_and_explained(page: Any):
    show(page, traits("idle"))
    for knob in SPEC["knobs"]:
        found = page.get_by_label(knob["name"], exact=True)
        assert found.get_attribute("name") == knob["name"]
        help_id, note_id = found.get_attribute("aria-describedby").split()
        assert page.locator(f"#{help_id}").text_content().startswith(knob["help"])
        assert page.locator(f"#{note_id}").text_content() == VALUES["inert"].get(knob["name"], "")


def test_the_controls_show_the_values(page: Any):
    show(page, {**traits("idle"), "values": with_knobs(0, prefetch=7, batch_size=64, pinned=False, model="large", data="/photos")})
    assert page.get_by_label("prefetch", exact=True).input_value() == "7"
    assert page.get_by_label("prefetch as a number").input_value() == "7"
    assert page.get_by_label("batch_size", exact=True).input_value() == "64"
    assert not page.get_by_label("pinned", exact=True).is_checked()
    assert page.get_by_label("model", exact=True).input_value() == "large"
    assert page.get_by_label("data", exact=True).input_value() == "/photos"


def test_an_inert_knob_is_disabled_and_says_why(page: Any):
    show(page, traits("idle"))
    assert page.get_by_label("pinned", exact=True).is_disabled()
    assert page.get_by_text("pinned memory cannot act on cpu: host and device memory are the same here").is_visible()
    put(page, "values", {**VALUES, "seq": 1, "inert": {}})
    assert page.get_by_label("pinned", exact=True).is_enabled()
    assert page.get_by_text("pinned memory cannot act on cpu").count() == 0


def test_help_is_seen_by_who_comes_with_the_tab_key_until_escape_or_the_mouse(page: Any):
    show(page, traits("idle"))
    knob = page.get_by_label("batch_size", exact=True)
    helping = page.locator(f"#{knob.get_attribute('aria-describedby').split()[0]}")
    knob.click()
    assert not helping.is_visible()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert helping.is_visible()
    page.keyboard.press("Escape")
    assert not helping.is_visible()
    page.keyboard.press("Tab")
    assert helping.is_visible()
    page.get_by_label("prefetch", exact=True).click()
    assert not helping.is_visible()


def test_phase_and_label_are_always_there_and_a_simulation_says_so(page: Any):
    show(page, traits("simulated"))
    assert page.locator(".labkit-controls").get_attribute("data-phase") == "idle"
    badge = page.locator(".lk-badge")
    assert badge.text_content() == "simulated H200"
    assert "predicted" in badge.evaluate("node => getComputedStyle(node, '::after').content")
    put(page, "status", {**STATUS, "phase": "running"})
    assert page.locator(".labkit-controls").get_attribute("data-phase") == "running"
    assert badge.evaluate("node => getComputedStyle(node, '::after').content") == "none"


def test_what_is_absent_is_a_dash_with_its_reason(page: Any):
    show(page, traits("running"))
    dial = page.locator(".lk-dial").nth(2)
    assert dial.locator("dd").text_content() == "—this machine has no GPU driver"
    assert dial.get_attribute("title") == "GPU: this machine has no GPU driver"
    assert page.locator(".lk-dial").nth(3).locator("small").text_content() == "critical"


def test_an_error_is_an_alert_and_other_words_are_a_status(page: Any):
    show(page, traits("error"))
    assert page.get_by_role("alert").text_content().startswith("error: The worker died")
    put(page, "status", STATES["comparing"]["status"])
    assert page.get_by_role("alert").text_content() == ""
    assert page.get_by_role("status").filter(has_text="info: A and B are measured in turns.").is_visible()


# ---- the keyboard --------------------------------------------------------------------------------------------

LISTEN = "window.keys = []; document.addEventListener('keydown', (event) => window.keys.push(event.key));"


def test_arrows_work_and_single_keys_do_not_reach_the_notebook(page: Any):
    show(page, traits("idle"))
    page.evaluate(LISTEN)
    page.get_by_label("prefetch", exact=True).focus()
    for key in ("ArrowRight", "ArrowRight", "a", "b", "d", "0", "Enter", "Control+s", "Escape"):
        page.keyboard.press(key)
    assert page.evaluate("window.keys") == ["Control", "s", "Escape"]
    assert sent(page)[-1] == {"do": "turn", "knob": "prefetch", "value": 4}


def test_arrows_step_a_number_field_and_send(page: Any):
    show(page, traits("idle"))
    page.get_by_label("batch_size", exact=True).press("ArrowUp")
    assert sent(page) == [{"do": "turn", "knob": "batch_size", "value": 17}]


def test_a_switch_is_turned_by_the_space_bar(page: Any):
    show(page, traits("idle"))
    page.get_by_role("switch", name="log_sync").press(" ")
    assert sent(page) == [{"do": "turn", "knob": "log_sync", "value": True}]


def test_tab_visits_the_controls_in_the_order_in_which_they_are_seen(page: Any):
    show(page, traits("idle"))
    visited = []
    for _ in range(32):
        page.keyboard.press("Tab")
        visited.append(page.evaluate("(({name, dataset, textContent}) => name || dataset.do || textContent)(document.activeElement)"))
    assert visited == [
        "device", "preset", "run", "stop", "run_for", "pin", "compare", "reset",
        "prefetch", "prefetch.number", "workers", "workers.number", "batch_size", "÷2", "×2", "augment_on", "normalise_on",
        "non_blocking", "copy_stream", "log_every", "log_sync",
        "loader", "image_size", "÷2", "×2", "model", "seed", "data", "Predict first", "Also show", "Stored runs", "Copy as",
    ]  # fmt: skip


# ---- how it looks, and views ---------------------------------------------------------------------------------------------------


# The contrast (WCAG 2.1) of each text that may be used and is less than 4.5 : 1. The browser mixes the colours, on a canvas.
TOO_FAINT = """() => {
  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const layers = (node) => (node ? [...layers(node.parentElement), getComputedStyle(node)] : []);
  const luminance = (fills) => {
    pen.fillStyle = "#fff";
    for (const fill of ["#fff", ...fills]) (pen.fillStyle = fill), pen.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const own = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) || "value" in node;
  const off = ":disabled, [aria-disabled=true], .lk-row:has(:disabled) .lk-label *, option, [type=range], [type=checkbox], progress";
  return [...document.querySelectorAll(".labkit-controls *")].filter((node) => own(node) && !node.matches(off)).flatMap((node) => {
    const behind = layers(node).map((style) => style.backgroundColor);
    const [back, front] = [luminance(behind), luminance([...behind, getComputedStyle(node).color])];
    const contrast = (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
    return contrast < 4.5 ? [`${node.outerHTML.slice(0, 60)} ${contrast.toFixed(2)}`] : [];
  });
}"""


def test_ids_are_unique_among_views_and_every_label_has_its_control(page: Any):
    show(page, traits("simulated"))
    page.evaluate("document.body.append(document.createElement('div')); window.again(document.body.lastChild)")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))
    assert page.evaluate("[...document.querySelectorAll('label')].every((label) => label.control)")


def test_a_view_that_is_closed_has_sent_all_and_hears_no_more(page: Any):
    show(page, traits("idle"))
    values = page.evaluate(
        """() => {
          const slider = document.querySelector("[name=prefetch]");
          slider.value = 30;
          slider.dispatchEvent(new Event("input"));
          window.close_view();
          return window.sent.map((command) => command.value);
        }"""
    )
    assert values == [30]
    assert page.evaluate("window.listeners()") == 0


def test_another_spec_is_drawn_anew(page: Any):
    show(page, traits("idle"))
    put(page, "spec", {**SPEC, "knobs": SPEC["knobs"][:1], "presets": []})
    assert page.locator(".lk-row").count() == 1 + len(SPEC["machine"])
    assert page.get_by_label("prefetch", exact=True).input_value() == "2"


@pytest.mark.parametrize("state", STATES)
def test_nothing_is_wider_than_its_column(page: Any, state: str):
    show(page, traits(state), 1000)
    page.evaluate("document.querySelectorAll('details').forEach((node) => (node.open = true))")
    for width in (300, 320, 480, 1000):
        page.set_viewport_size({"width": width, "height": 900})
        page.locator("#panel").evaluate("(panel, width) => (panel.style.width = `${width}px`)", width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("theme", ["light", "dark", "none"])
@pytest.mark.parametrize("state", STATES)
def test_every_text_stands_out_from_what_is_behind_it_as_wcag_aa_asks(page: Any, state: str, theme: str):
    show(page, traits(state), 1000, theme)
    page.evaluate("document.querySelectorAll('details').forEach((node) => (node.open = true))")
    assert page.evaluate(TOO_FAINT) == []
