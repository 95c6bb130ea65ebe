"""When a share moves, and how far: thresholds with hysteresis, steps, a period and a cool-down. Pure: it reads no clock and turns nothing.

Counts in whole steps from the minimum, so that no rounding adds up over a long run.
"""

from labkit.allocation.policy import Scaling
from labkit.units import NS_PER_MS


class Scaler:
    """One share under a rule. It begins at the minimum."""

    def __init__(self, rule: Scaling):
        self._rule = rule
        self._steps = 0
        self._most = _steps_between(rule)
        self._period_ns, self._cooldown_ns = round(rule.period_ms * NS_PER_MS), round(rule.cooldown_ms * NS_PER_MS)
        self._looked_ns = 0
        self._moved_ns: int | None = None

    @property
    def share(self) -> float:
        """The share now: the minimum and a whole number of steps, at most the maximum."""
        return min(round(self._rule.minimum + self._steps * self._rule.step, 9), self._rule.maximum)

    def is_time(self, now_ns: int) -> bool:
        """Whether a period has passed since the last look."""
        return now_ns - self._looked_ns >= self._period_ns

    def step(self, now_ns: int, load: float) -> float:
        """Look at the load, and move the share by at most one step. Returns the share from now on.

        now_ns  time of this look, not before the last one
        load    requests that wait, or the share of busy time, as the rule says
        """
        if not self.is_time(now_ns):
            return self.share
        self._looked_ns = now_ns
        if self._moved_ns is not None and now_ns - self._moved_ns < self._cooldown_ns:
            return self.share
        wanted = self._steps + (load >= self._rule.high) - (load <= self._rule.low)
        wanted = min(max(wanted, 0), self._most)
        if wanted != self._steps:
            self._steps, self._moved_ns = wanted, now_ns
        return self.share


def _steps_between(rule: Scaling) -> int:
    """Steps from the minimum to the maximum; the last one may be shorter."""
    exact = round((rule.maximum - rule.minimum) / rule.step, 6)
    return int(exact) + (exact > int(exact))
