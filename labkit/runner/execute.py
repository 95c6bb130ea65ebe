"""Run one job in this process: open the device, feed the kernel its steps, close, and say how it went.

Workers call this, and so do tests on the virtual clock. It never raises for what the run does: a failure is an outcome.
"""

import gc
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter, perf_counter_ns
from typing import Any, NamedTuple

from labkit.allocation.hold import Holding, hold
from labkit.device import Device, Opening, open_device
from labkit.errors import ContractError, LabkitError, OpCancelled, OpSkipped
from labkit.runner.job import Frame, Job, Outcome
from labkit.schedule import Cost, Steps
from labkit.units import NS_PER_S, seconds_to_ns

LONGEST_REASON = 4000
CATCH_UP_NS = NS_PER_S // 4
"""How far virtual time may be behind the wall clock before the rest is let go."""
LOOK_NS = NS_PER_S // 20
"""How long a program that serves sleeps at most: a Stop and a toggle are seen after that."""


class Controls:
    """How a run is steered from outside: any thread may stop it, or turn its live knobs."""

    def __init__(self) -> None:
        self.stop_requested = False
        self.cancel_requested = False
        self.wanted = threading.Event()
        self.new_knobs: Any = None
        self.device: Device | None = None
        self.steps: Steps | None = None

    def stop(self) -> None:
        """End after the step that is being submitted; what is in flight finishes."""
        self.stop_requested = True
        self.wanted.set()

    def cancel(self) -> None:
        """End now; what has not started is dropped."""
        self.cancel_requested = True
        self.stop()
        if self.device is not None:
            self.device.cancel()

    def turn(self, knobs: Any) -> None:
        """Use these knobs from the next step on."""
        self.new_knobs = knobs

    def take(self) -> Any:
        """The knobs to use from now on, None where nobody turned any."""
        knobs, self.new_knobs = self.new_knobs, None
        return knobs

    def frame(self) -> Frame | None:
        """How far the run is; None before its first step."""
        steps, device = self.steps, self.device
        if steps is None or device is None:
            return None
        measured_ns = max(device.now() - steps.measure_from_ns, 0) if steps.measure_from_ns >= 0 else 0
        shares = [0.0]
        if steps.budget.steps is not None:
            shares.append(steps.released / (steps.budget.warmup + steps.budget.steps))
        if steps.budget.seconds is not None:
            shares.append(measured_ns / seconds_to_ns(steps.budget.seconds))
        return Frame(steps.released, measured_ns, min(max(shares), 1.0))


def execute(job: Job, workload: Any, controls: Controls | None = None, holding: Holding | None = None) -> Outcome:
    """Run `job` on a workload that was prepared for it.

    holding  its allocation policy, already in force; None: it is put in force here, for this run
    """
    if holding is not None:
        outcome = _executed(job, workload, controls or Controls(), holding)
        return replace(outcome, allocation=holding.ledger.as_dict(), notes=(*outcome.notes, *holding.ledger.notes()))
    began = perf_counter()
    try:
        with hold(job.allocation, job.device) as own:
            return execute(job, workload, controls, own)
    except (LabkitError, OSError) as error:  # a policy that cannot be read, put in force or undone
        return Outcome("failed", str(error), None, perf_counter() - began)


def _executed(job: Job, workload: Any, controls: Controls, holding: Holding) -> Outcome:
    began = perf_counter()
    device: Device | None = None
    try:
        with _garbage_collected_seldom() if job.simulated else _garbage_collected_first():
            device = open_device(job.device, _opening(job))
            workload.begin()
            holding.begin(workload, job.knobs)
            holding.on(device)
            failure, detail, cancelled = _drive(job, workload, device, controls, holding)
            said = _said(workload)
            holding.finish(device, said.costs)
            trace = device.recorder.finish(device.now())
    except BaseException as error:  # a user's workload may raise anything: its failure is the run's
        if device is not None:
            device.cancel()
            device.close()
        known = isinstance(error, LabkitError)
        words = str(error) if known else error_words(error)
        detail = "" if known else "".join(traceback.format_exception(error)[-4:])
        return Outcome("failed", words, None, perf_counter() - began, detail=detail)
    ended_by_hand = cancelled and job.live and not controls.cancel_requested
    status = "failed" if failure else "cancelled" if cancelled and not ended_by_hand else "ok"
    reason = failure or ("stopped before its budget was spent" if status == "cancelled" else "")
    notes = (*device.recorder.meta.get("warnings", []), *said.notes, *(["ended by hand"] if ended_by_hand else []))
    wall_s = perf_counter() - began
    return Outcome(status, reason, trace, wall_s, notes, said.costs, said.results, detail=detail)


