"""What goes on around a run makes it weak beyond a stated limit, and not at the limit; what nobody knows speaks neither way."""

from dataclasses import replace

import pytest

from labkit.metrics import judge, summarize
from labkit.metrics.circumstances import UNKNOWN, Circumstances
from labkit.metrics.verdict import Verdict
from tests.metrics.recorded import completing, recorded, row

STEADY = completing(list(range(100, 4100, 100)))


def sensed(value: float | None, most: float | None = None) -> dict[str, object]:
    """The summary of one sensor."""
    return {"unit": "share", "n": 3, "min": value, "mean": value, "max": value if most is None else most, "last": value, "reason": None}


def judged(around: Circumstances, measured: bool = True) -> Verdict:
    return judge(summarize(STEADY, warmup_steps=5), STEADY, warmup_steps=5, measured=measured, circumstances=around)


@pytest.mark.parametrize(
    ("beyond", "within", "reason"),
    [
        (
            Circumstances(others=0.35), Circumstances(others=0.2),
            "the machine was shared: other processes kept 35 % of the cores busy meanwhile; up to 20 % is let pass",
        ),
        (
            Circumstances(stolen=0.3), Circumstances(stolen=0.2),
            "the machine was shared: other guests of this virtual machine's host kept 30 % of the cores busy meanwhile; up to 20 % is let pass",
        ),
        (
            Circumstances(quota_held=0.4), Circumstances(quota_held=0.05),
            "the CPU quota held the run back in 40 % of its periods; up to 5.0 % is let pass",
        ),
        (
            Circumstances(clock=0.45, busy_cores=1.0), Circumstances(clock=0.6, busy_cores=1.0),
            "throttled clocks: the fastest core ran at 45 % of its highest clock; 60 % is wanted",
        ),
        (
            Circumstances(gpu_held={"heat": 0.34}), Circumstances(gpu_held={"heat": 0.05}),
            "throttled clocks: heat held the GPU's clocks down for 34 % of the time; up to 5.0 % is let pass",
        ),
        (Circumstances(gpu_others=1), Circumstances(gpu_others=0), "the GPU was shared: 1 other process computed on it; none is let pass"),
        (Circumstances(gpu_others=3), Circumstances(gpu_others=None), "the GPU was shared: 3 other processes computed on it; none is let pass"),
    ],
)  # fmt: skip
def test_beyond_its_limit_it_makes_the_run_weak_and_at_the_limit_it_does_not(beyond: Circumstances, within: Circumstances, reason: str):
    assert judged(within) == Verdict("VALID", ())
    assert judged(beyond) == Verdict("WEAK", (reason,))


@pytest.mark.parametrize(("cores", "weak"), [(1, True), (2, False), (None, False)])
def test_more_workers_than_cores_make_it_weak(cores: int | None, weak: bool):
    rows = [row(step, "load", "workers", 100 * step, 100 * step + 100, unit=step % 2, step=step, items=1) for step in range(40)]
    trace = recorded(*rows, until_ns=4000)
    verdict = judge(summarize(trace, warmup_steps=5), trace, warmup_steps=5, circumstances=Circumstances(cores=cores))
    assert verdict.reasons == (("more threads than cores: 2 workers on 1 core; they slow each other down",) if weak else ())


def test_a_device_that_has_said_so_itself_is_not_repeated():
    warning = "more busy threads than cores: 2 workers + 1 compute on 1 cores; they slow each other down"
    rows = [row(step, "load", "workers", 100 * step, 100 * step + 100, unit=step % 2, step=step, items=1) for step in range(40)]
    trace = replace(recorded(*rows, until_ns=4000), meta={"warnings": [warning]})
    verdict = judge(summarize(trace, warmup_steps=5), trace, warmup_steps=5, circumstances=Circumstances(cores=1))
    assert verdict.reasons == (warning,)


def test_what_is_not_known_speaks_neither_way():
    assert UNKNOWN.doubts() == UNKNOWN.facts() == ()
    assert Circumstances.of_monitor({}) == UNKNOWN
    assert Circumstances.of_monitor({"others_cpu_share": sensed(None), "gpu": "no summary"}) == UNKNOWN


def test_a_prediction_does_not_suffer_from_what_goes_on_around_it():
    assert judged(Circumstances(others=1.0, gpu_others=4), measured=False).grade == "PREDICTED"
    assert len(judged(Circumstances(others=1.0), measured=False).reasons) == 1


def test_slow_clocks_of_an_idle_processor_are_no_throttling():
    assert judged(Circumstances(clock=0.2, busy_cores=0.4)) == Verdict("VALID", ())
    assert judged(Circumstances(clock=0.2)) == Verdict("VALID", ())


def test_little_that_others_did_is_told_as_a_fact_and_much_is_not():
    assert "other processes kept 3.0 % of the cores busy; up to 20 % is let pass" in judged(Circumstances(others=0.03)).facts
    assert not any("other processes" in fact for fact in judged(Circumstances(others=0.5)).facts)


def test_they_are_read_from_the_sensors_summaries():
    monitor = {
        "others_cpu_share": sensed(0.1), "stolen_cpu_share": sensed(0.02), "quota_held_share": sensed(0.3), "cpu_clock_share": sensed(0.9),
        "process_cpu_share": sensed(0.5), "usable_cores": sensed(4.0), "gpu_other_processes": sensed(0.3, most=1.0),
    }  # fmt: skip
    assert Circumstances.of_monitor(monitor) == Circumstances(0.1, 0.02, 0.3, 0.9, 2.0, 4, {}, 1)


def test_what_held_the_gpu_s_clocks_down_is_told_apart():
    names = ("heat", "power", "power_brake", "hardware")
    monitor = {f"gpu_throttled_by_{name}": sensed(share) for name, share in zip(names, (0.0, 0.75, 0.25, 0.25), strict=True)}
    held = Circumstances.of_monitor(monitor).gpu_held
    assert held == {"heat": 0.0, "the power brake of its supply": 0.25, "a hardware slowdown": 0.25, "its power cap": 0.5}
    assert [reason.partition(" held")[0] for reason in judged(Circumstances(gpu_held=held)).reasons] == [
        "throttled clocks: the power brake of its supply", "throttled clocks: a hardware slowdown", "throttled clocks: its power cap",
    ]  # fmt: skip


def test_a_record_from_before_the_power_brake_was_read_apart_counts_all_as_the_cap():
    assert Circumstances.of_monitor({"gpu_throttled_by_power": sensed(0.5)}).gpu_held == {"its power cap": 0.5}
