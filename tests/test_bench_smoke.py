"""The benchmarks' own tools: turns, the interval of a ratio, the JSON line, schedules. No peer is needed."""

import json
import sys
from dataclasses import replace

import pytest

from labkit.metrics.replay import compile_replay, replay
from tests.bench.__main__ import MODULES, main
from tests.bench.contender import Contender
from tests.bench.light import LightKnobs, light_run
from tests.bench.live_panel import Message, Paint, Seen
from tests.bench.measure import BenchError, Line, append_line, in_turns, median_interval, ratio_of
from tests.bench.replay import differences, simulated_differences
from tests.bench.schedules import (
    LAUNCH_NS,
    SUBMIT_NS,
    Schedule,
    Submit,
    Wait,
    events_of,
    random_schedule,
    simulate,
    written_down,
)
from tests.bench.startup import heavy_modules
from tests.bench.toggle import Delay, age_ms, delays, echoes_ms, unpainted

LINE = Line("overlap", 700.0, 350.0, "images/s", 2.0, 1.9, 2.1, 1.01, 5, True, "at least 1.5", {"busiest": ["compute"]})


def test_the_line_of_a_benchmark_is_one_line_of_strict_json_with_every_field(tmp_path):
    append_line(LINE, tmp_path / "bench.jsonl")
    append_line(replace(LINE, passed=None, details={}), tmp_path / "bench.jsonl")
    first, second = map(json.loads, (tmp_path / "bench.jsonl").read_text().splitlines())
    fields = ["name", "ours", "peer", "unit", "ratio", "low", "high", "aa_ratio", "rounds", "pass", "bound", "machine", "date"]
    assert list(first) == [*fields, "details"] and list(second) == fields
    assert (first["name"], first["ratio"], first["low"], first["high"]) == ("overlap", 2.0, 1.9, 2.1)
    assert first["pass"] is True and second["pass"] is None


def test_a_line_that_is_not_a_number_is_refused(tmp_path):
    with pytest.raises(ValueError):
        append_line(replace(LINE, ratio=float("nan")), tmp_path / "bench.jsonl")


def test_every_contender_goes_first_in_turn_and_warms_up_uncounted():
    turns = []
    numbers = in_turns({name: lambda name=name: turns.append(name) or len(turns) for name in "abc"}, rounds=3)
    assert "".join(turns) == "abc" + "abc" + "bca" + "cab"
    assert numbers == {"a": [4, 9, 11], "b": [5, 7, 12], "c": [6, 8, 10]}


