"""Traces written down row by row, for what no simulated run does."""

from labkit.schedule import Status
from labkit.trace import KIND_OP, Mark, Recorder, Trace, UnitSpan


def row(
    op: int,
    name: str,
    lane: str,
    start_ns: int,
    end_ns: int,
    *,
    submit_ns: int | None = None,
    queued_ns: int | None = None,
    kind: int = KIND_OP,
    unit: int = 0,
    step: int = -1,
    items: int = 0,
    deps: tuple[int, ...] = (),
    woke_by: int = -1,
    status: Status = Status.OK,
) -> tuple:
    """One row as devices record it; submitted when it starts, unless stated."""
    submit = start_ns if submit_ns is None else submit_ns
    queued = submit if queued_ns is None else queued_ns
    return (
        op,
        kind,
        name,
        lane,
        unit,
        step,
        items,
        submit,
        queued,
        start_ns,
        end_ns,
        0,
        0,
        woke_by,
        status,
        deps,
    )


def recorded(
    *rows: tuple, until_ns: int = 1000, spans: tuple[UnitSpan, ...] = (), marks: tuple[Mark, ...] = ()
) -> Trace:
    """A trace of rows. Without `spans`, the host and every unit they name exist from 0 to `until_ns`."""
    recorder = Recorder()
    units = {("host", 0), *((each[3], each[4]) for each in rows)}
    for span in spans or [UnitSpan(lane, unit, 0, until_ns) for lane, unit in sorted(units)]:
        recorder.open_unit(span.lane, span.unit, span.open_ns)
        recorder.close_unit(span.lane, span.unit, span.close_ns)
    recorder.marks.extend(marks)
    for each in rows:
        recorder.append(each)
    return recorder.finish(until_ns)


def completing(ends_ns: list[int], items: int = 1, first_step: int = 0) -> Trace:
    """A trace of one completion a step, each op running from the end of the one before."""
    starts = [0, *ends_ns][: len(ends_ns)]
    rows = [
        row(place, "update", "compute", start, end, step=first_step + place, items=items)
        for place, (start, end) in enumerate(zip(starts, ends_ns, strict=True))
    ]
    return recorded(*rows, until_ns=max(ends_ns, default=0) + 10)
