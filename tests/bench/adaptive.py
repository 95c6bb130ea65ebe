"""The adaptive policy under a step of the rate from 0.3 to 0.9 of capacity, against the best fixed setting chosen in hindsight.

The model takes 2 ms a batch and 0.5 ms a request, so batches of 16 give a capacity of 1,600 requests a second. Every fixed setting of a grid serves the same
schedule on the simulated device; the best of them by goodput then takes turns with the adaptive policy on the cpu device, for real.
"""

from statistics import median
from typing import Any

import labkit
from labkit.runner.workers import Workers
from tests.bench.measure import Line, progress, ratio_of

NAME = "adaptive"
BATCH_MS, ITEM_MS, MAX_BATCH = 2.0, 0.5, 16
CAPACITY = MAX_BATCH / (BATCH_MS + ITEM_MS * MAX_BATCH) * 1000
SLO_MS = 30.0
TARGET = 0.97
SIZES, DELAYS_MS = (1, 2, 4, 8, 16, 32, 64), (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)
SETTING: dict[str, Any] = {
    "model": "fixed", "batch_ms": BATCH_MS, "item_ms": ITEM_MS, "arrivals": "step", "rate": 0.6 * CAPACITY, "slo": SLO_MS, "warmup": 8,
}  # fmt: skip
ADAPTIVE = {"policy": "adaptive", "max_batch": 64}


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    sizes, delays, seconds, rounds = (SIZES[::3], DELAYS_MS[::3], 2.0, 1) if quick else (SIZES, DELAYS_MS, 10.0, 5)
    with Workers() as pool:
        fixed = [{"policy": "fixed", "max_batch": size, "max_delay": delay} for size in sizes for delay in delays]
        found = {}
        for number, setting in enumerate([ADAPTIVE, *fixed]):
            progress(f"simulated {number + 1} of {len(fixed) + 1}")
            found[number] = _goodput(pool, "simulated:l4", seconds, 0, setting)
        best = max(range(1, len(fixed) + 1), key=found.__getitem__)
        ours, theirs = [], []
        for number in range(rounds):
            for setting, numbers in ((ADAPTIVE, ours), (fixed[best - 1], theirs))[:: 1 if number % 2 else -1]:
                progress(f"measured, round {number + 1} of {rounds}")
                numbers.append(_goodput(pool, "cpu", seconds, number, setting))
    simulated, measured = found[0] / found[best], ratio_of(ours, theirs)
    words = ", ".join(f"{name} {value}" for name, value in fixed[best - 1].items())
    print(f"  the best of {len(fixed)} fixed settings: {words}")
    print(f"  simulated: adaptive {found[0]:.0f} requests/s in time, the best fixed one {found[best]:.0f}: {simulated:.3f}")
    print(f"  measured on the CPU: adaptive {median(ours):.0f}, the best fixed one {median(theirs):.0f}: {measured}; target ≥ {TARGET:g}")
    return Line(
        name=NAME, ours=median(ours), peer=median(theirs), unit="requests/s in time", ratio=measured.value, low=measured.low, high=measured.high,
        aa_ratio=None, rounds=rounds, passed=measured.value >= TARGET and simulated >= TARGET,
        bound=f"goodput >= {TARGET:g} of the best fixed setting in hindsight, simulated and measured", details={"simulated": simulated, "best": fixed[best - 1]},
    )  # fmt: skip


def _goodput(pool: Workers, device: str, seconds: float, seed: int, setting: dict[str, Any]) -> float:
    served = labkit.run("batching", device=device, seconds=seconds, seed=seed, pool=pool, **SETTING, **setting).checked().shown("").summary.requests
    return served.goodput.value or 0.0 if served is not None else 0.0
