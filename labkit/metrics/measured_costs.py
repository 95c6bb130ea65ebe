"""What the ops of a run cost, for the simulated device to predict other settings from.

A prediction adds durations up, so each op's duration is the plain mean of all its runs after the warm-up: a
median times n is not a sum, and an outlier took the time it took. The host's own overheads are means as well.
"""

from collections.abc import Mapping

import numpy as np

from labkit.device.cost_model import MeasuredCosts, MeasuredOp
from labkit.errors import TraceError
from labkit.metrics.dependencies import last_dependency
from labkit.metrics.overlap import role_of
from labkit.metrics.unit_slices import HOST, slices_by_unit
from labkit.schedule import Cost, Status
from labkit.trace import KIND_OP, KIND_WAIT, Trace
from labkit.trace.trace import RowIndex


def measured_costs(
    trace: Trace, *, warmup_steps: int = 0, source: str = "", costs: Mapping[str, Cost] | None = None
) -> MeasuredCosts:
    """The mean costs of a run's ops that succeeded, without its first `warmup_steps` steps.

    source  the run they come from
    costs   op name → what the op asked of the hardware; goes before the mean FLOP and bytes of the trace,
            which does not know of pixels
    Raises TraceError where no op succeeded after the warm-up.
    """
    late = _after_warmup(trace, warmup_steps)
    ran = late & (trace["kind"] == KIND_OP) & (trace["status"] == Status.OK) & (trace["start_ns"] >= 0)
    if not ran.any():
        raise TraceError(
            f"no op succeeded after {warmup_steps} steps of warm-up: there are no costs; run more steps"
        )
    codes = np.unique(trace["name"][ran])
    ops = {trace.names[code]: _op(trace, np.flatnonzero(ran & (trace["name"] == code))) for code in codes}
    for name in ops.keys() & (costs or {}).keys():
        ops[name] = MeasuredOp(ops[name].mean_ns, costs[name], ops[name].n)
    return MeasuredCosts(
        ops=ops,
        submit_ns=_submit_ns(trace, np.flatnonzero(ran)),
        wake_ns=_wake_ns(trace, np.flatnonzero(late & (trace["kind"] == KIND_WAIT))),
        dispatch_ns=_dispatch_ns(trace, np.flatnonzero(ran)),
        source=source,
    )


def _after_warmup(trace: Trace, warmup_steps: int) -> np.ndarray:
    """The rows of later steps, and those of no step (waits among them) from the first of a later step on."""
    later = trace["step"] >= warmup_steps
    first = np.argmax(later) if later.any() else len(trace)
    whole = warmup_steps <= 0
    return later | ((trace["step"] < 0) & (whole | (np.arange(len(trace)) >= first)))


def _op(trace: Trace, rows: np.ndarray) -> MeasuredOp:
    mean_ns = float((trace["end_ns"][rows] - trace["start_ns"][rows]).mean())
    cost = Cost(
        flop=round(float(trace["flop"][rows].mean())), bytes=round(float(trace["bytes"][rows].mean()))
    )
    return MeasuredOp(mean_ns, cost, len(rows))


def _on_host(trace: Trace, rows: np.ndarray) -> np.ndarray:
    return np.isin(
        trace["lane"][rows], [code for code, lane in enumerate(trace.lanes) if role_of(lane) == HOST]
    )


def _submit_ns(trace: Trace, rows: np.ndarray) -> float:
    """Mean time that a submit held the host, of ops that did not run on it."""
    rows = rows[~_on_host(trace, rows)]
    return float((trace["queued_ns"][rows] - trace["submit_ns"][rows]).mean()) if len(rows) else 0.0


def _wake_ns(trace: Trace, waits: np.ndarray) -> float:
    """Mean time from the end of the awaited op to the host running again, of waits that had to wait."""
    wakers = RowIndex(trace).rows(trace["woke_by"][waits])
    ended = np.where(wakers >= 0, trace["end_ns"][wakers], -1) if len(waits) else wakers
    held = ended > trace["start_ns"][waits]
    lags = trace["end_ns"][waits][held] - ended[held]
    return float(np.maximum(lags, 0).mean()) if len(lags) else 0.0


def _dispatch_ns(trace: Trace, rows: np.ndarray) -> dict[str, float]:
    """Lane role → mean time from an op being ready (submitted, inputs there, its unit free) to its start."""
    free = np.full(len(trace), -1)
    for unit in slices_by_unit(trace):
        free[unit.rows[1:]] = trace["end_ns"][unit.rows[:-1]]
    rows = rows[~_on_host(trace, rows)]
    ready = np.maximum.reduce([trace["queued_ns"], last_dependency(trace)[1], free])[rows]
    lags = np.maximum(trace["start_ns"][rows] - ready, 0)
    roles = np.array([role_of(lane) for lane in trace.lanes])[trace["lane"][rows]]
    return {str(role): float(lags[roles == role].mean()) for role in np.unique(roles)}
