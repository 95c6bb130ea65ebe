"""Generation in turns, each of which makes one more token for every sequence that is on its way: continuous and static batching.

Under static batching those who wait join together when nobody is on the way any more, and get their answers together, when the longest is
done: the others keep their places meanwhile, and the device makes tokens for them that nobody wants. Under continuous batching a sequence
leaves when it has its tokens, and whoever waits longest takes its place in the next turn. (G. Yu et al., "Orca", OSDI 2022.)

Taking in, turning away, waiting and answering are those of the server that batches whole requests (`labkit.kernels.batching`). A request's
`first_ns` and `step` are those of the turn that made its first token, its `length` is that of its prompt.
"""

from heapq import heappop, heappush
from typing import NamedTuple

from labkit.device.device import Device
from labkit.kernels.batching import NEVER, Server
from labkit.kernels.slots import Slot
from labkit.kernels.waiting import Ticket
from labkit.schedule import Answer, Handle, Status, Step, Steps
from labkit.workloads.generating import GeneratingWorkload, Going


class Sequence:
    """A request on its way: its place in the cache, and how many tokens were asked of the device for it so far."""

    __slots__ = ("ticket", "place", "wanted", "made", "first_ns", "first_step", "first_token_ns", "answered")

    def __init__(self, ticket: Ticket, place: int, wanted: int, first_ns: int, first_step: int):
        self.ticket, self.place, self.wanted = ticket, place, wanted
        self.first_ns, self.first_step = first_ns, first_step
        self.made = 0
        self.first_token_ns = NEVER
        self.answered = False

    def as_it_is(self) -> Going:
        """What the workload must know of it, now."""
        return Going(self.ticket.request, self.place, self.ticket.length, self.wanted, self.made)


class Turn(NamedTuple):
    """A turn on its way: the sequences that get a token in it, and those for which it is the last."""

    step: Step
    slot: Slot
    sequences: list[Sequence]
    leaving: list[Sequence]
    stages: list[Handle]
    last: Handle

    @property
    def tickets(self) -> list[Ticket]:
        """Whose requests they are."""
        return [sequence.ticket for sequence in self.sequences]


def continuous(device: Device, workload: GeneratingWorkload, steps: Steps) -> None:
    """Generate for what comes until no more will."""
    Generator(device, workload, steps).serve()


class Generator(Server):
    """A server whose batches are turns."""

    _workload: GeneratingWorkload
    _running: list[Turn]

    def __init__(self, device: Device, workload: GeneratingWorkload, steps: Steps):
        super().__init__(device, workload, steps)
        self._going: list[Sequence] = []
        self._free: list[int] = []
        self._places = 0

    # ---- sending ------------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Turns, as many as may be on their way at once, as long as there is anybody to make a token for."""
        self._hang_up()
        while len(self._running) < self._steps.knobs.in_flight:
            joining = self._joining()
            if not joining and not self._going:
                return
            self._take_turn(joining)

    def _hang_up(self) -> None:
        """Those whose clients have hung up leave at once: no further token is made for them."""
        now_ns = self._device.now()
        gone = [sequence for sequence in self._going if sequence.ticket.has_left(now_ns)]
        if gone:
            self._answer_all(gone, Answer.CANCELLED, now_ns)

    def _joining(self) -> list[Ticket]:
        """Those who join the next turn, the oldest first."""
        oldest = self._waiting.oldest()
        room = self._steps.knobs.max_batch - len(self._going)
        if oldest is None or room <= 0 or (self._going and self._steps.knobs.batching == "static"):
            return []
        return self._waiting.take(oldest.bucket, room)

    def _take_turn(self, tickets: list[Ticket]) -> None:
        step, slot, now_ns = self._steps.release(), self._slots.take(), self._device.now()
        joining = [Sequence(ticket, self._place(), self._workload.wanted(ticket.request), now_ns, step.index) for ticket in tickets]
        sequences = joining + self._going
        states = [sequence.as_it_is() for sequence in sequences]
        first, *others = self._workload.turn(step, slot.number, states[: len(joining)], states[len(joining) :])
        stages = [self._device.submit(first)]
        for op in others:
            stages.append(self._device.submit(op, stages[-1]))
        for sequence in sequences:
            sequence.made += 1
        leaving = self._leaving(sequences)
        self._running.append(Turn(step, slot, sequences, leaving, stages, stages[-1]))
        self._going = sequences
        self._let_go(leaving)

    def _leaving(self, sequences: list[Sequence]) -> list[Sequence]:
        """Those who leave after this turn: who has all tokens, or, under static batching, all when all have."""
        done = [sequence for sequence in sequences if sequence.made >= sequence.wanted]
        return [] if self._steps.knobs.batching == "static" and len(done) < len(sequences) else done

    def _place(self) -> int:
        """The lowest place in the cache that is free. Turns run in order: who had it before is done with it by then."""
        if self._free:
            return heappop(self._free)
        self._places += 1
        return self._places - 1

    def _let_go(self, gone: list[Sequence]) -> None:
        """These are on their way no more; their places are free."""
        for sequence in gone:
            heappush(self._free, sequence.place)
        left = set(map(id, gone))
        self._going = [sequence for sequence in self._going if id(sequence) not in left]

    # ---- answering ----------------------------------------------------------------------------------------

    def _answer_done(self) -> None:
        """Answer those whose last turn is done, and all of a turn that failed: what it left in the cache is not to be trusted."""
        done = [turn for turn in self._running if turn.last.seen]
        self._running = [turn for turn in self._running if not turn.last.seen]
        for turn in done:
            self._slots.give_back(turn.slot, turn.last, turn.last)
            if turn.last.status is Status.OK:
                for sequence in turn.sequences:
                    if sequence.first_step == turn.step.index:
                        sequence.first_token_ns = turn.last.end_ns
                served = [sequence for sequence in turn.leaving if not sequence.answered]
                self._answer_all(served, Answer.SERVED, turn.last.end_ns)
                self._workload.answered(turn.step, [sequence.ticket.request for sequence in served], turn.last)
            else:
                self._answer_all(turn.sequences, self._failure(turn), self._device.now())

    def _answer_all(self, sequences: list[Sequence], answer: Answer, done_ns: int) -> None:
        for sequence in sequences:
            if not sequence.answered:
                sequence.answered = True
                left = answer is Answer.SERVED and sequence.ticket.has_left(done_ns)
                mine = Answer.CANCELLED if left else answer
                tokens = sequence.wanted if mine is Answer.SERVED else 0
                self._record(sequence.ticket, mine, done_ns, sequence.first_ns, sequence.first_step, sequence.first_token_ns, tokens)
        going = set(map(id, self._going))
        self._let_go([sequence for sequence in sequences if id(sequence) in going])
