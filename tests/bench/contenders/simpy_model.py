"""The reference: lanes, dependencies and the host's program as a SimPy model, written from the contract's words alone.

A lane is a queue served by as many processes as it has units. A unit takes the next op, waits for what the op depends
on, and is occupied from then to the op's end. The host is a process that goes through its program verb by verb. Where
labkit's simulated device is a fold that knows every end at once, this is an event simulation that finds out.
"""

from collections.abc import Generator

import simpy

from tests.bench.schedules import Event, Schedule, Submit, Wait


class Model:
    """One run of one schedule; `events` in program order and `found`, what each wait found ended, when `run` is over."""

    def __init__(self, schedule: Schedule):
        self._schedule = schedule
        self._env = simpy.Environment()
        self._queues: dict[str, simpy.Store] = {}
        self._ended: list[simpy.Event] = []
        self.events: list[Event | None] = []
        self.found: list[tuple[int, ...]] = []

    def run(self) -> "Model":
        """Simulate until nothing happens any more."""
        self._env.process(self._host())
        self._env.run()
        return self

    def _host(self) -> Generator:
        for verb in self._schedule.verbs:
            if type(verb) is Wait:
                done = yield from self._wait(verb.ops, verb.at_most_ns)
                self.found.append(tuple(sorted(done)))
            elif verb.lane == "host":
                yield from self._run_inline(verb)
            else:
                yield from self._submit(verb)

    def _submit(self, verb: Submit) -> Generator:
        """Hold the host, then queue the op; the host waits here for a blocking one."""
        number, place, entered = self._next()
        yield self._env.timeout(verb.host_ns)
        self._queue(verb.lane).put((number, place, verb, entered, self._env.now))
        if verb.blocking:
            yield from self._wait((number,), None)

    def _run_inline(self, verb: Submit) -> Generator:
        """An op of the host's own: it runs in the host's time, once its dependencies have ended."""
        number, place, entered = self._next()
        yield self._env.timeout(verb.host_ns)
        yield from self._dependencies(verb)
        start = self._env.now
        yield self._env.timeout(verb.duration_ns)
        self.events[place] = Event(entered, self._env.now, start, self._env.now)
        self._ended[number].succeed()

    def _unit(self, queue: simpy.Store) -> Generator:
        """One unit of a lane, for ever."""
        while True:
            number, place, verb, entered, queued = yield queue.get()
            yield from self._dependencies(verb)
            if verb.dispatch_ns:
                yield self._env.timeout(verb.dispatch_ns)
            start = self._env.now
            yield self._env.timeout(verb.duration_ns)
            self.events[place] = Event(entered, queued, start, self._env.now)
            self._ended[number].succeed()

    def _wait(self, ops: tuple[int, ...], at_most_ns: int | None) -> Generator:
        """Hold the host until one of `ops` has ended or the time is over, 1 ns at least; those that have ended."""
        env, entered, place = self._env, self._env.now, len(self.events)
        self.events.append(None)
        yield from self._let_this_instant_pass()
        if self._done(ops):
            yield env.timeout(1)
        else:
            first_of = [self._ended[op] for op in ops]
            if at_most_ns is not None:
                first_of.append(env.timeout(max(at_most_ns, 1)))
            yield env.any_of(first_of)
            yield from self._let_this_instant_pass()
            if self._done(ops) and self._schedule.wake_ns:
                yield env.timeout(self._schedule.wake_ns)
        yield from self._let_this_instant_pass()
        self.events[place] = Event(entered, env.now, entered, env.now)
        return self._done(ops)

    def _let_this_instant_pass(self) -> Generator:
        """Whatever else happens now has happened: several ops may end at one instant."""
        while self._env.peek() == self._env.now:
            yield self._env.timeout(0)

    def _dependencies(self, verb: Submit) -> Generator:
        for dep in verb.deps:
            if not self._ended[dep].processed:
                yield self._ended[dep]

    def _done(self, ops: tuple[int, ...]) -> list[int]:
        return [op for op in ops if self._ended[op].triggered]

    def _next(self) -> tuple[int, int, int]:
        """The number of a new op, its place among the events, and the time."""
        self._ended.append(self._env.event())
        self.events.append(None)
        return len(self._ended) - 1, len(self.events) - 1, self._env.now

    def _queue(self, lane: str) -> simpy.Store:
        queue = self._queues.get(lane)
        if queue is None:
            queue = self._queues[lane] = simpy.Store(self._env)
            for _ in range(self._schedule.widths.get(lane, 1)):
                self._env.process(self._unit(queue))
        return queue
