"""Runs as a page: one self-contained HTML file, and the table that a terminal prints too."""

from labkit.report.report import write_report
from labkit.report.table import as_html, as_text, side_by_side_table

__all__ = ["as_html", "as_text", "side_by_side_table", "write_report"]
