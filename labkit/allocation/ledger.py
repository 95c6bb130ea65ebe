"""What of a policy is in force: a line for each thing it asks for, applied or not, with what was read back or the reason.

Nothing else may say "applied": a line becomes that only with a value that was read back.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Line:
    """One thing that a policy asks for.

    key        "reservation.cores"
    wanted     what the file says, as plain data
    applied    whether it is in force
    words      how it acts, or why it is not applied
    read_back  what was read from the system afterwards, as plain data; None where it is not applied
    """

    key: str
    wanted: Any
    applied: bool
    words: str
    read_back: Any = None

    @property
    def note(self) -> str:
        """`applied: reservation.cores=1 (bound to core 0)`."""
        state = "applied" if self.applied else "NOT applied"
        return f"{state}: {self.key}={_text(self.wanted)} ({self.words})"


def applied(key: str, wanted: Any, words: str, read_back: Any) -> Line:
    """A line for what is in force, as was read back."""
    return Line(key, wanted, True, words, read_back)


def not_applied(key: str, wanted: Any, reason: str) -> Line:
    """A line for what is not in force."""
    return Line(key, wanted, False, reason)


@dataclass
class Ledger:
    """The lines of one run under a policy."""

    policy: str = ""
    lines: dict[str, Line] = field(default_factory=dict)

    def write(self, line: Line) -> None:
        """Add a line; a later one of the same key replaces it."""
        self.lines[line.key] = line

    def withdraw(self, key: str, reason: str) -> None:
        """What was applied is so no longer."""
        line = self.lines[key]
        self.write(not_applied(key, line.wanted, reason))

    def is_applied(self, key: str) -> bool:
        """Whether this is in force."""
        return key in self.lines and self.lines[key].applied

    def notes(self) -> Iterator[str]:
        """A note for people, of each line."""
        for line in self.lines.values():
            yield f"allocation {self.policy}: {line.note}"

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the record; {} where there is no policy."""
        return {"policy": self.policy, "lines": [asdict(line) for line in self.lines.values()]} if self.policy else {}


def _text(value: Any) -> str:
    """What a file says, in short: a rule by its range, classes by their levels."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return f"{value['minimum']:g} to {value['maximum']:g}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ", ".join(f"{each['name']} {each['level']}" for each in value)
    return str(value)
