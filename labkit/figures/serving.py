"""What requests met with: latency over time with those that were turned away, its distribution, and the sizes of batches."""

import itertools
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from labkit.figures.colours import GRADE_COLOURS
from labkit.figures.look import Look, looks
from labkit.figures.marks import Span, draw_marks
from labkit.figures.numbers import TimeUnit, count_text, time_unit
from labkit.figures.shown import Shown
from labkit.figures.theme import Theme, dress, plain, say
from labkit.metrics.promise import Peak
from labkit.schedule import Answer

POINTS = 1_200
"""Requests drawn of each run; of more, evenly many, and the slowest of each stretch among them."""


def latency_over_time(runs: Sequence[Shown], theme: Theme = "either") -> go.Figure:
    """Each request where it was due, at the latency it had; those without an answer as crosses at the foot."""
    figure, served = go.Figure(), [run for run in runs if _has_requests(run)]
    longest_ns = max((run.trace.end_ns - run.trace.start_ns for run in served if run.trace), default=0)
    over, unit = time_unit(longest_ns), time_unit(max((_typical_ns(run) for run in served), default=0.0))
    for run, look in zip(runs, looks(runs), strict=True):
        if _has_requests(run):
            _add_requests(figure, run, look, over, unit)
    spans = [(run, Span(run.trace.start_ns, run.trace.start_ns, run.trace.start_ns + longest_ns)) for run in served if run.trace]
    draw_marks(figure, spans, over)
    most = max((len(run.trace.requests["request"]) for run in served if run.trace), default=0)
    words = f"at most {POINTS} requests of each run are drawn, the slowest of each stretch among them" if most > POINTS else ""
    dress(figure, "Latency from the intended arrival", runs, theme, height=320, words=words)
    figure.update_yaxes(title_text=f"latency ({unit.name}, logarithmic)", type="log", dtick="D2")
    figure.update_xaxes(title_text=f"when the request was due ({over.name})", range=[0, max(longest_ns, 1) / over.ns])
    return figure if served else say(figure, "no run served a request")


def latency_distribution(runs: Sequence[Shown], theme: Theme = "either") -> go.Figure:
    """The share of all requests that had their answer within x: a curve that ends below 100 % turned some away."""
    figure, served = go.Figure(), [run for run in runs if _has_requests(run)]
    unit = time_unit(max((_typical_ns(run) for run in served), default=0.0))
    for run, look in zip(runs, looks(runs), strict=True):
        if not _has_requests(run):
            continue
        latency_ns, all_of_them = np.sort(_latencies_ns(run)), _counted(run)
        ranks = _ranks(len(latency_ns))
        figure.add_trace(
            go.Scatter(
                x=(latency_ns[ranks] / unit.ns).astype(np.float32),
                y=(100 * (ranks + 1) / max(all_of_them, 1)).astype(np.float32),
                mode="lines",
                line={"shape": "hv", "color": look.line_colour, "width": 2, "dash": look.dash},
                name=plain(f"{run.name}, n = {all_of_them}"),
                hovertemplate=f"{plain(run.name)}<br>%{{y:.2f}} % within %{{x:.4g}} {unit.name}<extra></extra>",
            )
        )
    dress(figure, "Distribution of latency", runs, theme, height=320)
    figure.update_yaxes(title_text="share of all requests, %", range=[0, 104])
    figure.update_xaxes(title_text=f"latency from the intended arrival ({unit.name}, logarithmic)", type="log", dtick="D2")
    return figure if served else say(figure, "no run served a request")


def batch_sizes(runs: Sequence[Shown], theme: Theme = "either") -> go.Figure:
    """How many requests went together: the share of requests by the size of their batch."""
    figure = go.Figure()
    for run, look in zip(runs, looks(runs), strict=True):
        requests = run.summary.requests
        if requests is None or not requests.batch_sizes:
            continue
        sizes = sorted(requests.batch_sizes)
        served = sum(size * requests.batch_sizes[size] for size in sizes)
        figure.add_trace(
            go.Bar(
                x=sizes,
                y=[100 * size * requests.batch_sizes[size] / served for size in sizes],
                name=plain(run.name),
                marker=look.marker(look.colour),
                customdata=[requests.batch_sizes[size] for size in sizes],
                hovertemplate=f"{plain(run.name)}<br>%{{y:.1f}} % of the requests in %{{customdata}} batches of %{{x}}<extra></extra>",
            )
        )
    dress(figure, "Sizes of batches", runs, theme, height=260)
    figure.update_yaxes(title_text="share of requests, %", rangemode="tozero")
    figure.update_xaxes(title_text="requests in the batch")
    return figure if figure.data else say(figure, "no batch was served")


