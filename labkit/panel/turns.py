"""Measure A/B: both settings in turns, while somebody watches how far it is and may stop it."""

from collections.abc import Callable, Sequence

from labkit import lab
from labkit.device.machine import load_machine
from labkit.errors import MachineError
from labkit.figures.shown import Shown
from labkit.metrics.verdict import COMPLETIONS_WANTED
from labkit.panel.setting import Setting
from labkit.result import Compared
from labkit.runner.job import Frame
from labkit.runner.probe_passport import detectable
from labkit.runner.workers import Workers
from labkit.schedule import Budget
from labkit.units import NS_PER_S, format_percent

ROUNDS, ROUND_S = 5, 1.0
STEPS_A_ROUND, LONGEST_ROUND_S = COMPLETIONS_WANTED + 5, 10.0
SIMULATED_STEPS = 200
"""A simulation is the same every time: its rounds are there for the form, and cost next to nothing."""


def round_seconds(seen: Sequence[Shown]) -> float:
    """How long a round should last: a second, or as long as the slower of the sides seen takes for the steps that a verdict asks for."""
    intervals = [shown.summary.step_interval["mean"].value for shown in seen if "mean" in shown.summary.step_interval]
    longest_s = max((interval for interval in intervals if interval), default=0.0) / NS_PER_S
    return min(max(ROUND_S, STEPS_A_ROUND * longest_s), LONGEST_ROUND_S)


def detectable_here() -> str:
    """`5 rounds here show effects from 4 % up`: what the calibration's noise allows; how to know it where there is none."""
    try:
        noise = load_machine("this").get("round_noise_share")
    except MachineError:
        noise = None
    if noise is None:
        return "How small an effect can be shown here is not known: run labkit calibrate."
    return f"{ROUNDS} rounds here show effects from {format_percent(detectable(noise, ROUNDS))} up (labkit calibrate)."


def measure_turns(
    a: Setting,
    b: Setting,
    workers: Workers,
    on_progress: Callable[[str, float], None],
    stopping: Callable[[], bool],
    seconds: float,
) -> Compared:
    """A and B in turns. Frames are not streamed meanwhile: nothing but the two runs is going on.

    on_progress  told ("round 2 of 5: B", the share that is done)
    stopping     asked ten times a second; true ends it
    seconds      how long a measured round lasts
    """
    budget = Budget(steps=SIMULATED_STEPS) if b.simulated else Budget(seconds=seconds)

    def on_frame(index: int, side: str, frame: Frame) -> None:
        order = "AB" if index % 2 == 0 else "BA"
        done = 2 * index + order.index(side) + frame.share
        on_progress(f"round {index + 1} of {ROUNDS}: {side}", done / (2 * ROUNDS))
        if stopping():
            workers.stop()

    return lab.measure_in_turns([a.job(budget), b.job(budget)], ROUNDS, workers, on_frame=on_frame)
