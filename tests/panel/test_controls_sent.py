"""The controls in a browser: commands are right and not too many, and what the user has set is not set back by what Python said
before it heard."""

from itertools import pairwise
from typing import Any

import pytest

from tests.panel.controls_page import STATES, STATUS, VALUES, put, sent, show, traits, with_knobs

pytestmark = pytest.mark.browser


def last_seq(page: Any) -> int:
    page.wait_for_timeout(120)
    return page.evaluate("window.sent.at(-1).seq")


# ---- what is sent --------------------------------------------------------------------------------------------


def test_each_kind_of_control_sends_the_value_of_its_type(page: Any):
    show(page, traits("idle"))
    page.get_by_label("prefetch", exact=True).fill("9")
    page.get_by_label("workers as a number").fill("3")
    page.get_by_label("workers as a number").press("Enter")
    page.get_by_label("seed", exact=True).fill("7")
    page.get_by_label("seed", exact=True).blur()
    page.get_by_label("augment_on", exact=True).select_option("gpu")
    page.get_by_label("log_sync", exact=True).check()
    page.get_by_label("data", exact=True).fill("/photos")
    page.get_by_label("data", exact=True).press("Enter")
    page.get_by_label("data", exact=True).fill(" ")
    page.get_by_label("data", exact=True).blur()
    assert sent(page) == [
        {"do": "turn", "knob": "prefetch", "value": 9},
        {"do": "turn", "knob": "workers", "value": 3},
        {"do": "turn", "knob": "seed", "value": 7},
        {"do": "turn", "knob": "augment_on", "value": "gpu"},
        {"do": "turn", "knob": "log_sync", "value": True},
        {"do": "turn", "knob": "data", "value": "/photos"},
        {"do": "turn", "knob": "data", "value": None},
    ]


def test_a_batch_size_is_doubled_and_halved_within_its_bounds(page: Any):
    show(page, {**traits("idle"), "values": with_knobs(0, batch_size=3000, image_size=17)})
    page.get_by_role("button", name="batch_size doubled").click()
    page.get_by_role("button", name="batch_size halved").click()
    page.get_by_role("button", name="image_size halved").click()
    assert [command["value"] for command in sent(page)] == [4096, 2048, 16]


def test_a_number_out_of_range_is_not_sent_and_escape_takes_it_back(page: Any):
    show(page, traits("idle"))
    field = page.get_by_label("batch_size", exact=True)
    field.fill("5000")
    field.press("Enter")
    note = page.get_by_text("5000 is not allowed; allowed: whole number, 1 to 4096. Still 16.")
    assert note.is_visible() and field.get_attribute("aria-invalid") == "true"
    field.press("Escape")
    assert (field.input_value(), field.get_attribute("aria-invalid"), note.count()) == ("16", None, 0)
    field.fill("33")
    field.press("Escape")
    field.blur()
    assert sent(page) == []


def test_choosing_asks_for_devices_presets_and_times(page: Any):
    show(page, traits("idle"))
    page.get_by_label("device").select_option("simulated:t4")
    page.get_by_label("preset").select_option("naive")
    page.get_by_label("run for").select_option("until Stop")
    page.get_by_label("run for").select_option("5 s")
    assert sent(page) == [
        {"do": "device", "name": "simulated:t4"},
        {"do": "preset", "name": "naive"},
        {"do": "run_for", "seconds": None},
        {"do": "run_for", "seconds": 5},
    ]


def test_a_device_that_is_not_here_cannot_be_chosen(page: Any):
    show(page, traits("idle"))
    option = page.locator("option[value=cuda]")
    assert option.is_disabled() and option.text_content() == "GPU (not here: this machine has no GPU driver)"


def test_the_preset_in_force_is_shown(page: Any):
    show(page, traits("idle"))
    preset = page.get_by_label("preset")
    assert preset.input_value() == ""
    put(page, "values", with_knobs(1, prefetch=4))
    assert preset.input_value() == "overlapped"
    put(page, "values", with_knobs(2, prefetch=4, augment_on="gpu", normalise_on="gpu"))
    assert preset.input_value() == "GPU preprocessing"


def test_a_time_that_is_not_in_the_list_is_added(page: Any):
    show(page, {**traits("idle"), "values": {**VALUES, "run_for": 7}})
    assert page.get_by_label("run for").locator("option:checked").text_content() == "7 s"


