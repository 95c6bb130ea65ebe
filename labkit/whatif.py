"""Answers to "what if": a run's trace replayed with a change, a knob turned on the simulated device, and what was measured of it.

The command line, the notebook's sliders and the figure on one axis show one and the same answer.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from labkit import lab
from labkit.errors import ExperimentError, RunFailed, TraceError
from labkit.metrics.unit_slices import HOST
from labkit.metrics.whatif import PER_RUN, Change, Replays
from labkit.result import Compared, Run
from labkit.runner.imported import STEPS_PER_S, origin
from labkit.runner.workers import Workers
from labkit.units import NS_PER_S, format_time, significant

ROUNDS = 5
STEPS, SERVED_STEPS = 200, 2000
"""Steps that a prediction simulates: of a server more, since a tail takes many requests."""


@dataclass(frozen=True)
class Answer:
    """What a change would do to a run.

    id              of the run
    change, how     in words: what is different, and how the answer was come by
    unit            of the rates
    measured        what the run had: a measurement, or where `simulated` is true a prediction itself
    as_it_was       what the same model says of the run without the change: its own error shows there
    predicted       what it says with the change
    bound           what the busiest lane would allow with the change if everything overlapped; None where nothing ran but the host
    busiest         the lane that would be the busiest, and its busy share
    measured_ratio, low, high  the change, measured in turns: ratio and interval; None where it was not measured
    sentence        of that comparison
    failed          it was to be measured, and could not be
    weak            why that measurement is weak, if it is
    p99_ns          of a run that serves requests, their latency: what it had, what the model says of it, what it says with the change; else None
    """

    id: str
    change: str
    how: str
    unit: str
    measured: float
    as_it_was: float
    predicted: float
    bound: float | None
    busiest: tuple[str, float] | None = None
    measured_ratio: float | None = None
    low: float | None = None
    high: float | None = None
    sentence: str = ""
    failed: bool = False
    weak: tuple[str, ...] = ()
    simulated: bool = False
    p99_ns: tuple[float | None, float | None, float | None] | None = None

    @property
    def source(self) -> str:
        """What the run itself is: `measured` or `simulated`."""
        return "simulated" if self.simulated else "measured"

    @property
    def ratio(self) -> float:
        """With the change ÷ without it, as predicted."""
        return self.predicted / self.as_it_was

    @property
    def residual_words(self) -> str:
        """`+13.0 %, inside the interval of the measurement`; "" where it was not measured."""
        if self.residual is None or self.low is None or self.high is None:
            return ""
        return f"{100 * self.residual:+.1f} %" + (", inside the interval of the measurement" if self.low <= self.ratio <= self.high else "")

    def said(self, rate: float) -> str:
        """One of the rates with its unit; where the whole run is the item, how long that takes."""
        return format_time(NS_PER_S / rate) if self.unit == PER_RUN else f"{significant(rate)} {self.unit}"

    @property
    def error_as_it_was(self) -> float:
        """The model of the run as it was ÷ the run, − 1."""
        return self.as_it_was / self.measured - 1

    @property
    def residual(self) -> float | None:
        """Predicted ÷ measured ratio, − 1; None where it was not measured."""
        return None if self.measured_ratio is None else self.ratio / self.measured_ratio - 1

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain = asdict(self)
        rates = {f"{name}_per_s": plain.pop(name) for name in ("measured", "as_it_was", "predicted", "bound")}
        more = {"predicted_ratio": self.ratio, "error_as_it_was": self.error_as_it_was, "residual": self.residual}
        return plain | rates | more


def replays_of(run: Run) -> Replays:
    """A run, ready to be asked. Raises RunFailed where it has no trace, TraceError where that cannot be replayed."""
    if run.trace is None:
        raise RunFailed(f"run {run.record.id} has no trace to replay")
    return Replays(run.trace, run.record.warmup)


def by_replay(run: Run, change: Change, replays: Replays | None = None) -> Answer:
    """A stage faster, a lane wider: the trace replayed. Raises RunFailed, TraceError; ExperimentError for a change that cannot be."""
    replays = replays or replays_of(run)
    try:
        told = replays.ask(change)
    except TraceError as error:  # what was asked for, not the trace, which could be replayed
        raise ExperimentError(str(error)) from error
    return Answer(
        id=run.record.id, change=change.words, how="its trace, replayed", unit=_unit(run, replays), measured=replays.measured_items_per_s,
        as_it_was=replays.baseline_items_per_s, predicted=told.items_per_s, bound=_bound(told.items_per_s, told.busiest),
        busiest=told.busiest, simulated=not run.record.measured,
    )  # fmt: skip


def by_knobs(run: Run, changed: Mapping[str, Any]) -> Answer:
    """Other knobs: the kernel run anew on the simulated device, from the run's op times. Raises ExperimentError where the run has no knobs
    or is a prediction itself, KnobError, RunFailed."""
    record = run.record
    if record.experiment == "imported":
        raise ExperimentError(f"run {record.id} is an imported trace: it has no knobs; ask for a stage or a lane instead")
    if not record.measured:
        raise ExperimentError(f"run {record.id} is a prediction: its op times cannot predict other settings")
    steps = SERVED_STEPS if _p99(run) is not None else STEPS
    now = lab.predict(record.experiment, on="this", costs=run, steps=steps, **record.knobs).checked()
    then = lab.predict(record.experiment, on="this", costs=run, steps=steps, **{**record.knobs, **changed}).checked()
    predicted = _rate(then)
    busy = {lane: metric.value for lane, metric in then.shown("B").summary.utilization.items() if lane != HOST and metric.value}
    busiest = max(busy.items(), key=lambda pair: pair[1], default=None)
    return Answer(
        id=record.id, change=", ".join(f"{name}={value}" for name, value in changed.items()),
        how="the simulated device, from the run's op times", unit="items/s", measured=_rate(run), as_it_was=_rate(now),
        predicted=predicted, bound=_bound(predicted, busiest), busiest=busiest,
        p99_ns=None if _p99(run) is None else (_p99(run), _p99(now), _p99(then)),
    )  # fmt: skip


def measured(run: Run, changed: Mapping[str, Any], answer: Answer, pool: Workers | None = None) -> Answer:
    """The answer with what was measured of it: the run's setting and the changed one in turns. Raises KnobError, ExperimentError."""
    record = run.record
    both = lab.compare(
        record.experiment, a=record.knobs, b={**record.knobs, **changed}, device=record.device, rounds=ROUNDS, pool=pool
    )
    return with_measurement(answer, both)


