"""What is shown besides, where somebody asks for it: why a run took what it took, what would help, and how it is measured wrongly."""

from collections.abc import Iterator
from typing import Any

from labkit import figures
from labkit.errors import TraceError
from labkit.figures.mistakes import mistakes_table
from labkit.figures.shown import Shown
from labkit.metrics.critical_path import critical_path
from labkit.metrics.mistakes import mistakes
from labkit.metrics.waterfall import waterfall
from labkit.metrics.whatif import Replays
from labkit.notebook.show import Table
from labkit.units import format_percent

PIECES_NAMED = 4


def explanations(views: tuple[str, ...], run: Shown, warmup_steps: int) -> Iterator[tuple[str, Any]]:
    """The asked-for views of a run that has ended, each as figures and words: (view, figure or words or table)."""
    if run.trace is None:
        return
    if "why" in views:
        yield "why", figures.waterfall(waterfall(run.trace, warmup_steps), run)
        path = critical_path(run.trace, warmup_steps)
        shares = list(path.shares().items())[:PIECES_NAMED]
        yield "critical path", f"The critical path is mostly {', '.join(f'{name} ({format_percent(share)})' for name, share in shares)}."
        yield "path drawn", figures.timeline(run, path=path)
    if "what if" in views:
        try:
            replays = Replays(run.trace, warmup_steps)
        except TraceError as error:
            yield "what if", f"What would help cannot be said: {error}"
        else:
            yield "what if", figures.speedups(replays.virtual_speedups(), run, replays.error)
    if "mistakes" in views:
        found = mistakes(run.trace, warmup_steps)
        yield "mistakes", figures.mistakes(found, run)
        yield "mistakes told", Table(mistakes_table(found), numbers=False)
