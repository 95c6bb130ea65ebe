"""How fast and how right the simulated device and replay are, with SimPy beside them.

Three things: a kernel on the simulated device (ops per second of the host program, op objects included), a recorded trace replayed
(compiled and run once before, as what-if questions use it), and SimPy on the very same schedule. And a thousand random
schedules are run on the simulated device and on a SimPy model written from the contract alone: every event must be the same.
"""

from collections.abc import Callable
from statistics import median
from time import perf_counter

from labkit.device.simulated import SimulatedDevice
from labkit.metrics.replay import Program, compile_replay, replay
from labkit.trace import KIND_OP, Trace
from tests.bench.contender import Contender
from tests.bench.light import light_run
from tests.bench.measure import BenchError, Line, in_turns, progress, ratio_of
from tests.bench.peers import peer_python
from tests.bench.schedules import machine_for

NAME = "simulator"
KERNEL_TARGET, REPLAY_TARGET, PEER_TARGET = 100_000, 2_000_000, 10
SCHEDULES = 1_000
REPLAYS = 10
_MODULE = "tests.bench.contenders.simpy_runs"
WIDTHS, WAKE_NS, DISPATCH_NS = {"workers": 2}, 5_000, 3_000


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, steps, schedules = (2, 500, 100) if quick else (9, 5_000, SCHEDULES)
    compared = _compared(schedules)
    trace = _kernel_trace(steps)
    program, compile_s, first_s = _compiled(trace)
    ends: set[int] = {int(trace["end_ns"].max())}
    with Contender(peer_python(), _MODULE, "speed") as simpy:

        def simpy_turn() -> float:
            answer = simpy.go(steps)
            ends.add(answer["end_ns"])
            return answer["ops_per_s"]

        replay_turn = _replay_turn(program, _ops(trace))
        contenders = {"replay": replay_turn, "SimPy": simpy_turn, "kernel": lambda: _kernel_rate(steps), "replay again": replay_turn}
        numbers = in_turns(contenders, rounds, progress)
    if len(ends) != 1:
        raise BenchError(f"SimPy and the simulated device end the same schedule at different instants: {sorted(ends)} ns")
    ratio = ratio_of(numbers["replay"], numbers["SimPy"])
    kernel, replayed = median(numbers["kernel"]), median(numbers["replay"])
    equal = compared["equal"] == schedules
    print(f"  kernel on the simulated device: {kernel:,.0f} ops/s; target ≥ {KERNEL_TARGET:,}")
    print(f"  replay: {replayed:,.0f} ops/s; target ≥ {REPLAY_TARGET:,}; {ratio} times SimPy ({median(numbers['SimPy']):,.0f} ops/s); target ≥ {PEER_TARGET}")
    print(f"  before a trace of {_ops(trace):,} ops can be replayed: compiled in {compile_s:.2f} s, first replay {first_s:.2f} s")
    print(f"  {compared['equal']:,} of {schedules:,} random schedules equal SimPy's, {compared['events']:,} events"
          + ("" if equal else f"; {compared['first_difference']}"))  # fmt: skip
    return Line(
        name=NAME,
        ours=replayed,
        peer=median(numbers["SimPy"]),
        unit="ops/s",
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        aa_ratio=ratio_of(numbers["replay"], numbers["replay again"]).value,
        rounds=rounds,
        passed=kernel >= KERNEL_TARGET and replayed >= REPLAY_TARGET and ratio.value >= PEER_TARGET and equal,
        bound=f"kernel >= {KERNEL_TARGET} ops/s; replay >= {REPLAY_TARGET} ops/s and >= {PEER_TARGET} times SimPy; "
        f"{schedules} random schedules equal SimPy's event for event",
        details={"kernel_ops_per_s": kernel, "compile_s": compile_s, "first_replay_s": first_s, "ops": _ops(trace), **compared},
    )


def _compared(schedules: int) -> dict:
    progress(f"comparing {schedules} random schedules")
    with Contender(peer_python(), _MODULE, "equality") as simpy:
        return simpy.go(schedules)


def _kernel_trace(steps: int) -> Trace:
    device = _device()
    light_run(device, steps)
    device.close()
    return device.recorder.finish(device.now())


def _kernel_rate(steps: int) -> float:
    device = _device()
    began = perf_counter()
    light_run(device, steps)
    took = perf_counter() - began
    return (len(device.recorder.rows) - _waits(device)) / took


def _waits(device: SimulatedDevice) -> int:
    return sum(row[1] != KIND_OP for row in device.recorder.rows)


def _device() -> SimulatedDevice:
    return SimulatedDevice(machine_for(WAKE_NS, DISPATCH_NS), widths=WIDTHS)


def _compiled(trace: Trace) -> tuple[Program, float, float]:
    """The program, the time to compile it, and that of the first replay, which prepares the later ones."""
    began = perf_counter()
    program = compile_replay(trace)
    compiled = perf_counter()
    replay(program)
    return program, compiled - began, perf_counter() - compiled


def _replay_turn(program: Program, ops: int) -> Callable[[], float]:
    def turn() -> float:
        began = perf_counter()
        for _ in range(REPLAYS):
            replay(program)
        return REPLAYS * ops / (perf_counter() - began)

    return turn


def _ops(trace: Trace) -> int:
    return int((trace["kind"] == KIND_OP).sum())