def error_words(error: BaseException) -> str:
    """`ValueError: what it says`, also of an exception that cannot say it."""
    try:
        words = f"{type(error).__name__}: {error}"
        return words if len(words) <= LONGEST_REASON else f"{words[:LONGEST_REASON]}…"
    except Exception:  # its own __str__ is broken
        return type(error).__name__


class _Said(NamedTuple):
    """What the workload says of a run that has ended."""

    notes: tuple[str, ...]
    costs: dict[str, Cost]
    results: dict[str, Any]


def _said(workload: Any) -> _Said:
    return _Said(tuple(workload.notes()), dict(workload.costs), dict(workload.results()))


def _drive(job: Job, workload: Any, device: Device, controls: Controls, holding: Holding) -> tuple[str, str, bool]:
    """Feed the kernel and close the device: (failure, its detail, whether the run was stopped)."""

    def on_change(index: int, old: Any, new: Any) -> None:
        for knob, (was, is_now) in old.differences(new).items():
            device.recorder.mark(device.now(), index, knob, was, is_now)
        for role, width in job.recipe.widths(new).items():
            device.resize(role, width)

    def stopped() -> bool:
        return controls.stop_requested or device.failed

    virtual = device.kind == "simulated"
    pace = _wall_clock_pace(device, controls) if job.live and virtual else _as_fast_as_it_can
    arrivals = None if job.recipe.arrivals is None else job.recipe.arrivals(job.knobs)
    pace, look_ns = holding.paced(device, pace), holding.look_ns(None if virtual and not job.live else LOOK_NS)
    steps = Steps(
        holding.knobs(job.knobs), job.budget, device.now, stopped, lambda: holding.knobs(controls.take()), on_change, pace, arrivals, look_ns
    )  # fmt: skip
    controls.steps, controls.device = steps, device
    raised: BaseException | None = None
    try:
        job.recipe.kernel(device, workload, steps)
    except BaseException as error:  # whatever a user's kernel raises becomes the run's failure, sys.exit() too
        raised = error
        device.cancel()
    holding.inspect(device, steps.knobs)
    failures = device.close()
    if controls.stop_requested and isinstance(raised, OpCancelled | OpSkipped | ContractError):
        raised = None  # the kernel read something that the cancel took away
    cause = failures[0].error if failures else raised
    if cause is None:
        return "", "", controls.stop_requested
    where = f"op '{failures[0].name}': " if failures else ""
    words = where + error_words(cause)
    detail = "".join(traceback.format_exception(cause)[-6:])
    cause.__traceback__ = None  # frames keep tensors alive, which matters after an out-of-memory
    return words, detail, False


def _wall_clock_pace(device: Device, controls: Controls) -> Callable[[], None]:
    """Hold a step back while virtual time is ahead of the wall clock. A Stop ends the waiting.

    What simulating takes too long is not caught up with: a burst of steps would look like a fast device.
    """
    began_ns = perf_counter_ns() - device.now()

    def pace() -> None:
        nonlocal began_ns
        ahead_ns = device.now() - (perf_counter_ns() - began_ns)
        if ahead_ns > 0:
            controls.wanted.wait(ahead_ns / NS_PER_S)
        elif ahead_ns < -CATCH_UP_NS:
            began_ns -= ahead_ns

    return pace


def _as_fast_as_it_can() -> None:
    """No pace: the device's own time sets it."""


def _opening(job: Job) -> Opening:
    widths: Callable[[Any], dict[str, int]] = job.recipe.widths
    return Opening(widths=widths(job.knobs), shares=job.shares, measured=job.measured, machine=job.machine, cap=job.cap)


@contextmanager
def _garbage_collected_seldom() -> Iterator[None]:
    """A simulation makes hundreds of thousands of small objects a second, which stay: looking through them takes a third of its time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _garbage_collected_first() -> Iterator[None]:
    """Collect garbage before the run and freeze what is left, so that no collection walks the set-up while time is measured."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
