"""The third tier, where a kernel has what it needs: tenants by name, and the knobs `share` and `ageing`.

The queue itself is the kernel's (`labkit/kernels/disciplines.py`). Elsewhere nothing is applied, with the reason.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from labkit.allocation.ledger import Ledger, Line, applied, not_applied
from labkit.allocation.policy import Priority
from labkit.knobs import Knobs

CLASSES, AGEING = "priority.classes", "priority.ageing_ms"
NO_QUEUES = "this experiment has one queue, whose requests are all alike; the experiment `tenants` has one for each tenant"


def raise_levels(workload: Any, knobs: Knobs, priority: Priority, ledger: Ledger, undo: ExitStack) -> bool:
    """Give the workload's tenants their levels for this run; whether it could. `undo` gets what puts them back.

    Nothing is applied where a class is no tenant: half of an order is another order.
    """
    tenants: Sequence[Any] = getattr(workload, "tenants", ())
    reason = _why_not(knobs, [tenant.name for tenant in tenants], priority)
    if reason:
        _write(ledger, priority, lambda key, wanted: not_applied(key, wanted, reason))
        return False
    levels = {each.name: each.level for each in priority.classes}
    undo.callback(setattr, workload, "tenants", tenants)
    workload.tenants = tuple(replace(tenant, priority=levels.get(tenant.name, tenant.priority)) for tenant in tenants)
    return True


def prioritised(knobs: Knobs, priority: Priority) -> Knobs:
    """The knobs with the policy's queue in force."""
    return knobs.changed(share="priority", ageing=priority.ageing_ms)


def read_back(told: Sequence[dict[str, Any]], asked: Any, knobs: Any, priority: Priority, ledger: Ledger) -> None:
    """After the run: what the kernel says it went by.

    told   the tenants as the kernel wrote them into its trace
    asked  the knobs that the run was asked for; knobs: those in force at the end
    """
    wanted = {each.name: each.level for each in priority.classes}
    in_force = {each["name"]: each["priority"] for each in told}
    if knobs.share != "priority" or knobs.ageing != priority.ageing_ms or not wanted.items() <= in_force.items():
        reason = f"the kernel went by share={knobs.share}, ageing={knobs.ageing} and the priorities {in_force}"
        _write(ledger, priority, lambda key, value: not_applied(key, value, reason))
        return
    instead = "" if asked.share == "priority" else f" instead of the run's own share={asked.share}"
    words = f"share=priority{instead}, with these levels" + ("" if len(wanted) == len(in_force) else "; other tenants keep their own")
    ledger.write(applied(CLASSES, _plain(priority), words, in_force))
    if priority.ageing_ms is not None:
        ledger.write(applied(AGEING, priority.ageing_ms, "waiting so long is worth one level more", knobs.ageing))


def _why_not(knobs: Knobs, names: Sequence[str], priority: Priority) -> str:
    if not _has_queues(knobs) or not names:
        return NO_QUEUES
    stranger = next((each.name for each in priority.classes if each.name not in names), None)
    return "" if stranger is None else f"there is no tenant {stranger!r}; there are: {', '.join(names)}"


def _write(ledger: Ledger, priority: Priority, line: Callable[[str, Any], Line]) -> None:
    ledger.write(line(CLASSES, _plain(priority)))
    if priority.ageing_ms is not None:
        ledger.write(line(AGEING, priority.ageing_ms))


def _has_queues(knobs: Knobs) -> bool:
    return {"share", "ageing"} <= set(type(knobs).model_fields)


def _plain(priority: Priority) -> list[dict[str, Any]]:
    return [each.model_dump() for each in priority.classes]
