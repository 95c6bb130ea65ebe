"""The distribution of step intervals: every sample, so that no percentile needs to be invented."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from labkit.figures.look import Look, looks
from labkit.figures.numbers import TimeUnit, time_unit
from labkit.figures.shown import Shown
from labkit.figures.theme import Theme, dress, plain, say
from labkit.metrics.window import completions

POINTS = 2_000
_LOG_BEYOND = 20


def distribution(runs: Sequence[Shown], theme: Theme = "either") -> go.Figure:
    """The share of step intervals no longer than x, one curve a run, over the steady window.

    Beyond 2000 samples the curve is thinned evenly by rank; its first and last sample are kept.
    """
    figure = go.Figure()
    samples = [step_intervals_ns(run) for run in runs]
    filled = [each for each in samples if len(each)]
    unit = time_unit(max((float(np.median(each)) for each in filled), default=0.0))
    for run, look, each in zip(runs, looks(runs), samples, strict=True):
        if len(each):
            figure.add_trace(_curve(run, look, each, unit))
    dress(figure, "Distribution of step intervals", runs, theme, height=320)
    figure.update_yaxes(title_text="share of steps, %", range=[0, 104])
    figure.update_xaxes(title_text=f"step interval ({unit.name})")
    if filled and not _is_wide(filled):
        figure.update_xaxes(range=_with_margin(filled, unit))
    elif filled:
        figure.update_xaxes(type="log", title_text=f"step interval ({unit.name}, logarithmic)")
    return figure if filled else say(figure, "no trace with two completed steps or more")


def step_intervals_ns(run: Shown) -> np.ndarray:
    """The times between completed steps within the steady window, ascending; empty without a trace."""
    if run.trace is None:
        return np.empty(0, np.int64)
    first_ns, last_ns = run.summary.window_ns
    ends_ns = run.trace["end_ns"][completions(run.trace)]
    return np.sort(np.diff(ends_ns[(ends_ns >= first_ns) & (ends_ns <= last_ns)]))


def _curve(run: Shown, look: Look, samples: np.ndarray, unit: TimeUnit) -> go.Scatter:
    n = len(samples)
    ranks = np.unique(np.linspace(0, n - 1, min(n, POINTS)).round().astype(np.int64))
    x = np.concatenate([samples[:1], samples[ranks]]) / unit.ns
    y = np.concatenate([[0.0], 100 * (ranks + 1) / n])
    return go.Scatter(
        x=x,
        y=y,
        mode="lines",
        line={"shape": "hv", "color": look.line_colour, "width": 2, "dash": look.dash},
        name=plain(f"{run.name}, n = {n}"),
        hovertemplate=f"{plain(run.name)}<br>%{{y:.1f}} % within %{{x:.4g}} {unit.name}<extra></extra>",
    )


def _with_margin(samples: Sequence[np.ndarray], unit: TimeUnit) -> list[float]:
    least, greatest = min(each[0] for each in samples), max(each[-1] for each in samples)
    margin = max(0.03 * (greatest - least), 0.01 * greatest)
    return [max(least - margin, 0) / unit.ns, (greatest + margin) / unit.ns]


def _is_wide(samples: Sequence[np.ndarray]) -> bool:
    least, greatest = min(each[0] for each in samples), max(each[-1] for each in samples)
    return least > 0 and greatest / least > _LOG_BEYOND