def test_drift_that_a_round_shares_leaves_the_ratio_alone():
    ratio = ratio_of([20.0, 10.0, 40.0], [10.0, 5.0, 20.0])
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(("n", "low", "high"), [(1, 1, 1), (5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (11, 2, 10), (15, 4, 12)])
def test_the_interval_of_a_median_is_the_narrowest_pair_of_order_statistics_with_95_percent(n, low, high):
    assert median_interval([float(value) for value in range(n, 0, -1)]) == (low, high)


def test_a_schedule_runs_as_worked_out_by_hand():
    """One worker lane, an op of 100 ns and one of 50 ns after it; the host waits for the second."""
    first, second = (Submit("workers", SUBMIT_NS, 7, ns, deps) for ns, deps in ((100, ()), (50, (0,))))
    trace, found = simulate(Schedule({}, 20, 7, (first, second, Wait((1,)))))
    one, two, wait = events_of(trace)
    assert one == (0, SUBMIT_NS, SUBMIT_NS + 7, SUBMIT_NS + 107)
    assert two == (SUBMIT_NS, 2 * SUBMIT_NS, 2 * SUBMIT_NS + 7, 2 * SUBMIT_NS + 57)
    assert wait == (2 * SUBMIT_NS, 2 * SUBMIT_NS + 77, 2 * SUBMIT_NS, 2 * SUBMIT_NS + 77)
    assert found == [(1,)]


def test_a_stream_lane_costs_the_host_a_launch_as_well():
    trace, _ = simulate(Schedule({}, 0, 0, (Submit("compute1", SUBMIT_NS + LAUNCH_NS, 0, 10, ()),)))
    assert events_of(trace) == [(0, 1250, 1250, 1260)]


def test_a_hundred_random_schedules_replay_to_the_same_instants():
    assert [seed for seed in range(100) if differences(simulate(random_schedule(seed))[0])] == []


def test_random_schedules_hold_every_kind_of_verb():
    verbs = [verb for seed in range(20) for verb in random_schedule(seed).verbs]
    submits, waits = ([verb for verb in verbs if type(verb) is kind] for kind in (Submit, Wait))
    assert {verb.lane for verb in submits} == {"host", "workers", "h2d", "compute", "compute1", "d2h", "disk"}
    assert any(verb.blocking for verb in submits) and any(len(verb.deps) == 3 for verb in submits)
    assert any(len(verb.ops) > 1 for verb in waits) and any(verb.at_most_ns is not None for verb in waits)


def test_a_kernel_that_was_written_down_does_the_same_again():
    schedule, trace = written_down(lambda device: light_run(device, 30), {"workers": 2}, wake_ns=5_000, dispatch_ns=3_000)
    again, _ = simulate(schedule)
    assert schedule.op_count == 30 * 7 and events_of(again) == events_of(trace)


@pytest.mark.parametrize("knobs", [LightKnobs(prefetch=0, log_sync=True), LightKnobs(prefetch=0, inline=True), LightKnobs()])
def test_a_simulated_run_replays_exactly(knobs):
    assert simulated_differences(knobs, steps=50) == 0


def test_a_difference_would_be_seen():
    """The same check finds that a trace whose decoding took one nanosecond less is another trace."""
    _, trace = written_down(lambda device: light_run(device, 30), {}, wake_ns=0, dispatch_ns=0)
    shorter = replay(compile_replay(trace), scale={"decode": 1 - 1e-7})
    assert shorter.makespan_ns != trace.makespan_ns


def test_import_labkit_loads_no_heavy_library_and_the_check_would_notice():
    assert heavy_modules("import labkit") == []
    assert heavy_modules("import scipy") == ["scipy"]


def test_a_contender_that_dies_says_why():
    with pytest.raises(BenchError, match="no_such_module"):
        Contender(sys.executable, "tests.bench.no_such_module")


def test_an_unknown_benchmark_is_refused_with_those_there_are(capsys):
    assert main(["overlapp"]) == 2
    assert "overlap, prediction-cpu, compare-aa" in capsys.readouterr().err


def test_each_benchmark_names_itself():
    from importlib import import_module

    assert {import_module(f"tests.bench.{module}").NAME: module for module in MODULES.values()} == MODULES


def seen_of_a_toggle(*, marks: bool = True) -> Seen:
    """Ten frames, 100 ms apart and painted 20 ms after their time; the fourth is the first that shows a mark, of 0.35 s."""
    times_s = [0.1 * number for number in range(1, 11)]
    paints = tuple(Paint(5_000 + 1_000 * now_s + 20, now_s) for now_s in times_s)
    frames = tuple(
        Message(5_000 + 1_000 * now_s + 15, "strip", 0, number, now_s, 0.35 if marks and number >= 4 else None)
        for number, now_s in enumerate(times_s, start=1)
    )
    return Seen(paints, frames)


def test_a_change_is_painted_when_a_step_that_it_changed_can_be_among_the_points():
    """Clicked at 0.34 s, marked at 0.35 s, painted at 0.42 s; steps of the new knobs have come through at 0.43 s, painted at 0.52 s."""
    (delay,) = delays(seen_of_a_toggle(), [5_340.0], lead_s=0.08)
    assert delay == Delay(pytest.approx(80), pytest.approx(180))
    assert delays(seen_of_a_toggle(), [5_340.0], lead_s=0.04)[0].change_ms == pytest.approx(80)


def test_a_toggle_that_is_never_painted_is_no_result():
    with pytest.raises(BenchError, match=r"never showed the toggle at 5\.3 s"):
        delays(seen_of_a_toggle(marks=False), [5_340.0], lead_s=0.08)


def test_the_echo_of_a_command_is_the_first_update_of_values_that_has_heard_of_it():
    told = [(0, "command", 7), (5, "update of values", 6), (9, "update of values", 8), (10, "command", 9), (30, "update of values", 9)]
    assert echoes_ms([Message(at_ms, kind, 0, number) for at_ms, kind, number in told]) == [9, 20]


def test_what_a_page_saw_gives_updates_a_second_age_and_what_waits():
    seen = seen_of_a_toggle()
    assert (seen.updates_per_s, age_ms(seen)) == (pytest.approx(10), pytest.approx(5_020))
    assert unpainted(seen) == 0 and unpainted(Seen(seen.paints[:-2], seen.messages)) == 2
