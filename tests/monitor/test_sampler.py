"""The sampler: aggregates, bounds, its own cost, and sensors that misbehave."""

import json
import time
from threading import Event

import pytest

from labkit.errors import LabkitError
from labkit.monitor import HostSensor, Reading, Sampler

HANG_S = 20.0


class Script:
    """A sensor that gives the values of a list, the last one for ever; None is an absence, an exception is raised."""

    name = "script"

    def __init__(self, *values):
        self.values = list(values)
        self.reads = 0
        self.closed = 0
        self.exhausted = Event()

    def read(self):
        value = self.values[min(self.reads, len(self.values) - 1)]
        self.reads += 1
        if self.reads >= len(self.values):
            self.exhausted.set()
        if isinstance(value, Exception):
            raise value
        return [Reading("level", value, "m", None if value is not None else f"gap {self.reads}")]

    def close(self):
        self.closed += 1


def run_through(sensor: Script, **options) -> Sampler:
    with Sampler([sensor], period_s=0.01, **options) as sampler:
        assert sensor.exhausted.wait(HANG_S)
    return sampler


def test_the_summary_of_a_sensor():
    sensor = Script(4.0, 1.0, 7.0, 2.0)
    level = run_through(sensor).summary()["level"]
    repeated = sensor.reads - 4  # of the last value
    assert level["n"] == sensor.reads
    assert level["mean"] == pytest.approx((4.0 + 1.0 + 7.0 + 2.0 + 2.0 * repeated) / sensor.reads)
    assert (level["unit"], level["min"], level["max"], level["last"], level["reason"]) == ("m", 1.0, 7.0, 2.0, None)


def test_an_absence_counts_neither_as_a_value_nor_as_zero():
    level = run_through(Script(5.0, None, 5.0)).summary()["level"]
    assert (level["min"], level["mean"], level["last"]) == (5.0, 5.0, 5.0)
    assert level["reason"] == "gap 2"


def test_a_sensor_that_never_gave_a_value_has_no_numbers_but_a_reason():
    sensor = Script(None)
    level = run_through(sensor).summary()["level"]
    assert level == {
        "unit": "m", "n": 0, "min": None, "mean": None, "max": None, "last": None, "reason": f"gap {sensor.reads}",
    }  # fmt: skip


def test_a_sensor_that_fails_mid_run_keeps_what_it_had_and_says_so():
    level = run_through(Script(3.0, RuntimeError("lost"))).summary()["level"]
    assert (level["n"], level["mean"], level["last"]) == (1, 3.0, None)
    assert level["reason"] == "the sensor failed: RuntimeError('lost')"


def test_a_sensor_that_fails_from_the_start_is_named_and_the_others_go_on():
    bad, good = Script(ValueError("no")), Script(1.0, 1.0, 1.0)
    with Sampler([bad, good], period_s=0.01) as sampler:
        assert good.exhausted.wait(HANG_S)
    assert "ValueError('no')" in sampler.summary()["script"]["reason"]
    assert sampler.summary()["level"]["n"] >= 3


def test_a_run_shorter_than_one_period_still_gets_its_reading():
    sensor = Script(6.0)
    with Sampler([sensor], period_s=3600) as sampler:
        pass
    assert sampler.summary()["level"]["n"] == 1


def test_memory_is_bounded_and_the_newest_samples_are_kept():
    sensor = Script(*map(float, range(40)))
    sampler = run_through(sensor, keep=5)
    recent = sampler.recent("level")
    assert len(recent) == 5
    times = [time_ns for time_ns, _ in recent]
    assert times == sorted(times)
    assert recent[-1][1] == 39.0
    assert sampler.summary()["level"]["n"] == sensor.reads
    assert sampler.summary()["level"]["min"] == 0.0


def test_absent_samples_are_kept_as_gaps():
    recent = run_through(Script(1.0, None, 2.0)).recent("level")
    assert [value for _, value in recent[:3]] == [1.0, None, 2.0]


