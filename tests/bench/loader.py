"""Decode and augment with two workers: images per second, as a share of what two processes reach that hand nothing over.

The peers do the same work on the same photos, each lap of them shuffled: torch's DataLoader, SPDL and grain, each in its own
process, the latter two in both of their forms (by batch and by image, with threads and with processes).
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median

from tests.bench.contender import Contender
from tests.bench.measure import Line, Ratio, in_turns, progress, ratio_of, table
from tests.bench.peers import peer_python

NAME = "loader"
TARGET = 0.80
_MODULE = "tests.bench.contenders.loader_"


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, batches = (2, 10) if quick else (11, 40)
    with ExitStack() as stack:
        contenders = {name: _turn(stack, batches, *how) for name, how in _contenders().items()}
        contenders["ours again"] = contenders["ours"]
        numbers = in_turns(contenders, rounds, progress)
    bound = ratio_of(numbers["ours"], numbers["bound"])
    others = {name: ratio_of(numbers["ours"], rates) for name, rates in numbers.items() if name not in ("ours", "ours again", "bound")}
    print(_table(numbers))
    print(f"  ours reaches {bound} of the bound; target ≥ {TARGET:.2f}")
    slower = [name for name, ratio in others.items() if ratio.high < 1]
    print(f"  slower than: {', '.join(slower) or 'none of them'}")
    return Line(
        name=NAME,
        ours=median(numbers["ours"]),
        peer=median(numbers["bound"]),
        unit="images/s",
        ratio=bound.value,
        low=bound.low,
        high=bound.high,
        aa_ratio=ratio_of(numbers["ours"], numbers["ours again"]).value,
        rounds=rounds,
        passed=bound.value >= TARGET and not slower,
        bound=f"median share of the two-process bound >= {TARGET:.2f}; slower than no peer (the interval of ours ÷ peer reaches 1)",
        details={name: _plain(ratio, median(numbers[name])) for name, ratio in others.items()},
    )


def _contenders() -> dict[str, tuple[str, ...]]:
    ours, peers = sys.executable, str(peer_python())
    return {
        "bound": (ours, "bound"),
        "ours": (ours, "ours"),
        "torch DataLoader": (ours, "torch"),
        "SPDL, by batch": (peers, "spdl", "batch"),
        "SPDL, by image": (peers, "spdl", "image"),
        "grain, threads": (peers, "grain", "threads"),
        "grain, processes": (peers, "grain", "processes"),
    }


def _turn(stack: ExitStack, batches: int, python: str, module: str, *arguments: str) -> Callable[[], float]:
    contender = stack.enter_context(Contender(python, _MODULE + module, *arguments))
    return lambda: contender.go(batches)


def _table(numbers: dict[str, list[float]]) -> str:
    ours = numbers["ours"]
    rows = [[name, f"{median(rates):.0f}", str(ratio_of(ours, rates))] for name, rates in numbers.items()]
    return table(["loader", "images/s", "ours ÷ this"], rows)


def _plain(ratio: Ratio, images_per_s: float) -> dict[str, float]:
    return {"images_per_s": images_per_s, "ratio": ratio.value, "low": ratio.low, "high": ratio.high}
