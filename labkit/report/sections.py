"""The parts of the page that come from the records: verdicts, knobs that differ, machines, provenance."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.device.machine import FIGURES
from labkit.figures.numbers import count_text
from labkit.figures.shown import Shown
from labkit.runner.alerting import alerts_of
from labkit.runner.imported import contents, origin
from labkit.runner.record import RunRecord
from labkit.units import format_bytes, format_percent, format_rate, format_time, significant

_ABSENT = "–"


@dataclass(frozen=True)
class RunSection:
    """One run on the page. `facts`, `sensors` and `figures` are rows of text for folded tables; `notes` begin with the alerts."""

    title: str
    grade: str
    reasons: tuple[str, ...]
    status: str
    notes: tuple[str, ...]
    bottleneck: str
    facts: list[tuple[str, str]]
    sensors: list[tuple[str, str]]
    machine: str
    figures: list[tuple[str, str, str]]


def run_sections(runs: Sequence[Shown], records: Sequence[RunRecord]) -> list[RunSection]:
    """A section for each record; the first ones are those of `runs`."""
    shown: list[Shown | None] = [*runs, *[None] * max(0, len(records) - len(runs))]
    return [_section(run, record) for run, record in zip(shown, records, strict=False)]


def differing_knobs(runs: Sequence[Shown], records: Sequence[RunRecord]) -> list[list[str]]:
    """The knobs whose values differ, one row each, under the names of the runs; [] where none does."""
    names = dict.fromkeys(name for record in records for name in record.knobs)
    rows = []
    for name in names:
        values = [_value(record.knobs[name]) if name in record.knobs else _ABSENT for record in records]
        if len(set(values)) > 1:
            rows.append([name, *values])
    labels = [f"{run.label}\n{run.kind}" for run in runs] + [record.id for record in records[len(runs) :]]
    return [["knob", *labels[: len(records)]], *rows] if rows else []


def _section(run: Shown | None, record: RunRecord) -> RunSection:
    status = record.status if record.status == "ok" else f"{record.status}: {record.reason}"
    return RunSection(
        title=_title(run, record),
        grade=record.verdict.grade,
        reasons=record.verdict.reasons,
        status=status,
        notes=(*_alert_lines(record), *filter(None, [contents(record)]), *(note for note in record.notes if note not in record.verdict.reasons)),
        bottleneck=run.summary.bottleneck if run else "",
        facts=_facts(record),
        sensors=_flat(record.monitor),
        machine=_machine_name(record),
        figures=_figures(record),
    )


def _title(run: Shown | None, record: RunRecord) -> str:
    """`A: pipeline on CPU threads`; of an imported run, what was imported."""
    if run is None:
        return f"{record.experiment}, {record.id}"
    return f"{run.label}: {origin(record) or f'{record.experiment} on {run.device}'}"


def _facts(record: RunRecord) -> list[tuple[str, str]]:
    """What identifies the run and says how it came about."""
    own = [
        ("id", record.id),
        ("status", record.status),
        ("device", f"{record.device_label} ({record.device})"),
        ("started", record.started_at),
        ("wall time", f"{significant(record.wall_s)} s"),
        *[(f"budget: {name}", value) for name, value in _flat(record.budget)],
        *[(f"knob: {name}", _value(value)) for name, value in record.knobs.items()],
        *[(f"result: {name}", value) for name, value in _flat(record.results)],
        *[(f"alert: {alert.metric}", alert.words) for alert in alerts_of(record)],
    ]
    return own + _flat(record.provenance)


def _alert_lines(record: RunRecord) -> tuple[str, ...]:
    """What the alerts say that is not ok; the table of facts has them all."""
    return tuple(alert.line for alert in alerts_of(record) if alert.level != "ok")


def _machine_name(record: RunRecord) -> str:
    machine = record.machine or {}
    return str(machine.get("label") or machine.get("name") or "")


def _figures(record: RunRecord) -> list[tuple[str, str, str]]:
    """The machine's figures: meaning, value with its unit, source."""
    rows = []
    for name, figure in ((record.machine or {}).get("figures") or {}).items():
        rows.append((FIGURES.get(name, name), figure_text(name, figure["value"]), str(figure["source"])))
    return rows


def figure_text(name: str, value: float) -> str:
    """A machine's figure with the unit that its name ends in."""
    if name.endswith("_ns"):
        return format_time(value)
    if name.endswith("_bytes_per_s"):
        return format_rate(value, "B/s")
    if name.endswith("_per_s"):
        return format_rate(value, f"{name.removesuffix('_per_s').rpartition('_')[2]}/s")
    if name.endswith("_bytes"):
        return format_bytes(value)
    if name.endswith("_share"):
        return format_percent(value)
    if name.endswith("_w"):
        return f"{significant(value)} W"
    if name.endswith("_usd_per_hour"):
        return f"{value:.2f} USD/h"
    return count_text(value)


def _flat(data: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested tables as one: `gpu.power_w`."""
    rows: list[tuple[str, str]] = []
    for name, value in data.items():
        rows += (
            _flat(value, f"{before}{name}.") if isinstance(value, dict) else [(before + name, _value(value))]
        )
    return rows


def _value(value: Any) -> str:
    """A value as people write it: true, none, 2, 0.001, text as it is."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return significant(value, 6)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