def test_buttons_send_what_they_may_and_nothing_else(page: Any):
    show(page, traits("idle"))
    for name in ("run", "stop", "pin", "compare", "reset"):
        page.locator(f"[data-do={name}]").dispatch_event("click")
    assert sent(page) == [{"do": "run"}, {"do": "reset"}]


def test_a_double_click_on_stop_asks_once_for_a_second_stop_would_kill(page: Any):
    show(page, traits("running"))
    page.locator("[data-do=stop]").dblclick()
    assert sent(page) == [{"do": "stop"}]


def test_while_nobody_hears_what_was_asked_for_the_panel_says_so(page: Any):
    show(page, traits("idle"))
    busy = page.get_by_text("Nobody has heard yet")
    assert not busy.is_visible()
    page.locator("[data-do=run]").click()
    busy.wait_for(state="visible")
    put(page, "values", {**VALUES, "seq": 1})
    busy.wait_for(state="hidden")


def test_run_keeps_the_keyboard_when_it_may_not_be_pressed_again(page: Any):
    show(page, traits("idle"))
    run = page.get_by_role("button", name="Run", exact=True)
    run.press("Enter")
    put(page, "status", STATES["running"]["status"])
    assert run.is_disabled() and run.evaluate("node => node === document.activeElement")
    run.press("Enter")
    assert sent(page) == [{"do": "run"}]


def test_a_typical_link_is_asked_for_by_name_and_shown_when_it_is_there(page: Any):
    machine = STATES["simulated"]["values"]["machine"]
    show(page, {**traits("idle"), "values": STATES["simulated"]["values"]})
    link = page.get_by_label("typical links")
    assert link.input_value() == ""
    link.select_option("slow link")
    assert sent(page) == [{"do": "machine_preset", "name": "slow link"}]
    put(page, "values", {**STATES["simulated"]["values"], "seq": 1, "machine": {**machine, "link_h2d_bytes_per_s": 12e9}})
    assert link.input_value() == "slow link"


def test_a_figure_of_the_machine_is_sent_in_its_own_unit(page: Any):
    show(page, traits("idle"))
    assert not page.get_by_label("host link").is_visible()
    put(page, "values", {**STATES["simulated"]["values"], "seq": 1})
    assert page.get_by_label("link_h2d_bytes_per_s as a number").input_value() == "55.4"
    page.get_by_label("host link").press("ArrowRight")
    page.get_by_label("host link").press("ArrowRight")
    page.get_by_label("cores as a number").fill("12")
    page.get_by_label("cores as a number").press("Enter")
    page.get_by_label("cores as a number").fill("12.5")
    page.get_by_label("cores as a number").press("Enter")
    commands = sent(page)
    assert commands[-2:] == [
        {"do": "machine", "figure": "link_h2d_bytes_per_s", "value": 80e9},
        {"do": "machine", "figure": "cores", "value": 12},
    ]


def test_a_figure_that_the_machine_does_not_give_may_be_turned_only_where_it_is_none(page: Any):
    simulated = STATES["simulated"]["values"]
    show(page, {**traits("simulated"), "values": simulated})
    assert page.get_by_label("HBM share").is_disabled()
    assert page.get_by_text("this machine does not give it").is_visible()
    put(page, "values", {**simulated, "seq": 1, "machine": {**simulated["machine"], "hbm_share": None}})
    assert page.get_by_label("hbm_share as a number").input_value() == ""
    page.get_by_label("HBM share").fill("0.25")
    assert sent(page) == [{"do": "machine", "figure": "hbm_share", "value": 0.25}]


def test_what_is_shown_besides_is_asked_for_and_stays_as_python_says(page: Any):
    show(page, traits("idle"))
    page.get_by_text("Also show").click()
    page.get_by_label("measured wrongly").check()
    put(page, "values", {**VALUES, "seq": 1, "views": ["mistakes"]})
    assert page.get_by_label("measured wrongly").is_checked()
    page.get_by_label("measured wrongly").uncheck()
    assert sent(page) == [{"do": "view", "name": "mistakes", "on": True}, {"do": "view", "name": "mistakes", "on": False}]


