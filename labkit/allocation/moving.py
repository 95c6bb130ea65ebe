"""A scaler that acts on a device while the server runs: it looks at the load whenever the server's loop comes by, and turns what the rule names.

What it turned is read back each time; a single disagreement, and the line is no longer "applied".
"""

from collections.abc import Callable
from typing import Any

from labkit.allocation.ledger import Ledger, applied
from labkit.allocation.load import Load
from labkit.allocation.policy import Scaling
from labkit.allocation.scaler import Scaler
from labkit.trace import Recorder
from labkit.units import NS_PER_MS

MOVES_KEPT = 1000


class Moving:
    """One rule at work.

    turn  puts a share in force and reads it back: what was read back, and "" or what does not agree
    """

    def __init__(self, rule: Scaling, recorder: Recorder, turn: Callable[[float], tuple[Any, str]]):
        self.key = f"scaling.{rule.resource}"
        self.moves: list[tuple[float, float]] = []
        self._rule, self._scaler, self._load, self._turn = rule, Scaler(rule), Load(recorder), turn
        self._read_back: Any = None
        self._problem = ""
        self._since_ns = 0
        self._weighed = 0.0
        self._count = 0
        self._lowest = self._highest = self._scaler.share
        self._put_in_force(self._scaler.share)

    @property
    def period_ns(self) -> int:
        """How often it wants to look."""
        return round(self._rule.period_ms * NS_PER_MS)

    def look(self, now_ns: int) -> None:
        """Move the share, if it is time to and the load says so."""
        if self._problem or not self._scaler.is_time(now_ns):
            return
        before = self._scaler.share
        load = self._load.waiting() if self._rule.by == "queue" else self._load.utilization(now_ns)
        share = self._scaler.step(now_ns, load)
        if share == before:
            return
        self._weigh(now_ns, before)
        self._count += 1
        self._lowest, self._highest = min(self._lowest, share), max(self._highest, share)
        if len(self.moves) < MOVES_KEPT:
            self.moves.append((now_ns / NS_PER_MS, share))
        self._put_in_force(share)

    def write(self, ledger: Ledger, now_ns: int) -> None:
        """Say in the ledger how it went until now."""
        self._weigh(now_ns, self._scaler.share)
        wanted = self._rule.model_dump()
        words = f"by {self._rule.by}: moved {self._count} times, between {self._lowest:g} and {self._highest:g}"
        if now_ns > 0:
            words += f", {self._weighed / now_ns:.3g} on average"
        first = [[round(at_ms, 6), share] for at_ms, share in self.moves]
        ledger.write(applied(self.key, wanted, words, {"share": self._scaler.share, "in_force": self._read_back, "moves": first}))
        if self._problem:
            ledger.withdraw(self.key, self._problem)

    def _put_in_force(self, share: float) -> None:
        self._read_back, self._problem = self._turn(share)

    def _weigh(self, now_ns: int, share: float) -> None:
        self._weighed += share * max(now_ns - self._since_ns, 0)
        self._since_ns = now_ns
