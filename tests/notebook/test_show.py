"""Tables and words in a notebook."""

from dataclasses import replace
from pathlib import Path

from labkit.lab import Run
from labkit.notebook.show import Table, conclusion, device_table, ending, experiment_table
from labkit.runner.record import RunRecord, Verdict

RECORD = RunRecord(
    id="20261130-231502-pipeline-3f2a",
    experiment="pipeline",
    status="ok",
    reason="",
    knobs={},
    device="cpu",
    device_label="CPU threads",
    measured=True,
    budget={},
    started_at="2026-11-30T23:15:02",
    wall_s=1.0,
    verdict=Verdict("WEAK", ("few steps", "others were busy")),
    notes=("pinned: cannot act on cpu",),
)


def test_a_table_is_html_whose_cells_are_escaped_and_keep_their_lines() -> None:
    html = Table([["metric", "A\non <cpu>"], ["rate", "5 items/s"]])._repr_html_()
    assert "A<br>on &lt;cpu&gt;</th>" in html
    assert '<td style="text-align: right; max-width: 24em">5 items/s</td>' in html
    assert html.count("<tr>") == 2


def test_a_table_prints_aligned_numbers_to_the_right_words_to_the_left() -> None:
    rows = [["metric", "A\non cpu"], ["rate", "5"]]
    assert repr(Table(rows)) == "metric  A, on cpu\nrate            5"
    assert repr(Table(rows, numbers=False)) == "metric  A, on cpu\nrate    5"


def test_every_device_is_in_its_table_with_the_reason_where_it_is_not_here() -> None:
    rows = {row[0]: row for row in device_table().rows}
    assert rows["cpu"] == ("cpu", "CPU threads", "yes")
    assert rows["simulated:h200"] == ("simulated:h200", "simulated H200", "yes")
    assert "cuda" not in rows or rows["cuda"][2].startswith("no: ")


def test_the_catalogue_says_what_each_experiment_answers() -> None:
    assert ("pipeline", "naive, overlapped, GPU preprocessing") in [(row[0], row[2]) for row in experiment_table().rows]


def test_a_run_in_words() -> None:
    assert conclusion(Run(RECORD, None)) == "WEAK: few steps; others were busy\npinned: cannot act on cpu"
    valid = replace(RECORD, verdict=Verdict("VALID", ()), notes=())
    assert conclusion(Run(valid, None)) == "VALID: nothing speaks against these numbers"


def test_the_ending_says_where_the_run_lies(tmp_path: Path) -> None:
    assert ending(Run(RECORD, None, tmp_path)) == f"20261130-231502-pipeline-3f2a ok, saved in {tmp_path.resolve()}"
    assert ending(Run(RECORD, None)) == "20261130-231502-pipeline-3f2a ok, kept in memory only"
