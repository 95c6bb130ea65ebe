"""The pulse, on the virtual clock: what the strip is told of a run whose numbers are known."""

import numpy as np
import pytest

from labkit.panel.frame import StripFrame
from labkit.panel.pulse import Pulse
from labkit.trace import KIND_OP, UnitSpan
from labkit.trace.mirror import Part
from tests.panel.virtual_parts import VirtualRun


def frames_of(run: VirtualRun, warmup: int = 0, in_flight: int = 3) -> list[StripFrame]:
    pulse, frames, before_ns = Pulse(opened_s=10.0, warmup=warmup), [], 0
    for part in run.parts():
        pulse.take(part, in_flight)
        frames.append(pulse.frame(part.now_ns, before_ns, "measured on CPU threads", False))
        before_ns = part.now_ns
    return frames


def test_a_steady_run_has_its_throughput_interval_and_busy_share():
    point = frames_of(VirtualRun(step_ms=20, busy_ms=15, steps=100))[-1].points[0]
    now_s, items_per_s, interval_ms, busy = point
    assert now_s == 12.0
    assert items_per_s == pytest.approx(16 / 0.020)
    assert interval_ms == pytest.approx(20)
    assert busy == pytest.approx(0.75)


def test_before_two_steps_are_done_there_is_a_gap_and_no_zero():
    first = frames_of(VirtualRun(step_ms=300, busy_ms=300, steps=10))[0].points[0]
    assert np.isnan(first[1])
    assert np.isnan(first[2])


def test_between_completions_the_interval_is_a_gap_and_throughput_goes_on():
    frames = frames_of(VirtualRun(step_ms=250, busy_ms=250, steps=12))
    intervals = [float(frame.points[0][2]) for frame in frames[10:20]]
    assert sum(np.isnan(intervals)) == 6
    assert {round(value) for value in intervals if not np.isnan(value)} == {250}
    assert all(frame.points[0][1] == pytest.approx(64) for frame in frames[10:])


def test_a_lane_whose_op_has_not_ended_yet_is_not_taken_for_idle():
    frames = frames_of(VirtualRun(step_ms=450, busy_ms=450, steps=12))
    assert all(frame.points[0][3] == pytest.approx(1.0) for frame in frames[12:])


def test_the_timeline_holds_the_last_second_relative_to_now():
    frame = frames_of(VirtualRun(step_ms=20, busy_ms=15, steps=150))[-1]
    assert frame.rows == ("compute",)
    assert frame.names == ("forward",)
    assert len(frame.slices) == 50
    row, start_s, end_s, name = frame.slices[-1]
    assert (row, name) == (0, 0)
    assert (start_s, end_s) == (pytest.approx(-0.015), pytest.approx(0.0))
    assert frame.slices[:, 1].min() >= -1.0


def test_a_toggle_is_a_mark_with_its_words_and_the_change_since():
    run = VirtualRun(step_ms=20, busy_ms=15, steps=300, toggles=((150, "prefetch", 0, 4, 16.0),))
    frames = frames_of(run)
    first = next(frame for frame in frames if frame.marks)
    assert (first.marks[0].words, first.marks[0].change) == ("prefetch 0 → 4", "…")
    assert first.marks[0].t_s == pytest.approx(13.0)
    assert frames[-1].marks[0].change.startswith("+25 %")


def test_throughput_after_a_toggle_holds_nothing_from_before_it():
    run = VirtualRun(step_ms=50, busy_ms=15, steps=200, toggles=((100, "prefetch", 0, 4, 10.0),))
    after = [frame for frame in frames_of(run) if frame.marks]
    settled = after[3].points[0]
    assert settled[1] == pytest.approx(1600)


def test_a_step_in_flight_at_the_toggle_is_counted_on_neither_side():
    run = VirtualRun(step_ms=20, busy_ms=15, steps=300, toggles=((150, "prefetch", 0, 4, 16.0),))
    pulse = Pulse(0.0, warmup=5)
    for part in run.parts():
        pulse.take(part, in_flight=7)
    before, after = pulse.segments.all
    assert before.steps == 145
    assert after.steps == 143


def test_knobs_turned_together_are_one_mark():
    run = VirtualRun(20, 15, 300, toggles=((150, "prefetch", 0, 4, 20.0), (151, "augment_on", "cpu", "gpu", 16.0)))
    assert [mark.words for mark in frames_of(run)[-1].marks] == ["prefetch 0 → 4, augment_on cpu → gpu"]


def test_a_dragged_slider_is_one_mark_from_its_first_to_its_last_value():
    toggles = tuple((150 + step, "prefetch", step, step + 1, 20.0) for step in range(8))
    assert [mark.words for mark in frames_of(VirtualRun(20, 15, 300, toggles=toggles))[-1].marks] == ["prefetch 0 → 8"]


def test_a_knob_turned_again_later_is_a_mark_of_its_own():
    run = VirtualRun(20, 15, 400, toggles=((150, "pinned", True, False, 20.0), (250, "pinned", False, True, 20.0)))
    assert [mark.words for mark in frames_of(run)[-1].marks] == ["pinned true → false", "pinned false → true"]


def test_what_a_simulated_device_knows_of_the_future_is_not_shown_yet():
    pulse = Pulse(0.0, 0)
    row = (0, KIND_OP, "forward", "compute", 0, 0, 16, 0, 0, 0, 900_000_000, 0, 0, -1, 1, ())
    pulse.take(Part(100_000_000, [row], [], (UnitSpan("compute", 0, 0, 100_000_000),), {}), 0)
    assert len(pulse.frame(100_000_000, 0, "simulated T4", True).slices) == 0
    pulse.take(Part(900_000_000, [], [], (UnitSpan("compute", 0, 0, 900_000_000),), {}), 0)
    assert len(pulse.frame(900_000_000, 0, "simulated T4", True).slices) == 1


def test_a_second_of_a_hundred_thousand_ops_stays_small():
    pulse = Pulse(0.0, 0)
    rows = [(n, KIND_OP, "tiny", "compute", 0, n, 1, 0, 0, n * 10_000, n * 10_000 + 5_000, 0, 0, -1, 1, ()) for n in range(100_000)]
    pulse.take(Part(10**9, rows, [], (UnitSpan("compute", 0, 0, 10**9),), {}), 0)
    frame = pulse.frame(10**9, 0, "", True)
    assert len(frame.slices) == 4096
    assert frame.points[0][1] == pytest.approx(100_000, rel=0.01)
    assert frame.points[0][3] == pytest.approx(0.5, rel=0.01)


def test_when_the_device_has_closed_the_picture_stays():
    run = VirtualRun(step_ms=20, busy_ms=15, steps=100)
    parts = list(run.parts())
    pulse = Pulse(0.0, 0)
    for part in parts:
        pulse.take(part, 3)
    closed = (UnitSpan("host", 0, 0, parts[-1].now_ns + 1_000_000), UnitSpan("compute", 0, 0, parts[-1].now_ns))
    pulse.take(Part(parts[-1].now_ns + 1_000_000, [], [], closed, {}), 3)
    frame = pulse.frame(parts[-1].now_ns + 1_000_000, parts[-1].now_ns, "", False)
    assert frame.rows == ("compute",)
    assert dict(frame.tiles)["busiest lane"] == "compute 75 %"
