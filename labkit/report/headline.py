"""The sentence above the page, and how far it may be trusted. An INVALID result never has a number there."""

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.figures.numbers import metric_text
from labkit.figures.shown import Shown
from labkit.metrics.verdict import WORST_FIRST
from labkit.runner.imported import contents, origin
from labkit.runner.record import Grade, RunRecord


@dataclass(frozen=True)
class Headline:
    """What stands above everything else.

    grade     the worst verdict among the runs that it speaks of; None where no run was judged
    sentence  the result in one sentence; without any number where it is INVALID
    reasons   why it is not VALID
    aside     what was claimed of an INVALID result, for the foot of the page; None otherwise
    """

    grade: Grade | None
    sentence: str
    reasons: tuple[str, ...]
    aside: str | None = None


def headline(runs: Sequence[Shown], records: Sequence[RunRecord], comparison: str | None) -> Headline:
    """The headline of these runs.

    records     those of `runs`, in the same order, and then any that left nothing to show
    comparison  how B compares with A, in words
    """
    labels = [run.label for run in runs] + [record.id for record in records[len(runs) :]]
    spoken_of = _spoken_of(list(zip(labels, records, strict=False)))
    grade = next(
        (each for each in WORST_FIRST if any(record.verdict.grade == each for _, record in spoken_of)), None
    )
    judged = [(label, record) for label, record in spoken_of if record.verdict.grade == grade]
    reasons = tuple(f"{label}: {reason}" for label, record in judged for reason in record.verdict.reasons)
    if grade == "INVALID":
        return Headline(grade, "No result: see below why.", reasons, comparison)
    return Headline(grade, comparison or _in_words(runs, records), reasons)


def _spoken_of(named: list[tuple[str, RunRecord]]) -> list[tuple[str, RunRecord]]:
    """The measured runs; the predictions where nothing was measured."""
    return [(label, record) for label, record in named if record.measured] or named


def _in_words(runs: Sequence[Shown], records: Sequence[RunRecord]) -> str:
    """What was measured, or predicted where nothing was: `A: 1 860 items/s, measured on CPU threads.`"""
    named = list(zip(runs, records, strict=False))
    chosen = [(run, record) for run, record in named if run.measured] or named
    if not chosen:
        return "No run left anything to show."
    return "; ".join(f"{run.label}: {_rate(run, record)}, {origin(record) or _where(run)}" for run, record in chosen) + "."


def _rate(run: Shown, record: RunRecord) -> str:
    """Its throughput; what an imported trace without a rate holds instead."""
    rate = run.summary.throughput
    return contents(record) or metric_text(rate) if rate.value is None else metric_text(rate)


def _where(run: Shown) -> str:
    return f"measured on {run.device}" if run.measured else f"predicted, {run.device}"
