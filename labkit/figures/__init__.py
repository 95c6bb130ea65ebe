"""What stands still is drawn here: finished runs side by side, timelines, distributions, sweeps, predictions.

Every function takes data and returns a plotly figure; none shows or saves one.
"""

from labkit.figures.distribution import distribution
from labkit.figures.guess import Answer, Guess, guess, guess_errors
from labkit.figures.mistakes import mistakes, mistakes_table
from labkit.figures.one_axis import Rate, one_axis
from labkit.figures.pareto import on_front, pareto
from labkit.figures.prediction import prediction
from labkit.figures.roofline import roofline
from labkit.figures.serving import batch_sizes, latency_curve, latency_distribution, latency_over_time
from labkit.figures.shown import Shown, shown_of
from labkit.figures.side_by_side import side_by_side
from labkit.figures.speedups import speedups
from labkit.figures.sweep import sweep_figure
from labkit.figures.tenants import tenants
from labkit.figures.throughput_over_time import throughput_over_time
from labkit.figures.timeline import timeline, two_timelines
from labkit.figures.utilization import utilization
from labkit.figures.waterfall import waterfall

__all__ = [
    "Answer",
    "Guess",
    "Rate",
    "Shown",
    "batch_sizes",
    "distribution",
    "guess",
    "guess_errors",
    "latency_curve",
    "latency_distribution",
    "latency_over_time",
    "mistakes",
    "mistakes_table",
    "on_front",
    "one_axis",
    "pareto",
    "prediction",
    "roofline",
    "shown_of",
    "side_by_side",
    "speedups",
    "sweep_figure",
    "tenants",
    "throughput_over_time",
    "timeline",
    "two_timelines",
    "utilization",
    "waterfall",
]