def test_a_guess_is_committed_shown_and_cleared(page: Any):
    show(page, traits("idle"))
    page.get_by_text("Predict first").click()
    page.get_by_label("B is").fill("1.25")
    page.get_by_label("bottleneck of B").select_option("h2d")
    page.get_by_label("B is").press("Enter")
    page.get_by_label("B is").fill("-1")
    page.get_by_label("B is").press("Enter")
    put(page, "guess", {"ratio": 1.25, "bottleneck": "h2d", "committed": True})
    assert page.get_by_text("You say: B is 1.25× as fast as A, held back by h2d.").is_visible()
    assert not page.get_by_label("B is").is_visible()
    page.get_by_role("button", name="Clear").click()
    assert sent(page) == [{"do": "guess", "ratio": 1.25, "bottleneck": "h2d"}, {"do": "clear_guess"}]


def test_a_is_shown_unpinned_and_taken_from_the_store(page: Any):
    show(page, traits("running"))
    assert page.get_by_text("prefetch=0, loader=inline: 812 images/s (measured on CPU threads)").is_visible()
    page.get_by_role("button", name="Unpin").click()
    page.get_by_text("Stored runs").click()
    page.get_by_label("run", exact=True).select_option("b2")
    put(page, "status", {**STATUS, "a": None, "stored": [*STATUS["stored"], {"id": "c3", "words": "a third"}]})
    assert page.get_by_label("run", exact=True).input_value() == "b2"
    page.get_by_role("button", name="Use as A").click()
    assert sent(page) == [{"do": "unpin"}, {"do": "pin_stored", "id": "b2"}]


def test_a_text_to_copy_is_selected_where_there_is_no_clipboard(page: Any):
    show(page, traits("idle"))
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_text("Copy as").click()
    page.get_by_label("as", exact=True).select_option(label="Python")
    page.get_by_role("button", name="Copy", exact=True).click()
    assert page.get_by_text("selected: press Ctrl+C").is_visible()
    assert page.evaluate("String(getSelection())") == STATUS["copy"]["Python"]


# ---- how often, and the echo ---------------------------------------------------------------------------------

DRAG = """async ([name, count]) => {
  const slider = document.querySelector(`[name="${name}"]`);
  for (let step = 1; step <= count; step++) {
    slider.value = step;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}"""


def test_a_slider_that_is_dragged_sends_every_50_ms_at_most_and_its_last_value(page: Any):
    show(page, traits("idle"))
    page.evaluate(DRAG, ["prefetch", 60])
    commands = sent(page)
    assert 2 <= len(commands) < 60 and commands[-1] == {"do": "turn", "knob": "prefetch", "value": 60}
    times = page.evaluate("window.sentAt")
    assert min(later - earlier for earlier, later in pairwise(times)) > 45


def test_a_button_after_a_slider_finds_its_last_value_sent(page: Any):
    show(page, traits("idle"))
    page.evaluate(
        """() => {
          const slider = document.querySelector("[name=prefetch]");
          for (const value of [1, 2, 3]) {
            slider.value = value;
            slider.dispatchEvent(new Event("input"));
          }
          document.querySelector("[data-do=run]").click();
        }"""
    )
    assert sent(page) == [{"do": "turn", "knob": "prefetch", "value": 3}, {"do": "run"}]


def test_older_values_do_not_set_a_slider_back(page: Any):
    show(page, traits("idle"))
    slider = page.get_by_label("prefetch", exact=True)
    slider.fill("30")
    put(page, "values", with_knobs(0, prefetch=5))
    assert slider.input_value() == "30"
    put(page, "values", with_knobs(last_seq(page), prefetch=29))
    assert slider.input_value() == "29"


def test_a_command_that_was_ignored_is_not_waited_for(page: Any):
    show(page, traits("idle"))
    slider = page.get_by_label("prefetch", exact=True)
    slider.fill("30")
    page.evaluate("seq => window.tell({ ignored: seq, reason: '' })", last_seq(page))
    assert slider.input_value() == "2"


def test_a_field_that_is_being_typed_into_is_left_alone(page: Any):
    show(page, traits("idle"))
    field = page.get_by_label("batch_size", exact=True)
    field.focus()
    page.keyboard.press("End")
    page.keyboard.type("0")
    put(page, "values", with_knobs(1, batch_size=64, workers=2))
    assert field.input_value() == "160"
    assert page.get_by_label("workers", exact=True).input_value() == "2"
