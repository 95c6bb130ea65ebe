"""A comparison as Markdown, for the summary of a CI job: the sentence, the rules, one table, the verdicts."""

from collections.abc import Sequence

from labkit.metrics.gate import Judged
from labkit.metrics.verdict import Verdict

_MARKS = {"passed": "passed", "failed": "**failed**", "undecided": "undecided"}


def comparison_markdown(
    sentence: str, rows: Sequence[Sequence[str]], verdicts: Sequence[tuple[str, Verdict]], judged: Sequence[Judged] = ()
) -> str:
    """The whole text.

    rows      of the side by side table, the heading first
    verdicts  (label, verdict) of each side
    """
    parts = [f"**{_escaped(sentence)}**", ""]
    if judged:
        parts += _table([["rule", "result", "what was seen"], *([each.rule.text, _MARKS[each.result], each.words] for each in judged)])
    parts += _table(rows)
    parts += [f"- {label}: {verdict.grade}{': ' if verdict.reasons else ''}{_escaped('; '.join(verdict.reasons))}" for label, verdict in verdicts]
    return "\n".join(parts) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    heading, *body = rows
    lines = [_row(heading), "|" + " --- |" + " ---: |" * (len(heading) - 1)]
    return [*lines, *(_row(row) for row in body), ""]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell).replace("\n", "<br>") for cell in cells) + " |"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is, but for the stars that this module sets."""
    return text if text in _MARKS.values() else text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
