"""Measure A/B: both settings in turns, while somebody watches how far it is and may stop it."""

from collections.abc import Callable
from pathlib import Path

from labkit import lab
from labkit.panel.setting import Setting
from labkit.result import Compared
from labkit.runner.job import Frame
from labkit.runner.workers import Workers
from labkit.schedule import Budget

ROUNDS, ROUND_S = 5, 1.0
SIMULATED_STEPS = 200
"""A simulation is the same every time: its rounds are there for the form, and cost next to nothing."""


def measure_turns(
    a: Setting,
    b: Setting,
    workers: Workers,
    out: str | Path | None,
    on_progress: Callable[[str, float], None],
    stopping: Callable[[], bool],
) -> Compared:
    """A and B in turns, each saved in `out`. Frames are not streamed meanwhile: nothing but the two runs is going on.

    on_progress  told ("round 2 of 5: B", the share that is done)
    stopping     asked ten times a second; true ends it
    """
    budget = Budget(steps=SIMULATED_STEPS) if b.simulated else Budget(seconds=ROUND_S)

    def on_frame(index: int, side: str, frame: Frame) -> None:
        order = "AB" if index % 2 == 0 else "BA"
        done = 2 * index + order.index(side) + frame.share
        on_progress(f"round {index + 1} of {ROUNDS}: {side}", done / (2 * ROUNDS))
        if stopping():
            workers.stop()

    return lab.measure_in_turns([a.job(budget), b.job(budget)], ROUNDS, workers, out=out, on_frame=on_frame)
