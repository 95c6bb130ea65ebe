"""What a session says of itself: one immutable state, replaced as a whole, from which every control is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from labkit.errors import (
    DataError,
    KnobError,
    LabkitError,
    MachineError,
    NoSuchDevice,
    StoreError,
    WorkerDied,
)
from labkit.figures.guess import Answer, Guess
from labkit.figures.shown import Shown
from labkit.metrics.verdict import Verdict
from labkit.monitor.alerts import Alert
from labkit.monitor.strip import Dial
from labkit.panel.frame import StripFrame
from labkit.panel.setting import Pinned, Setting
from labkit.panel.watch import PartOfRun
from labkit.result import Compared, Run
from labkit.runner.record import RunRecord

Phase = Literal["idle", "waiting", "starting", "running", "stopping", "comparing"]


@dataclass(frozen=True)
class Message:
    """Something to tell, and what to do about it."""

    level: Literal["info", "warning", "error"]
    words: str
    what_to_do: str = ""


@dataclass(frozen=True)
class State:
    """A session at one moment.

    words   what it is doing, in a few words
    seq     the number of the last command that it has taken up
    share   how much of a comparison is done
    guess   what the user expects of B; committed before it is measured
    """

    setting: Setting
    phase: Phase = "idle"
    words: str = "ready"
    seq: int = 0
    run_for: float | None = None
    message: Message | None = None
    a: Pinned | None = None
    share: float | None = None
    guess: Guess | None = None
    alerts: tuple[Alert, ...] = ()
    views: tuple[str, ...] = ()

    @property
    def busy(self) -> bool:
        """Whether something is going on."""
        return self.phase != "idle"


@dataclass(frozen=True)
class Result:
    """What there is to show beside what moves.

    a         None where nothing is pinned, or it has not been measured
    part      B, while it runs: summarised by whoever shows it
    run       B, when it has ended
    verdict   how far B may be trusted: of what is shown of it, which may be the part since the last toggle
    compared  A and B, measured in turns
    guess     and the answers to it
    views     what is to be shown besides
    first_step  the first step of B that counts: the end of its warm-up, or of what was on its way at the last toggle
    """

    a: Shown | None = None
    part: PartOfRun | None = None
    run: Run | None = None
    b: Shown | None = None
    verdict: Verdict | None = None
    compared: Compared | None = None
    guess: Guess | None = None
    predicted: Answer | None = None
    measured: Answer | None = None
    views: tuple[str, ...] = ()
    first_step: int = 0


class Listener(Protocol):
    """Whoever shows a session. Called from the session's threads; returns at once."""

    def on_state(self, state: State) -> None:
        """The session's state has changed."""
        ...

    def on_frame(self, frame: StripFrame) -> None:
        """A run goes on."""
        ...

    def on_dials(self, dials: Sequence[Dial]) -> None:
        """The sensors have been read."""
        ...

    def on_result(self, result: Result) -> None:
        """There is something new to show; what came before and has not been shown need not be."""
        ...


def message_of(error: BaseException) -> Message:
    """An error as a message that says what to do."""
    if isinstance(error, LabkitError):
        hints = {
            KnobError: "choose a value that is allowed",
            NoSuchDevice: "choose another device",
            MachineError: "choose another machine, or calibrate this one with `labkit calibrate`",
            DataError: "check the folder that `data` names",
            StoreError: "name another runs folder with out, or make room in this one",
            WorkerDied: "press Run to start a new one",
        }
        hint = next((words for kind, words in hints.items() if isinstance(error, kind)), "")
        return Message("error", str(error), hint)
    return Message("error", f"{type(error).__name__}: {error}", "press Run to try again; the traceback is in panel.errors")


def message_of_failure(record: RunRecord) -> Message:
    """A failed run as a message."""
    return Message("error", f"the run failed: {record.reason}", "turn what caused it, or press Run to try again")