def latency_curve(peaks: Sequence[tuple[str, Peak]], theme: Theme = "either") -> go.Figure:
    """Latency over the rate of requests, a curve for each peak that was searched: what kept the promise full, what broke it a cross."""
    figure = go.Figure()
    limits_ns = [peak.promise.limit_ns for _, peak in peaks]
    unit = time_unit(float(max(limits_ns, default=0)))
    measured = not any(peak.verdict.grade == "PREDICTED" for _, peak in peaks)
    for slot, (name, peak) in enumerate(peaks):
        look = Look(slot + (1 if len(peaks) == 1 else 0), peak.verdict.grade != "PREDICTED")
        trials = sorted((trial for trial in peak.trials if trial.latency_ns is not None), key=lambda trial: trial.offered)
        kept = "circle" if look.measured else "circle-open"
        figure.add_trace(
            go.Scatter(
                x=[trial.offered for trial in trials],
                y=[trial.latency_ns / unit.ns for trial in trials if trial.latency_ns is not None],
                mode="lines+markers",
                line={"color": look.line_colour, "width": 2, "dash": look.dash},
                marker={"symbol": [kept if trial.kept else "x" for trial in trials], "size": 9, "color": look.colour},
                name=plain(name if peak.rate is None else f"{name}: {count_text(peak.rate)} requests/s"),
                hovertemplate=f"{plain(name)}<br>%{{y:.4g}} {unit.name} at %{{x:.4g}} requests/s<extra></extra>",
            )
        )
    promises = list(dict.fromkeys(peak.promise.words for _, peak in peaks))
    figure.add_trace(
        go.Scatter(
            x=[None], y=[None], mode="lines", name=f"promised: {', '.join(promises)}",
            line={"color": GRADE_COLOURS["INVALID"], "dash": "dot", "width": 2},
        )
    )  # fmt: skip
    for limit_ns in dict.fromkeys(limits_ns):
        figure.add_hline(y=limit_ns / unit.ns, line={"color": GRADE_COLOURS["INVALID"], "dash": "dot", "width": 2})
    words = "crosses broke the promise" + ("" if measured else "; dashed: simulated, a prediction")
    dress(figure, "Latency over the rate of requests", [], theme, height=340, words=words)
    figure.update_yaxes(title_text=f"latency at the percentile ({unit.name}, logarithmic)", type="log", dtick="D2")
    figure.update_xaxes(title_text="requests/s that came", rangemode="tozero")
    return figure


def _add_requests(figure: go.Figure, run: Shown, look: Look, over: TimeUnit, unit: TimeUnit) -> None:
    assert run.trace is not None
    columns, opened_ns = run.trace.requests, run.trace.start_ns
    served = np.flatnonzero(columns["answer"] == Answer.SERVED)
    served = served[np.argsort(columns["due_ns"][served], kind="stable")]
    latency_ns = (columns["done_ns"] - columns["due_ns"])[served]
    chosen = served[_drawn(latency_ns)]
    figure.add_trace(
        go.Scattergl(
            x=((columns["due_ns"][chosen] - opened_ns) / over.ns).astype(np.float32),
            y=(np.maximum(columns["done_ns"][chosen] - columns["due_ns"][chosen], 1) / unit.ns).astype(np.float32),
            mode="markers",
            marker={"size": 4, "color": look.line_colour, "symbol": "circle" if look.measured else "circle-open"},
            name=plain(run.name),
            hovertemplate=f"{plain(run.name)}<br>%{{y:.4g}} {unit.name}, due at %{{x:.4g}} {over.name}<extra></extra>",
        )
    )
    lost = np.flatnonzero(columns["answer"] != Answer.SERVED)
    if len(lost):
        kept = lost[np.unique(np.linspace(0, len(lost) - 1, min(len(lost), POINTS)).round().astype(np.int64))]
        foot = max(float(latency_ns.min()) if len(latency_ns) else unit.ns, 1.0) / unit.ns
        figure.add_trace(
            go.Scattergl(
                x=(columns["due_ns"][kept] - opened_ns) / over.ns,
                y=np.full(len(kept), foot),
                mode="markers",
                marker={"size": 6, "color": GRADE_COLOURS["INVALID"], "symbol": "x"},
                name=plain(f"{run.name}: {len(lost)} without an answer"),
                text=[Answer(answer).name.lower() for answer in columns["answer"][kept].tolist()],
                hovertemplate="%{text}, due at %{x:.4g}<extra></extra>",
            )
        )


def _ranks(n: int) -> np.ndarray:
    """Which of n sorted samples are drawn: evenly many, and ever more closely towards the slowest, which is what one looks for."""
    shares = np.concatenate([np.linspace(0, 1, 200), 1 - np.logspace(-1, -5, 160)])
    return np.unique((shares * max(n - 1, 0)).round().astype(np.int64)) if n else np.empty(0, np.int64)


def _drawn(latency_ns: np.ndarray) -> np.ndarray:
    """Which requests are drawn: all, or from each of equal stretches its first and its slowest."""
    n = len(latency_ns)
    if n <= POINTS:
        return np.arange(n)
    edges = np.linspace(0, n, POINTS // 2 + 1).astype(np.int64)
    slowest = [first + int(np.argmax(latency_ns[first:last])) for first, last in itertools.pairwise(edges)]
    return np.unique(np.concatenate([edges[:-1], slowest]))


def _has_requests(run: Shown) -> bool:
    return run.trace is not None and len(run.trace.requests["request"]) > 0


def _latencies_ns(run: Shown) -> np.ndarray:
    """Of those served that were due after the warm-up."""
    assert run.trace is not None
    columns = run.trace.requests
    counted = (columns["answer"] == Answer.SERVED) & (columns["due_ns"] >= _since_ns(run))
    return (columns["done_ns"] - columns["due_ns"])[counted]


def _counted(run: Shown) -> int:
    assert run.trace is not None
    return int((run.trace.requests["due_ns"] >= _since_ns(run)).sum())


def _since_ns(run: Shown) -> int:
    """From when on requests count, as their metrics say: all where all were counted."""
    requests = run.summary.requests
    assert run.trace is not None
    whole = requests is not None and requests.offered.n == len(run.trace.requests["request"])
    return -1 if whole else run.summary.window_ns[0]


def _typical_ns(run: Shown) -> float:
    latency_ns = _latencies_ns(run)
    return float(np.median(latency_ns)) if len(latency_ns) else 0.0
