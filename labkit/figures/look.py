"""How one run looks in every figure: its colour, how strong its lanes are drawn, solid or hatched, full or dashed.

A and B differ by position, name and strength (A muted, B saturated). A prediction takes the colour of the run
that it predicts, hatched and dashed, so that it stands beside it and is never taken for it. What may not be relied on
is paler: a WEAK run half as strong, an INVALID one a quarter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.figures.colours import run_colour, with_alpha
from labkit.figures.shown import Shown, measured_run_of
from labkit.metrics.verdict import Grade

HATCH = "/"
_MUTED = 0.55
_STRENGTH = {"WEAK": 0.5, "INVALID": 0.25}


@dataclass(frozen=True)
class Look:
    """The look of one run: `slot` 0 is A, 1 is B."""

    slot: int
    measured: bool
    grade: Grade | None = None

    @property
    def colour(self) -> str:
        """The run's own colour, for what belongs to no lane."""
        return run_colour(self.slot)

    @property
    def strength(self) -> float:
        """1, or less for what may not be relied on."""
        return _STRENGTH.get(self.grade or "", 1.0)

    @property
    def line_colour(self) -> str:
        """The run's own colour, as strong as the run may be trusted."""
        return self.colour if self.strength == 1.0 else with_alpha(self.colour, self.strength)

    @property
    def dash(self) -> str:
        """Lines: full where measured, dashed where simulated."""
        return "solid" if self.measured else "dash"

    def marker(self, colours: str | Sequence[str], strength: float = 1.0) -> dict[str, Any]:
        """A bar's marker: solid where measured, hatched where simulated; a lane's colour is muted for A."""
        several, strength = not isinstance(colours, str), strength * self.strength
        each = [colours] if isinstance(colours, str) else list(colours)
        full = [with_alpha(colour, strength) for colour in each]
        if self.measured:
            return {"color": full if several else full[0], "line": {"width": 0}}
        pale = [with_alpha(colour, 0.16 * strength) for colour in each]
        pattern = {"shape": HATCH, "size": 7, "solidity": 0.3, "fillmode": "replace"}
        pattern |= {"fgcolor": full if several else full[0], "bgcolor": pale if several else pale[0]}
        line = {"width": 1, "color": full if several else full[0]}
        return {"color": full if several else full[0], "pattern": pattern, "line": line}

    def lane_marker(self, colours: str | Sequence[str]) -> dict[str, Any]:
        """A marker in lane colours."""
        return self.marker(colours, _MUTED if self.slot == 0 else 1.0)


def looks(runs: Sequence[Shown]) -> list[Look]:
    """One look a run, in order. A run that is alone, or has only its predictions beside it, is drawn saturated."""
    owners = [(measured_run_of(run, runs) or run).label for run in runs]
    names = list(dict.fromkeys(owners))
    first = 1 if len(names) == 1 else 0
    return [Look(first + names.index(owner), run.measured, run.grade) for owner, run in zip(owners, runs, strict=True)]