def test_the_sampler_knows_what_it_costs_itself():
    class Busy(Script):
        def read(self):
            until = time.thread_time() + 0.02
            while time.thread_time() < until:
                pass
            return super().read()

    def cost(sensor):
        return run_through(sensor).summary()["monitor_cpu_share"]["mean"]

    cheap, dear = cost(Script(*[1.0] * 10)), cost(Busy(*[1.0] * 10))
    assert 0 < cheap < dear <= 1.0
    assert dear > 0.05


def test_a_sensor_slower_than_the_period_is_not_read_without_a_pause():
    begun, ended = [], []

    class Slow(Script):
        def read(self):
            begun.append(time.perf_counter())
            time.sleep(0.03)
            ended.append(time.perf_counter())
            return super().read()

    run_through(sensor := Slow(*[1.0] * 4))
    pauses = [begun[number + 1] - ended[number] for number in range(3)]  # the last reading is `stop`'s
    assert sensor.reads >= 4
    assert min(pauses) > 0.009  # the period is 10 ms


def test_the_sensors_are_closed_once_and_stop_may_be_called_again():
    sensor = Script(1.0)
    sampler = run_through(sensor)
    sampler.stop()
    assert sensor.closed == 1


def test_a_sampler_that_was_never_started_stops_and_has_an_empty_summary():
    sampler = Sampler([Script(1.0)])
    sampler.stop()
    assert sampler.summary() == {}
    assert sampler.recent("level") == []


def test_a_sampler_runs_once():
    sampler = run_through(Script(1.0))
    with pytest.raises(LabkitError, match="make a new one"):
        sampler.start()


@pytest.mark.parametrize("options", [{"period_s": 0.0}, {"period_s": float("nan")}, {"period_s": -1}, {"keep": 0}])
def test_senseless_options_are_refused(options):
    with pytest.raises(LabkitError, match="not allowed"):
        Sampler([], **options)


def test_the_summary_is_strict_json_even_when_a_sensor_gives_nan():
    text = json.dumps(run_through(Script(float("nan"), 2.0)).summary(), allow_nan=False)
    assert json.loads(text)["level"]["mean"] == 2.0


def test_the_summary_may_be_read_while_the_run_goes_on():
    sensor = Script(*[1.0] * 20)
    with Sampler([sensor], period_s=0.01) as sampler:
        while not sensor.exhausted.is_set():
            assert sampler.summary().get("level", {"mean": 1.0})["mean"] == 1.0


def test_the_real_host_sensor_gives_every_field_within_its_bounds():
    with Sampler([HostSensor()], period_s=0.1) as sampler:
        time.sleep(0.35)
    summary = sampler.summary()
    assert summary["process_cpu_share"]["n"] >= 1
    assert 0.0 <= summary["machine_cpu_share"]["mean"] <= 1.0
    assert summary["process_rss_bytes"]["last"] > 1e6
    assert summary["memory_available_bytes"]["min"] > 0


def test_the_latest_reading_of_each_sensor_is_there_while_it_runs_and_afterwards():
    sensor = Script(4.0, 1.0, 7.0)
    with Sampler([sensor], period_s=0.01) as sampler:
        assert sensor.exhausted.wait(HANG_S)
        deadline = time.monotonic() + HANG_S
        while sampler.latest().get("level") != Reading("level", 7.0, "m"):
            assert time.monotonic() < deadline
            time.sleep(0.001)
    assert sampler.latest()["level"] == Reading("level", 7.0, "m")
    assert set(sampler.latest()) == {"level", "monitor_cpu_share"}


def test_the_latest_reading_is_an_absence_with_its_reason_and_forgets_one_that_is_over():
    lost = run_through(Script(5.0, None, None))
    assert lost.latest()["level"].value is None
    assert lost.latest()["level"].reason.startswith("gap ")
    back = run_through(Script(None, 5.0))
    assert back.latest()["level"] == Reading("level", 5.0, "m")


def test_before_the_first_reading_nothing_is_the_latest():
    sampler = Sampler([Script(1.0)], period_s=3600)
    assert sampler.latest() == {}
    sampler.start().stop()
    assert sampler.latest()["level"].value == 1.0
