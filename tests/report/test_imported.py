"""The page of an imported run: what it is in every heading, no empty figure, steps as the unit, a closer look where its ops cannot be seen."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from labkit.figures import Shown
from labkit.figures.shown import shown_of
from labkit.report.headline import headline
from labkit.report.report import report_figures
from labkit.report.sections import run_sections
from labkit.report.views import PART, busiest_view
from labkit.runner.imported import imported_run
from labkit.runner.record import RunRecord
from labkit.trace import Trace
from tests.metrics.recorded import recorded, row

KINETO = Path(__file__).parents[2] / "datasets/traces/kineto"


def of(name: str) -> tuple[Shown, RunRecord]:
    record, trace = imported_run(KINETO / f"{name}.json.gz", "20261201-imported-1", datetime(2026, 12, 1, tzinfo=UTC))
    return shown_of(record, trace, "A"), record


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("a100_alexnet", ["timeline of A", "timeline of A, its busiest part", "utilization"]),
        ("cpu_only", ["timeline of A"]),
        ("nccl_rank0", ["side by side", "timeline of A", "utilization"]),
    ],
)
def test_only_figures_that_show_something_are_on_the_page(name: str, figures: list[str]):
    assert list(report_figures([of(name)[0]])) == figures


def test_the_axis_of_rates_has_their_unit():
    assert report_figures([of("nccl_rank0")[0]])["side by side"].layout.yaxis.title.text == "steps/s"


def test_the_legend_of_a_real_timeline_is_short():
    figure = report_figures([of("nccl_rank0")[0]])["timeline of A"]
    listed = [bar.name for bar in sorted((bar for bar in figure.data if bar.showlegend), key=lambda bar: bar.legendrank)]
    assert len(listed) == 11 and listed[0].startswith("ncclKernel_SendRecv") and listed[-1] == "other (55)"


def test_headline_and_section_say_what_was_imported_and_nothing_is_said_twice():
    run, record = of("nccl_rank0")
    told = headline([run], [record], None).sentence
    assert told == "A: 1.61 steps/s, imported: PyTorch profiler trace, a GPU, file nccl_rank0.json.gz."
    [section] = run_sections([run], [record])
    assert section.title == "A: imported: PyTorch profiler trace, a GPU, file nccl_rank0.json.gz"
    assert not set(section.notes) & set(section.reasons)
    without, its_record = of("a100_alexnet")
    assert headline([without], [its_record], None).sentence.startswith("A: 98 ops on compute20, compute7 in 13 s, no ProfilerStep in it, imported: ")


def sparse(*begins: int, long_ns: int = 10) -> Trace:
    rows = [row(number, "k", "compute", begin, begin + long_ns, submit_ns=begin) for number, begin in enumerate(begins)]
    return recorded(*rows, until_ns=100_000)


@pytest.mark.parametrize("begins", [(500, 40_000, 40_020, 40_900, 90_000), (99_500, 99_980), (0, 5)])
def test_the_busiest_hundredth_holds_the_most_that_any_does(begins: tuple[int, ...]):
    long_ns = 4 if begins == (0, 5) else 10
    view = busiest_view(sparse(*begins, long_ns=long_ns), 0, 100_000)
    assert view is not None and view[1] - view[0] == 100_000 // PART

    def held(start: int) -> int:
        return sum(max(min(begin + long_ns, start + 1000) - max(begin, start), 0) for begin in begins)

    assert held(view[0]) == max(held(start) for start in np.arange(0, 99_001, 5).tolist())


def test_a_lane_that_can_be_seen_needs_no_closer_look():
    assert busiest_view(sparse(0, 20_000, long_ns=3_000), 0, 100_000) is None
    assert busiest_view(recorded(row(0, "crop", "host", 0, 10)), 0, 1000) is None, "only the host ran"
