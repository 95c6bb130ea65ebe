"""Weights streamed from disk through a pile of layers on the CPU: ours against what bounds it, and against Hugging Face accelerate.

The file lies in the system's cache for everybody: what is compared is how the reads are hidden, not the disk. The bound of a round is the longer
of computing alone and reading alone, measured in that round; ours copies once more (host buffer to device buffer), which must be hidden as well.
"""

import sys
from contextlib import ExitStack
from statistics import median
from typing import NamedTuple

from tests.bench.contender import Contender
from tests.bench.measure import BenchError, Line, Ratio, progress, ratio_of, table
from tests.bench.peers import peer_python

NAME = "disk-stream"
OF_BOUND = 1.2
FASTER = {8: 1.5, 64: 1.15, 256: 1.15}
"""Rows of a pass → how many times as fast as accelerate ours must be."""


class Found(NamedTuple):
    """One batch size: seconds a pass of ours ÷ the bound, accelerate's ÷ ours, ours ÷ ours a round later."""

    of_bound: Ratio
    faster: Ratio
    again: float
    ours_s: float
    theirs_s: float


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, passes = (2, 3) if quick else (7, 10)
    found = {rows: _measured(rows, rounds, passes) for rows in FASTER}
    rows = [
        [str(rows), f"{1e3 * each.ours_s:.1f}", f"{1e3 * each.theirs_s:.1f}", str(each.of_bound), str(each.faster), f"≥ {FASTER[rows]}"]
        for rows, each in found.items()
    ]
    print(table(["rows", "ours, ms a pass", "accelerate", "ours ÷ bound", "accelerate ÷ ours", "target"], rows))
    print(f"  target: ours ≤ {OF_BOUND} of the longer of computing and reading")
    worst = max(found.values(), key=lambda each: each.of_bound.value)
    passed = worst.of_bound.value <= OF_BOUND and all(each.faster.value >= FASTER[rows] for rows, each in found.items())
    return Line(
        name=NAME,
        ours=worst.ours_s,
        peer=worst.theirs_s,
        unit="s a pass",
        ratio=worst.of_bound.value,
        low=worst.of_bound.low,
        high=worst.of_bound.high,
        aa_ratio=median(each.again for each in found.values()),
        rounds=rounds,
        passed=passed,
        bound=f"<= {OF_BOUND} of max(compute, read), and >= {', '.join(map(str, FASTER.values()))} times as fast as accelerate at {', '.join(map(str, FASTER))} rows",
        details={str(rows): {"of_bound": each.of_bound.value, "faster": each.faster.value} for rows, each in found.items()},
    )


def _measured(rows: int, rounds: int, passes: int) -> Found:
    with ExitStack() as stack:
        ours = stack.enter_context(Contender(sys.executable, "tests.bench.contenders.disk_ours", str(rows)))
        theirs = stack.enter_context(Contender(peer_python(), "tests.bench.contenders.disk_accelerate", str(rows)))
        mine, bounds, others = [], [], []
        for index in range(rounds):
            progress(f"{rows} rows, round {index + 1} of {rounds}")
            told = ours.go(passes)
            mine.append(told["pass_s"])
            bounds.append(max(told["compute_s"], told["read_s"]))
            answer = theirs.go(passes)
            if abs(answer["result"] - told["result"]) > 1e-3 * abs(told["result"]):
                raise BenchError(f"accelerate computes {answer['result']}, ours {told['result']}: they do not do the same")
            others.append(answer["pass_s"])
    again = median(one / other for one, other in zip(mine[1:], mine, strict=False))
    return Found(ratio_of(mine, bounds), ratio_of(others, mine), again, median(mine), median(others))
