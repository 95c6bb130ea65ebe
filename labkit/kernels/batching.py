"""Dynamic batching: requests come when they come, wait for one another, and go to the device together.

The host does four things, over and over: it takes in what is due, turns away what there is no room for, sends a batch when the policy says so,
and waits for whatever happens next: an arrival, a batch that is done, a request that has waited too long. Every request gets exactly
one answer: served, rejected (the queue was full), expired (it waited too long), failed (the model raised), or cancelled (its client hung up, or
the run was stopped).

Latency is counted from when a request was due, not from when the host got round to it.
"""

from typing import NamedTuple

from labkit.device.device import Device
from labkit.errors import OpCancelled, OpFailed
from labkit.kernels.policies import POLICIES, ServiceTimes, hopeless
from labkit.kernels.slots import Slot, Slots
from labkit.kernels.waiting import Ticket, Waiting
from labkit.schedule import Answer, Handle, Request, Status, Step, Steps
from labkit.units import NS_PER_MS
from labkit.workloads.workload import ServingWorkload

NEVER = -1
FAILURES_NAMED = 5


class Sent(NamedTuple):
    """A batch on its way: the ops of its stages, the last of which brings the answers."""

    step: Step
    slot: Slot
    tickets: list[Ticket]
    first_ns: int
    stages: list[Handle]
    last: Handle


def batching(device: Device, workload: ServingWorkload, steps: Steps) -> None:
    """Serve what comes until no more will."""
    Server(device, workload, steps).serve()