def with_measurement(answer: Answer, both: Compared) -> Answer:
    """The answer with what a comparison says of the same change."""
    ratio = both.comparison.ratios.get("throughput")
    if ratio is None or ratio.value is None or ratio.low is None or ratio.high is None:
        return replace(answer, failed=True, sentence=both.comparison.sentence)
    verdicts = [side.record.verdict for side in (both.a, both.b)]
    weak = tuple(dict.fromkeys(reason for verdict in verdicts if verdict.grade in ("WEAK", "INVALID") for reason in verdict.reasons))
    return replace(answer, measured_ratio=ratio.value, low=ratio.low, high=ratio.high, sentence=both.comparison.sentence, weak=weak)


def _unit(run: Run, replays: Replays) -> str:
    """What is counted: items, the steps of an imported trace, or whole runs where there are no two of either."""
    return STEPS_PER_S if replays.unit != PER_RUN and origin(run.record) is not None else replays.unit


def _rate(run: Run) -> float:
    value = run.summary.throughput.value if run.summary is not None else None
    if not value:
        raise RunFailed(f"run {run.record.id} has no throughput")
    return value


def _p99(run: Run) -> float | None:
    """The latency of a server's requests at its 99th percentile; None where it has none, or too few."""
    requests = run.summary.requests if run.summary is not None else None
    return requests.latency["p99"].value if requests is not None else None


def _bound(items_per_s: float, busiest: tuple[str, float] | None) -> float | None:
    """What the busiest lane would allow, if everything overlapped and it were busy all the time."""
    return None if busiest is None else items_per_s / busiest[1]
