"""How the benchmarks measure: contenders take turns, each round gives a ratio, and the median ratio has an interval.

Speeds of a shared machine drift by a factor of two within seconds, so two numbers are comparable only within one round.
Ours runs twice in every round: the ratio of ours to ours is what no difference looks like here.
"""

import json
import platform
import resource
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from math import comb
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import psutil

from labkit.device.cores import available_cores

CONFIDENCE = 0.95
LEAST_ROUNDS = 5
RESULTS = Path("bench.jsonl")

Turn = Callable[[], float]
"""One contender's turn in a round: it works, and gives its number."""


class BenchError(Exception):
    """A benchmark could not be run: what failed, and what to do."""


@dataclass(frozen=True)
class Ratio:
    """The median of per-round ratios; `low` to `high` holds the true median with at least 95 % where rounds allow it."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Line:
    """One benchmark's result, as it is appended to bench.jsonl.

    ours, peer  medians over the rounds, in `unit`; None where there is no such number
    ratio       ours ÷ peer: the median of the rounds' ratios, with its interval `low` to `high`
    aa_ratio    ours ÷ ours of the same rounds: how far from 1 a ratio lies when nothing differs
    passed      whether `bound` holds; None where it was not judged (written as "pass")
    details     further numbers by name
    """

    name: str
    ours: float | None
    peer: float | None
    unit: str
    ratio: float | None
    low: float | None
    high: float | None
    aa_ratio: float | None
    rounds: int
    passed: bool | None
    bound: str
    details: Mapping[str, Any] = field(default_factory=dict)


def in_turns(contenders: Mapping[str, Turn], rounds: int, said: Callable[[str], None] = lambda words: None) -> dict[str, list[float]]:
    """Let every contender take a turn each round, the first to go changing from round to round; their numbers by name.

    Before the rounds each takes one turn that is not counted.
    """
    names = list(contenders)
    for name in names:
        said(f"warming up: {name}")
        contenders[name]()
    numbers: dict[str, list[float]] = {name: [] for name in names}
    for index in range(rounds):
        first = index % len(names)
        for name in [*names[first:], *names[:first]]:
            said(f"round {index + 1} of {rounds}: {name}")
            numbers[name].append(contenders[name]())
    return numbers


def ratio_of(ours: Sequence[float], peer: Sequence[float]) -> Ratio:
    """Ours ÷ peer of each round: the median and its interval."""
    ratios = [mine / theirs for mine, theirs in zip(ours, peer, strict=True)]
    return Ratio(median(ratios), *median_interval(ratios))


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The narrowest pair of order statistics that holds the median with this confidence, whatever the distribution.

    Of five values or fewer not even the extremes reach 95 % (five: 94 %); then they are the interval.
    Source: H. A. David and H. N. Nagaraja, "Order Statistics", 3rd ed., section 7.1.
    """
    ordered = sorted(values)
    n = len(ordered)
    cut, tail = 0, 2 * 0.5**n  # the chance that the median lies outside all values
    while cut + 1 < n - cut - 1:
        wider = tail + 2 * comb(n, cut + 1) * 0.5**n
        if wider > 1 - confidence:
            break
        cut, tail = cut + 1, wider
    return ordered[cut], ordered[n - 1 - cut]


def append_line(line: Line, path: Path = RESULTS) -> dict[str, Any]:
    """Append one JSON line, with the machine and the date; returns what was written."""
    written = {("pass" if name == "passed" else name): value for name, value in asdict(line).items()}
    details = written.pop("details")
    written |= {"machine": machine_words(), "date": datetime.now().astimezone().isoformat(timespec="seconds")}
    if details:
        written["details"] = details
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(written, allow_nan=False) + "\n")
    return written


def machine_words() -> str:
    """`2 cores, x86_64 Linux, Python 3.11.7`."""
    count = available_cores()
    cores = f"{count} core{'s' if count > 1 else ''} of {_processor()}"
    return f"{cores}, {platform.machine()} {platform.system()}, Python {platform.python_version()}"


class Meanwhile:
    """How many cores other programs kept busy while a benchmark ran; a figure that should be near 0.

    Ours is what this process and the children that it has waited for have used.
    """

    def __init__(self) -> None:
        self._began, self._others_s = perf_counter(), _others_s()

    def others_cores(self) -> float:
        """Since this object was made."""
        return max((_others_s() - self._others_s) / (perf_counter() - self._began), 0.0)


def verdict_words(passed: bool | None) -> str:
    """What a line says at its end."""
    return {True: "pass", False: "FAIL", None: "not judged"}[passed]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of text for people, the first to the left, the others to the right."""
    rows = [list(head), *map(list, rows)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return "\n".join(
        "  " + "  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )


def progress(words: str) -> None:
    """Say what is going on, on one line of a terminal; nothing where nobody watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K  {words}", end="", file=sys.stderr, flush=True)


def _others_s() -> float:
    """Seconds of all cores that went to other programs since the machine started."""
    times = psutil.cpu_times()
    everyone = sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return everyone - sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "an unknown processor"
