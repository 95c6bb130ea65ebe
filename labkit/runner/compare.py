"""Comparison of two settings: rounds in turns (A B, B A, …), the ratio of each round, and an interval over the rounds.

Two runs one after the other compare the machine's moods; rounds in turns compare the settings. Drift that both sides of
a round share cancels in that round's ratio.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from time import monotonic
from typing import Any

from labkit.metrics.circumstances import Circumstances
from labkit.metrics.compare import Ratio, ratio_interval, sentence
from labkit.metrics.gate import metrics_of
from labkit.metrics.metric import Metric
from labkit.metrics.pool import pool
from labkit.metrics.sequential import CONFIDENCE, MOST_ROUNDS, Precision, is_narrow, narrow_enough
from labkit.metrics.summary import Summary, summarize
from labkit.metrics.throughput import throughput
from labkit.metrics.verdict import WORST_FIRST, Verdict, judge
from labkit.metrics.window import steady_window
from labkit.runner.asked import give_up_if_asked
from labkit.runner.job import Frame, Job, Outcome
from labkit.runner.measure import energy_of, record_of
from labkit.runner.record import RunRecord
from labkit.runner.workers import Workers
from labkit.trace import Trace

MIN_ROUNDS = 3
LABELS = "ABCDEFGH"


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its job, and how each round of it ended."""

    label: str
    job: Job
    outcomes: tuple[Outcome, ...]

    @cached_property
    def succeeded(self) -> tuple[Outcome, ...]:
        """The outcomes of the rounds that succeeded and left a trace."""
        return tuple(out for out in self.outcomes if out.status == "ok" and out.trace is not None)

    @cached_property
    def traces(self) -> tuple[Trace, ...]:
        """The traces of the rounds that succeeded."""
        return tuple(out.trace for out in self.succeeded if out.trace is not None)

    @cached_property
    def rounds(self) -> tuple[Summary, ...]:
        """The summary of each successful round."""
        return tuple(summarize(trace, warmup_steps=self.job.budget.warmup) for trace in self.traces)

    @property
    def typical_trace(self) -> Trace | None:
        """The trace of the round with the median throughput: what a figure of this side shows."""
        pairs = [(summary.throughput.value or 0.0, at) for at, summary in enumerate(self.rounds)]
        return self.traces[sorted(pairs)[len(pairs) // 2][1]] if pairs else None

    @property
    def failed(self) -> Outcome | None:
        """The first round that did not succeed."""
        return next((outcome for outcome in self.outcomes if outcome.status != "ok"), None)

    def record(self, run_id: str, started: datetime, notes: tuple[str, ...]) -> RunRecord:
        """The record of this side: metrics pooled over its rounds, the first failure where there was one."""
        outcome = self.failed or self.outcomes[-1]
        record = record_of(self.job, outcome, run_id=run_id, started=started, notes=notes)
        wall_s = round(sum(out.wall_s for out in self.outcomes), 3)
        if self.failed is not None or not self.traces:
            return replace(record, wall_s=wall_s)
        pooled = pool(self.traces, warmup_steps=self.job.budget.warmup)
        verdict = self._verdict(record.measured)
        energy = energy_of(self.job, pooled, self.succeeded)
        return replace(record, wall_s=wall_s, metrics=pooled.as_dict(), verdict=verdict, energy=energy)

    @property
    def invalid(self) -> str | None:
        """What makes this side no result; None where it is one."""
        verdict = self._verdict(measured=True) if self.traces else None
        return verdict.reasons[0] if verdict is not None and verdict.grade == "INVALID" else None

    def _verdict(self, measured: bool) -> Verdict:
        """The worst round's grade, with what speaks against any of them, the worst first."""
        warmup = self.job.budget.warmup
        rounds = [
            judge(summary, trace, measured=measured, warmup_steps=warmup, circumstances=Circumstances.of_monitor(outcome.monitor))
            for summary, trace, outcome in zip(self.rounds, self.traces, self.succeeded, strict=True)
        ]
        worst = min((verdict.grade for verdict in rounds), key=WORST_FIRST.index)
        rounds.sort(key=lambda verdict: WORST_FIRST.index(verdict.grade))
        told = f"{_counted(len(rounds))} in turns with the other side, percentiles over all of them"
        return Verdict(worst, (*_of_rounds([each.reasons for each in rounds]), told), tuple(_of_rounds([each.facts for each in rounds])))


@dataclass(frozen=True)
class Comparison:
    """How B compares with A: for each metric the ratio B ÷ A over the rounds, and the headline in words.

    ratios  by the name that tables and rules give a metric; one without an interval says why
    weak    why the answer must not be relied on alone; None where nothing speaks against it
    """

    ratios: dict[str, Ratio]
    sentence: str
    rounds: int
    weak: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        ratios = {name: asdict(ratio) for name, ratio in self.ratios.items()}
        return {"ratios": ratios, "sentence": self.sentence, "rounds": self.rounds, "weak": self.weak}


def interleave(
    jobs: Sequence[Job],
    rounds: int,
    workers: Workers,
    on_frame: Callable[[int, str, Frame], None] | None = None,
    enough: Callable[[list[list[Outcome]]], bool] = lambda outcomes: False,
) -> list[list[Outcome]]:
    """Run each job once a round, in turns that alternate their order; the outcomes by job. Ends at the first failure.

    on_frame  told (round, side, frame); the sides are called A, B, ...
    enough    asked after each round; true ends it before all `rounds` are made
    """
    outcomes: list[list[Outcome]] = [[] for _ in jobs]
    for index in range(rounds):
        order = range(len(jobs)) if index % 2 == 0 else reversed(range(len(jobs)))
        for place in order:
            give_up_if_asked()
            outcome = workers.run(jobs[place], _tell(on_frame, index, LABELS[place]))
            outcomes[place].append(outcome)
            if outcome.status != "ok":
                not_run = Outcome("cancelled", f"not run: side {LABELS[place]} {outcome.status}", None, 0.0)
                return [done or [not_run] for done in outcomes]
        if enough(outcomes):
            break
    return outcomes


def until_narrow(jobs: Sequence[Job], precision: Precision, clock: Callable[[], float] = monotonic) -> Callable[[list[list[Outcome]]], bool]:
    """For `interleave`: whether the interval of B ÷ A is narrow enough, or the time is spent that was given from now on."""
    until_s = clock() + precision.budget_s
    rates: list[list[float]] = [[], []]

    def enough(outcomes: list[list[Outcome]]) -> bool:
        for known, job, made in zip(rates, jobs, outcomes, strict=False):
            known.append(_rate(made[-1], job))
        return clock() >= until_s or narrow_enough(*rates, precision)

    return enough


def _rate(outcome: Outcome, job: Job) -> float:
    """Items per second of one round; 0, which no ratio takes, where there is none."""
    if outcome.trace is None:
        return 0.0
    return throughput(outcome.trace, steady_window(outcome.trace, job.budget.warmup)).value or 0.0


def compare_sides(a: Side, b: Side, precision: Precision | None = None) -> Comparison:
    """The ratio B ÷ A of every metric, round by round; the headline is the throughput's.

    precision  what the rounds went on for; None where their number was given
    """
    ratios = _ratios(a, b, 0.95 if precision is None else CONFIDENCE)
    rounds = min(len(a.rounds), len(b.rounds))
    if (refusal := _refusal(a, b, ratios, precision)) is not None:
        return Comparison(ratios, f"no comparison: {refusal}", rounds)
    weak = _weakness(ratios["throughput"], rounds, precision)
    words = f"B against A, throughput: {sentence(ratios['throughput'], 'higher')}"
    return Comparison(ratios, f"{words} (WEAK: {weak})" if weak else words, rounds, weak)


def _ratios(a: Side, b: Side, confidence: float) -> dict[str, Ratio]:
    """By metric; not of those that no round has. What a round lacks is not left out: the rounds that have it are not like the others."""
    pairs = [(metrics_of(one), metrics_of(two)) for one, two in zip(a.rounds, b.rounds, strict=False)]
    names = dict.fromkeys(name for pair in pairs for side in pair for name, metric in side.items() if metric.value is not None)
    return {name: _ratio([(one.get(name), two.get(name)) for one, two in pairs], confidence) for name in names}


def _ratio(pairs: Sequence[tuple[Metric | None, Metric | None]], confidence: float) -> Ratio:
    values = [(one.value, two.value) for one, two in pairs if one is not None and two is not None]
    known = [(one, two) for one, two in values if one is not None and two is not None]
    if len(known) < len(pairs):
        reasons = (metric.reason for pair in pairs for metric in pair if metric is not None and metric.value is None)
        why = next(reasons, None) or "a side has no such metric"
        return Ratio(None, None, None, len(known), f"absent in {len(pairs) - len(known)} of {len(pairs)} rounds: {why}")
    return ratio_interval([one for one, _ in known], [two for _, two in known], confidence)


def _refusal(a: Side, b: Side, ratios: dict[str, Ratio], precision: Precision | None) -> str | None:
    """Why there is no headline; None where there is one."""
    failed = next((side.failed for side in (a, b) if side.failed and side.failed.status == "failed"), a.failed or b.failed)
    if failed is not None:
        return f"a side {failed.status}: {failed.failure}"
    for side in (a, b):
        if side.invalid is not None:
            return f"side {side.label} is INVALID: {side.invalid}"
    rounds = min(len(a.rounds), len(b.rounds))
    if rounds < 2:
        spent = "" if precision is None else f": {precision.budget_s:g} s were spent after {_counted(rounds)}"
        return f"fewer than two rounds measured both sides{spent}"
    ratio = ratios.get("throughput")
    return "no round has a throughput" if ratio is None else ratio.reason


def _weakness(ratio: Ratio, rounds: int, precision: Precision | None) -> str | None:
    if precision is not None and not is_narrow(ratio, precision):
        if rounds >= MOST_ROUNDS:
            return f"the interval was not {precision.words} narrow after {_counted(rounds)}, the most that are made"
        return f"{precision.budget_s:g} s were spent before the interval was {precision.words} narrow; {_counted(rounds)}"
    return f"{_counted(rounds)} only" if rounds < MIN_ROUNDS else None


def _counted(rounds: int) -> str:
    return f"{rounds} round{'' if rounds == 1 else 's'}"


def _of_rounds(told: Sequence[Sequence[str]]) -> list[str]:
    """What is told of the rounds, each kind of reason once: with the numbers of the first round that has it, and in how many it holds."""
    kinds: dict[str, list[str]] = {}
    for reasons in told:
        for reason in reasons:
            kinds.setdefault(re.sub(r"[\d.,]+", "#", reason), []).append(reason)
    rounds = len(told)
    return [same[0] if len(set(same)) == 1 else f"{same[0]}; such in {len(same)} of {rounds} rounds" for same in kinds.values()]


def _tell(tell: Callable[[int, str, Frame], None] | None, index: int, side: str) -> Callable[[Frame], None] | None:
    return None if tell is None else lambda frame: tell(index, side, frame)
