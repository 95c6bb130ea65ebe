"""The sampler: a thread that reads sensors every so often while a run lasts, in bounded memory, and knows its own cost.

Of each sensor it keeps running aggregates of the whole run, and the most recent samples with their times.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread
from time import perf_counter_ns, thread_time_ns
from typing import Any

from labkit.errors import LabkitError
from labkit.monitor.sensors import Reading, Sensor, open_sensors
from labkit.units import seconds_to_ns

OWN_COST = "monitor_cpu_share"
COUNTER_UNIT = "J"
"""Of what counts from the start, such as energy, the samples themselves are needed to tell what fell into a part of the run."""
STOP_S = 5.0
"""How long `stop` waits for a sensor that hangs."""


@dataclass(slots=True)
class _Series:
    """What is kept of one sensor. `n` counts values, not readings that were absent."""

    unit: str
    recent: deque[tuple[int, float | None]]
    n: int = 0
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    last: float | None = None
    reason: str | None = None

    def take(self, time_ns: int, reading: Reading) -> None:
        value = self.last = reading.value
        self.recent.append((time_ns, value))
        if value is None:
            self.reason = reading.reason or "the sensor gave no value and no reason"
            return
        self.n += 1
        self.total += value
        self.low, self.high = min(self.low, value), max(self.high, value)

    def latest(self, name: str) -> Reading:
        return Reading(name, self.last, self.unit, self.reason if self.last is None else None)

    def as_dict(self) -> dict[str, Any]:
        known = self.n > 0
        samples = {"samples": [list(sample) for sample in self.recent]} if known and self.unit == COUNTER_UNIT else {}
        return samples | {
            "unit": self.unit,
            "n": self.n,
            "min": self.low if known else None,
            "mean": self.total / self.n if known else None,
            "max": self.high if known else None,
            "last": self.last,
            "reason": self.reason,
        }


class Sampler:
    """Reads `sensors` every `period_s` in a thread of its own, and once more when it is stopped.

    keep  samples kept of each sensor at most, the most recent ones
    Use it with `with`, or call `start` and `stop`; the sensors are closed at the end.
    """

    def __init__(self, sensors: Sequence[Sensor], period_s: float = 0.5, keep: int = 1200):
        if not 0.01 <= period_s <= 3600:
            raise LabkitError(f"a sampling period of {period_s} s is not allowed: 0.01 to 3600 s are")
        if keep < 1:
            raise LabkitError(f"keep={keep} samples is not allowed: at least 1")
        self.period_s = period_s
        self._sensors = list(sensors)
        self._keep = keep
        self._series: dict[str, _Series] = {}
        self._before: dict[int, list[Reading]] = {}
        self._lock = Lock()
        self._ended = Event()
        self._thread: Thread | None = None
        self._cost_begin = self._cost_since = (0, 0)

    def start(self) -> "Sampler":
        """Begin to sample; the first reading comes after one period. A sampler runs once."""
        if self._thread is not None:
            raise LabkitError("this sampler has been started before: make a new one")
        self._thread = Thread(target=self._run, name="labkit-monitor", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Take a last reading and end. May be called again, and before `start`."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def __enter__(self) -> "Sampler":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def summary(self) -> dict[str, dict[str, Any]]:
        """For each sensor: unit, n, min, mean, max, last and the reason of the latest absence. Ready for strict JSON.

        A counter of joules has its most recent `samples`, too: [`time.perf_counter_ns`, value or None], oldest first.

        `monitor_cpu_share` is what sampling itself costs: CPU time of its thread ÷ wall time, of one core. Its mean is
        over the whole run, however unequal the periods were.
        """
        with self._lock:
            summary = {name: series.as_dict() for name, series in self._series.items()}
            if OWN_COST in summary:
                summary[OWN_COST]["mean"] = _share(self._cost_begin, self._cost_since)
        return summary

    def latest(self) -> dict[str, Reading]:
        """The last reading of each sensor by its name; {} before the first. Any thread may ask, also after the end."""
        with self._lock:
            return {name: series.latest(name) for name, series in self._series.items()}

    def recent(self, name: str) -> list[tuple[int, float | None]]:
        """The most recent samples of one sensor: (`time.perf_counter_ns`, value or None), oldest first."""
        with self._lock:
            series = self._series.get(name)
            return list(series.recent) if series else []

    def _run(self) -> None:
        self._cost_begin = self._cost_since = (perf_counter_ns(), thread_time_ns())
        period_ns = seconds_to_ns(self.period_s)
        due_ns = perf_counter_ns() + period_ns
        while not self._ended.wait(max(due_ns - perf_counter_ns(), 0) / 1e9):
            self._sample()
            due_ns += period_ns
            if due_ns < perf_counter_ns():  # a slow sensor: rest for a period, rather than read without a pause
                due_ns = perf_counter_ns() + period_ns
        self._sample()
        for sensor in self._sensors:
            sensor.close()

    def _sample(self) -> None:
        readings = [reading for number in range(len(self._sensors)) for reading in self._read(number)]
        readings.append(self._own_cost())
        now_ns = perf_counter_ns()
        with self._lock:
            for reading in readings:
                series = self._series.get(reading.name)
                if series is None:
                    series = self._series[reading.name] = _Series(reading.unit, deque(maxlen=self._keep))
                series.take(now_ns, reading)

    def _read(self, number: int) -> list[Reading]:
        """The readings of one sensor. If it raises, everything that it gave before is absent now."""
        sensor = self._sensors[number]
        try:
            readings = self._before[number] = sensor.read()
            return readings
        except Exception as error:  # whatever a sensor does, the run goes on and the record says so
            reason = f"the sensor failed: {error!r}"
            before = self._before.get(number) or [Reading(sensor.name, None, "")]
            return [Reading(reading.name, None, reading.unit, reason) for reading in before]

    def _own_cost(self) -> Reading:
        """The share of one core that this thread took since the last reading."""
        before, self._cost_since = self._cost_since, (perf_counter_ns(), thread_time_ns())
        return Reading(OWN_COST, _share(before, self._cost_since), "share of one core")


def start_monitor(device: str, period_s: float = 0.5) -> Sampler:
    """Watch a run on `device` ("cpu", "cuda:0") from now on: this process and its children, the machine, and the GPU."""
    return Sampler(open_sensors(device), period_s).start()


def _share(before: tuple[int, int], after: tuple[int, int]) -> float:
    """CPU time ÷ wall time between two (wall, CPU) times."""
    return (after[1] - before[1]) / max(after[0] - before[0], 1)
