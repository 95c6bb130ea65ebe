"""How results become words on a terminal: progress bars on stderr, JSON on stdout, one line for each thing made."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from labkit.lab import Run
from labkit.runner.alerting import alerts_of
from labkit.runner.job import Frame


def say(*words: Any) -> None:
    """A line for people, on stderr."""
    print(*words, file=sys.stderr, flush=True)


def print_json(data: Any) -> None:
    """The one object on stdout."""
    print(json.dumps(data, allow_nan=False, indent=1, ensure_ascii=False), flush=True)


@contextmanager
def progress_bar(words: str) -> Iterator[Any]:
    """A bar that runs from 0 to 100 %; the function given moves it to a share. Silent where stderr is not a terminal."""
    from tqdm import tqdm

    form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
    with tqdm(total=1.0, desc=words, bar_format=form, leave=False, disable=None, file=sys.stderr) as bar:

        def move(share: float) -> None:
            bar.update(max(min(share, 1.0) - bar.n, 0.0))

        yield move


@contextmanager
def run_bar(words: str) -> Iterator[Any]:
    """A progress bar that takes a run's frames."""
    with progress_bar(words) as move:

        def on_frame(frame: Frame) -> None:
            move(frame.share)

        yield on_frame


def run_json(run: Run) -> dict[str, Any]:
    """A run as one JSON object: its record and where it lies."""
    return {**run.record.as_dict(), "path": None if run.path is None else str(run.path)}


def say_device(asked: str, run: Run) -> None:
    """What `auto` chose."""
    if asked == "auto":
        say(f"note: auto took {run.record.device} ({run.record.device_label})")


def verdict_words(run: Run) -> str:
    """`WEAK: only 12 completions counted; 20 are wanted`."""
    verdict = run.record.verdict
    return f"{verdict.grade}: {'; '.join(verdict.reasons) or 'nothing speaks against these numbers'}"


def say_notes(run: Run) -> None:
    """The record's notes, each a line."""
    for note in run.record.notes:
        say(f"note: {note}")


def say_alerts(run: Run) -> None:
    """Alerts that fired, and those that were not evaluated, each a line. What is ok is not spoken of."""
    for alert in alerts_of(run.record):
        if alert.level != "ok":
            say(alert.line)
