"""The same server under MLPerf LoadGen and under our own load generator: do both see the same latencies?

The batching kernel on the cpu device with a model of 5 ms a batch and 1 ms a request, 8 at most, at 60 % of what that can serve. LoadGen's Server scenario issues at the times
of a Poisson process; ours then replays the very times that LoadGen had scheduled, so that what differs is the generator and nothing else. Both count from when a request was
scheduled: LoadGen to when it is told of the answer, ours to when the model has ended. In the Offline scenario all samples are there at once: samples per second.

LoadGen and the server share a process and its interpreter lock, as ours does. Source: MLCommons inference, loadgen (pip package `mlcommons-loadgen`).
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tests.bench.contender import Contender
from tests.bench.measure import Line, Ratio, in_turns, progress, ratio_of, table
from tests.bench.peers import peer_python

NAME = "loadgen-mlperf"
SHARE_TARGET, ABSOLUTE_TARGET_MS = 0.05, 0.2
JUDGED = ("p50_ms", "p90_ms")
LOADGEN, OURS, AGAIN = "LoadGen", "ours", "ours again"
SERVER, OFFLINE = {LOADGEN: 0, OURS: 1, AGAIN: 1}, {LOADGEN: 2, OURS: 3, AGAIN: 3}
"""The kinds of turns of `contenders/mlperf_driven.py`."""

Turns = Mapping[str, Sequence[Mapping[str, Any]]]
"""What each generator saw in each round."""


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    seconds, rounds = (1.0, 1) if quick else (8.0, 5)
    with Contender(peer_python(), "tests.bench.contenders.mlperf_driven", str(seconds)) as driven:
        server, offline = (_turns(driven, kinds, rounds) for kinds in (SERVER, OFFLINE))
    apart = {what: apart_ms(server, what) for what in JUDGED}
    allowed = {what: allowed_ms(_middle(server[LOADGEN], what)) for what in JUDGED}
    per_s = ratio_of(_values(offline[OURS], "per_s"), _values(offline[LOADGEN], "per_s"))
    _say(server, offline, apart, allowed, per_s)
    ratio, again = (ratio_of(_values(server[name], "p90_ms"), _values(server[of], "p90_ms")) for name, of in ((OURS, LOADGEN), (OURS, AGAIN)))
    return Line(
        name=NAME, ours=_middle(server[OURS], "p90_ms"), peer=_middle(server[LOADGEN], "p90_ms"), unit="ms (p90)", ratio=ratio.value, low=ratio.low,
        high=ratio.high, aa_ratio=again.value, rounds=rounds,
        passed=all(abs(apart[what]) <= allowed[what] for what in JUDGED) and abs(per_s.value - 1) <= SHARE_TARGET,
        bound=f"p50 and p90 within {SHARE_TARGET:.0%} or {ABSOLUTE_TARGET_MS:g} ms of LoadGen's, Offline samples/s within {SHARE_TARGET:.0%}",
        details={"server": _medians(server), "offline": _medians(offline), "apart_ms": apart, "offline_ratio": [per_s.value, per_s.low, per_s.high]},
    )  # fmt: skip


def apart_ms(turns: Turns, what: str) -> float:
    """Ours less LoadGen's: the median of the rounds' differences."""
    return median(mine[what] - theirs[what] for mine, theirs in zip(turns[OURS], turns[LOADGEN], strict=True))


def allowed_ms(loadgen_ms: float) -> float:
    """How far apart the two may be."""
    return max(SHARE_TARGET * loadgen_ms, ABSOLUTE_TARGET_MS)


def _turns(driven: Contender, kinds: Mapping[str, int], rounds: int) -> Turns:
    """Rounds in turns. LoadGen's turn before the rounds is the one whose schedule ours replays; LoadGen's seed is the same in all of them."""
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in kinds}

    def turn(name: str) -> float:
        seen[name].append(driven.go(kinds[name]))
        return seen[name][-1]["p90_ms"]

    in_turns({name: lambda name=name: turn(name) for name in kinds}, rounds, progress)
    return {name: each[1:] for name, each in seen.items()}


def _values(turns: Sequence[Mapping[str, Any]], what: str) -> list[float]:
    return [turn[what] for turn in turns]


def _middle(turns: Sequence[Mapping[str, Any]], what: str) -> float:
    return median(_values(turns, what))


def _medians(turns: Turns) -> dict[str, dict[str, float]]:
    return {name: {what: _middle(each, what) for what in each[0] if what != "verdict"} for name, each in turns.items()}


def _say(server: Turns, offline: Turns, apart: Mapping[str, float], allowed: Mapping[str, float], per_s: Ratio) -> None:
    requests = server[LOADGEN][0]["requests"]
    valid = sum(turn["verdict"] == "VALID" for turn in server[LOADGEN])
    print(f"  Server scenario, {requests} requests a turn at {_middle(server[LOADGEN], 'per_s'):.0f} a second; LoadGen calls {valid} of {len(server[LOADGEN])} VALID")
    columns = ("p50_ms", "p90_ms", "p99_ms", "late_p50_ms", "late_p99_ms")
    print(table(["ms", "p50", "p90", "p99", "late p50", "late p99"], [[name, *(f"{_middle(turns, what):.2f}" for what in columns)] for name, turns in server.items()]))
    for what in JUDGED:
        again = median(mine[what] - other[what] for mine, other in zip(server[OURS], server[AGAIN], strict=True))
        own = median(turn[f"own_{what}"] - turn[what] for turn in server[LOADGEN])
        print(f"    {what[:3]}: ours {apart[what]:+.2f} ms apart, allowed {allowed[what]:.2f}; ours against ours {again:+.2f}; the server's own record of LoadGen's run {own:+.2f}")
    rates = ", ".join(f"{name} {_middle(turns, 'per_s'):.1f}" for name, turns in offline.items())
    print(f"  Offline scenario, {offline[LOADGEN][0]['requests']} samples at once, a second: {rates}; ours of LoadGen's {per_s}")