class Server:
    """The state of the serving program between two turns of its loop."""

    def __init__(self, device: Device, workload: ServingWorkload, steps: Steps):
        self._device, self._workload, self._steps = device, workload, steps
        self._waiting = Waiting()
        self._gauges = device.recorder.gauges
        self._running: list[Sent] = []
        self._slots = Slots()
        self._times = ServiceTimes()
        self._failures = 0
        self._busy_until_ns = 0

    def serve(self) -> None:
        """Until no more requests come, none waits, and none is on its way."""
        while True:
            now_ns = self._device.now()
            for request in self._steps.due(now_ns):
                self._admit(request, now_ns)
            if len(self._waiting):
                self._give_up_on(now_ns)
            ask_ns = self._send()
            self._gauges["waiting"] = len(self._waiting)
            if not self._hold(ask_ns):
                return
            self._answer_done()

    # ---- taking in ----------------------------------------------------------------------------------------

    def _admit(self, request: Request, now_ns: int) -> None:
        knobs = self._steps.knobs
        length = self._workload.length(request)
        bucket = length.bit_length() if knobs.bucket_by_length else 0
        expires_ns = None if knobs.deadline is None else request.due_ns + int(knobs.deadline * NS_PER_MS)
        slo_ns = 0 if knobs.slo is None else int(knobs.slo * NS_PER_MS)
        leaves_ns = None if knobs.patience is None else request.due_ns + int(knobs.patience * NS_PER_MS)
        ticket = Ticket(request, length, bucket, now_ns, expires_ns, slo_ns, leaves_ns)
        if len(self._waiting) >= knobs.queue_limit:
            self._record(ticket, Answer.REJECTED, now_ns)
        else:
            self._waiting.add(ticket)

    def _give_up_on(self, now_ns: int) -> None:
        """Requests that have waited too long, or that nobody waits for any more; all of them where the run is to end."""
        for ticket in self._waiting.expired(now_ns):
            left = ticket.leaves_ns is not None and ticket.leaves_ns == ticket.out_ns
            self._record(ticket, Answer.CANCELLED if left else Answer.EXPIRED, now_ns)
        if self._steps.knobs.policy == "adaptive":
            while (oldest := self._waiting.oldest()) is not None and hopeless(oldest, now_ns, self._times):
                self._waiting.remove(oldest)
                self._record(oldest, Answer.EXPIRED, now_ns)
        if self._steps.stopped:
            for ticket in self._waiting.clear():
                self._record(ticket, Answer.CANCELLED, now_ns)

    # ---- sending ------------------------------------------------------------------------------------------

    def _send(self) -> int | None:
        """Send what the policy wants sent; when it wants to be asked again (None: when something happens)."""
        while len(self._waiting) and len(self._running) < self._steps.knobs.in_flight:
            knobs = self._steps.knobs
            send = POLICIES[knobs.policy](self._waiting, self._device.now(), knobs, len(self._running), self._times)
            if send.count == 0:
                return send.ask_ns
            self._start(self._waiting.take(send.bucket, min(send.count, knobs.max_batch)))
        return None

    def _start(self, tickets: list[Ticket]) -> None:
        step, slot = self._steps.release(), self._slots.take()
        first_ns = self._device.now()
        first, *others = self._workload.stages(step, slot.number, [(ticket.request, ticket.length) for ticket in tickets])
        stages = [self._device.submit(first)]
        for op in others:
            stages.append(self._device.submit(op, stages[-1]))
        self._running.append(Sent(step, slot, tickets, first_ns, stages, stages[-1]))

    # ---- waiting and answering ----------------------------------------------------------------------------

    def _hold(self, ask_ns: int | None) -> bool:
        """Hold the host until something happens; False where nothing ever will."""
        handles = [sent.last for sent in self._running]
        until = self._steps.next_ns
        if not handles and not len(self._waiting) and until is None:
            return False
        for time_ns in (ask_ns, self._waiting.next_expiry_ns, self._steps.look_again_ns):
            if time_ns is not None and (until is None or time_ns < until):
                until = time_ns
        if handles or until is not None:
            self._device.wait(handles, until=until)
        return True

    def _answer_done(self) -> None:
        """Answer the batches that are done, oldest first. One that failed early may be done before those that were sent before it."""
        done = [sent for sent in self._running if sent.last.seen]
        if done:
            self._running = [sent for sent in self._running if not sent.last.seen]
        for sent in done:
            self._slots.give_back(sent.slot, sent.last, sent.last)
            if sent.last.status is Status.OK:
                self._answer(sent, Answer.SERVED, sent.last.end_ns)
                took_ns = sent.last.end_ns - max(sent.first_ns, self._busy_until_ns)
                self._learn(sent, took_ns)
                self._workload.answered(sent.step, [ticket.request for ticket in sent.tickets], sent.last)
            else:
                self._answer(sent, self._failure(sent), self._device.now())
            self._busy_until_ns = max(sent.last.end_ns, self._busy_until_ns)

    def _learn(self, sent: Sent, took_ns: int) -> None:
        """A batch that was served took so long, from when the device took it up."""
        self._times.learn(len(sent.tickets), took_ns)

    def _failure(self, sent: Sent) -> Answer:
        """Read why a batch failed, so that it fails alone and the run goes on."""
        cancelled = False
        for handle in sent.stages:
            try:
                if not handle.seen:
                    self._device.wait([handle])
                _ = handle.value
            except OpCancelled:
                cancelled = True
            except OpFailed as failed:
                if handle.status is Status.FAILED:
                    self._name(sent, failed)
        return Answer.CANCELLED if cancelled else Answer.FAILED

    def _name(self, sent: Sent, failed: OpFailed) -> None:
        self._failures += 1
        if self._failures > FAILURES_NAMED:
            return
        requests = ", ".join(str(ticket.request.id) for ticket in sent.tickets[:4])
        more = f" and {len(sent.tickets) - 4} more" if len(sent.tickets) > 4 else ""
        words = f"batch {sent.step.index} failed, requests {requests}{more}: {failed.cause!r}"
        self._device.recorder.meta.setdefault("warnings", []).append(words)

    def _answer(self, sent: Sent, answer: Answer, done_ns: int) -> None:
        for ticket in sent.tickets:
            mine = Answer.CANCELLED if answer is Answer.SERVED and ticket.has_left(done_ns) else answer
            self._record(ticket, mine, done_ns, sent.first_ns, sent.step.index)

    def _record(
        self, ticket: Ticket, answer: Answer, done_ns: int, first_ns: int = NEVER, step: int = NEVER, first_token_ns: int = NEVER, tokens: int = 0
    ) -> None:
        request = ticket.request
        self._device.recorder.answer(
            (request.id, request.tenant, request.due_ns, ticket.admitted_ns, first_ns, done_ns, answer, step,
             ticket.length, ticket.slo_ns, first_token_ns, tokens)
        )  # fmt: skip
