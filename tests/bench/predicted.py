"""The line of a benchmark that holds predictions against measurements: one ratio a setting, judged by the median of their errors."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tests.bench.measure import Line, median_interval


def prediction_line(
    name: str, ratios: Mapping[str, float], references: Sequence[float], rounds: int, target: float, details: dict[str, Any] | None = None
) -> Line:
    """`ratios`: setting in words → predicted ÷ measured; `references`: the reference setting's rate, run after run."""
    values = list(ratios.values())
    error, (low, high) = median(abs(ratio - 1) for ratio in values), median_interval(values)
    return Line(
        name=name,
        ours=error,
        peer=None,
        unit="median |predicted ÷ measured - 1|",
        ratio=median(values),
        low=low,
        high=high,
        aa_ratio=median(a / b for a, b in zip(references[1:], references, strict=False)),
        rounds=rounds,
        passed=error <= target,
        bound=f"median error over {len(values)} settings <= {target}",
        details={"predicted_over_measured": dict(ratios), **(details or {})},
    )
