"""The report is one file that needs nothing else, says what was measured, and shows hostile text as text."""

import errno
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from labkit.errors import StoreError
from labkit.figures import Shown
from labkit.report import write_report
from labkit.report.report import report_figures, report_html
from tests.report.recorded import HOSTILE, record_of

LOADS = ("src", "href", "data", "action", "poster", "srcset", "background")


class Page(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, html: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def page(a: Shown, b: Shown, predicted_b: Shown) -> Page:
    records = [
        record_of(a, note=HOSTILE),
        record_of(b, "WEAK", (f"reason {HOSTILE}",)),
        record_of(predicted_b),
    ]
    html = report_html(f"Title {HOSTILE}", [a, b, predicted_b], records, f"B is faster {HOSTILE}")
    return Page(html)


def test_nothing_is_loaded_from_anywhere(page: Page):
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base")
        assert not [name for name in LOADS if name in attributes], (tag, attributes)
    style = [attributes.get("style") or "" for _, attributes in page.elements]
    assert not any("url(" in each for each in style)


def test_the_page_forbids_itself_the_network(page: Page):
    policies = [attrs["content"] for tag, attrs in page.elements if tag == "meta" and "http-equiv" in attrs]
    assert policies and "default-src 'none'" in policies[0]
    assert "http" not in policies[0]


def test_plotly_is_in_it_once(page: Page):
    assert sum("plotly.js v" in script[:200] for script in page.scripts) == 1


def test_hostile_text_is_shown_and_never_run(page: Page):
    assert page.text.count(HOSTILE) >= 4
    assert not any(
        "alert(1)" in script for script in page.scripts if not script.lstrip().startswith(("{", "["))
    )


def test_a_hostile_label_cannot_end_the_script_that_holds_the_figures(a: Shown):
    hostile = replace(a, label=f"</script>{HOSTILE}")
    page = Page(report_html("t", [hostile], [record_of(hostile)]))
    honest = Page(report_html("t", [a], [record_of(a)]))
    assert len(page.scripts) == len(honest.scripts)
    assert HOSTILE in page.text


def test_every_figure_and_both_themes_are_strict_json(page: Page):
    data = [
        json.loads(script, parse_constant=pytest.fail) for script in page.scripts if script.startswith("{")
    ]
    figures = [each for each in data if "layout" in each and "data" in each]
    assert len(figures) == 6
    assert all("template" not in figure["layout"] for figure in figures)
    [themes] = [each for each in data if set(each) == {"light", "dark"}]
    assert themes["light"]["layout"]["font"]["color"] != themes["dark"]["layout"]["font"]["color"]


def test_both_colour_schemes_are_in_the_page(a: Shown):
    html = report_html("t", [a], [record_of(a)])
    assert "@media (prefers-color-scheme: dark)" in html
    assert 'matchMedia("(prefers-color-scheme: dark)")' in html


def test_verdicts_stand_as_badges_with_their_reasons(page: Page):
    badges = [
        attrs["class"]
        for tag, attrs in page.elements
        if tag == "span" and "badge" in (attrs.get("class") or "")
    ]
    assert badges == ["badge WEAK", *["badge VALID", "badge WEAK", "badge VALID"] * 2]
    assert f"B: reason {HOSTILE}" in page.text


def test_an_invalid_result_has_no_number_in_its_headline(a: Shown, b: Shown):
    html = report_html(
        "t", [a, b], [record_of(a), record_of(b, "INVALID", ("2 ops failed",))], "faster by 2.5×"
    )
    headline = re.search(r'<p class="headline">(.*?)</p>', html, re.S).group(1)
    assert "INVALID" in headline and "2.5" not in headline
    aside = html.index("faster by 2.5×")
    assert "which is not a result" in html[aside - 200 : aside]


def test_knobs_notes_provenance_and_sources_are_told(page: Page):
    for words in (
        "Knobs that differ",
        "prefetch",
        "pinned cannot act on cpu",
        "bench-7",
        "H200",
        "data sheet",
        "no GPU here",
    ):
        assert words in page.text
    folded = [tag for tag, _ in page.elements if tag == "details"]
    assert len(folded) == 1 + 3 * 2 + 1


def test_a_table_that_is_given_is_the_one_that_is_shown(a: Shown):
    html = report_html("t", [a], [record_of(a)], table=[["metric", "A"], ["my own row", "42"]])
    assert "my own row" in html and "busy: compute" not in html


def test_two_measured_runs_get_timelines_on_one_scale_and_predictions_a_figure(
    a: Shown, b: Shown, predicted_b: Shown
):
    names = list(report_figures([a, b, predicted_b]))
    assert names == [
        "side by side",
        "timelines",
        "throughput over time",
        "distribution",
        "utilization",
        "prediction",
    ]
    assert "timeline of A" in report_figures([a])
    assert "prediction" not in report_figures([a, b])


def test_runs_without_traces_have_fewer_figures(a: Shown):
    assert list(report_figures([replace(a, trace=None)])) == ["side by side", "utilization"]


def test_a_report_of_failed_runs_only_is_a_page(a: Shown):
    failed = replace(
        record_of(a, "INVALID", ("the run ended as failed",)), status="failed", reason="killed", metrics={}
    )
    page = Page(report_html("t", [], [failed]))
    assert "failed: killed" in page.text
    assert "Side by side" not in page.text


def test_the_file_is_written_whole_and_replaces_an_older_one(tmp_path: Path, a: Shown):
    path = tmp_path / "new" / "report.html"
    assert write_report(path, "one", [a], [record_of(a)]) == path
    write_report(path, "two", [a], [record_of(a)])
    assert "<h1>two</h1>" in path.read_text(encoding="utf-8")
    assert os.listdir(path.parent) == ["report.html"]


def test_a_full_disk_leaves_the_older_page_and_nothing_else(tmp_path: Path, a: Shown, monkeypatch):
    path = write_report(tmp_path / "report.html", "one", [a], [record_of(a)])

    def half(self: Path, text: str, **_: object) -> None:
        self.write_bytes(text[:100].encode())
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(
        StoreError, match=r"report cannot be written to .*report\.html: No space left on device"
    ):
        write_report(path, "two", [a], [record_of(a)])
    assert os.listdir(tmp_path) == ["report.html"]
    assert "<h1>one</h1>" in path.read_text(encoding="utf-8")
