"""The rules of a gate as JUnit XML, which every CI system reads: a test case a rule, a failure with its words."""

from collections.abc import Sequence
from xml.etree import ElementTree

from labkit.metrics.gate import Judged


def junit_xml(judged: Sequence[Judged], name: str) -> str:
    """One test suite. An undecided rule is skipped, with the reason: it has not failed and has not passed."""
    failed, undecided = (sum(each.result == result for each in judged) for result in ("failed", "undecided"))
    counts = {"tests": str(len(judged)), "failures": str(failed), "errors": "0", "skipped": str(undecided)}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": name, **counts, "time": "0"})
    for each in judged:
        case = ElementTree.SubElement(suite, "testcase", {"classname": f"labkit.{name}", "name": each.rule.text, "time": "0"})
        if each.result == "failed":
            ElementTree.SubElement(case, "failure", {"message": _plain(each.words)}).text = _plain(each.words)
        elif each.result == "undecided":
            ElementTree.SubElement(case, "skipped", {"message": _plain(each.words)})
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _plain(text: str) -> str:
    """Without characters that XML cannot hold."""
    return "".join(letter for letter in text if letter in "\t\n" or " " <= letter <= "\ud7ff" or "\ue000" <= letter <= "\ufffd" or letter > "\uffff")
