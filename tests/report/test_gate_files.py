"""What a CI job takes from a comparison: Markdown for its summary, JUnit XML for its list of tests."""

from xml.etree import ElementTree

from labkit.metrics.gate import Judged, read_rule
from labkit.metrics.verdict import Verdict
from labkit.report.junit import junit_xml
from labkit.report.markdown import comparison_markdown

JUDGED = [
    Judged(read_rule("throughput:-5%"), "failed", -0.2, "throughput changed by -20.0 %; allowed: -5.0 %"),
    Judged(read_rule("p99:+10%"), "passed", 0.01, "fine <&> \x00so far"),
    Judged(read_rule("overlap:-1%"), "undecided", -0.01, "WEAK: the interval holds the limit"),
]


def test_every_rule_is_a_test_case_and_a_failure_has_its_words():
    suite = ElementTree.fromstring(junit_xml(JUDGED, "compare").encode()).find("testsuite")
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "1", "errors": "0", "skipped": "1",
    }  # fmt: skip
    failed, passed, undecided = suite.findall("testcase")
    assert failed.get("name") == "throughput:-5%" and failed.find("failure").get("message").startswith("throughput changed by")
    assert list(passed) == []
    assert undecided.find("skipped").get("message").startswith("WEAK")


def test_nothing_in_the_words_breaks_the_xml():
    nasty = [Judged(read_rule("throughput:-5%"), "failed", None, "\x00\x1b<a>&\"']]>\ud800")]
    assert ElementTree.fromstring(junit_xml(nasty, "x\x00".replace("\x00", "")).encode("utf-8", "surrogatepass")) is not None


def test_markdown_is_one_headline_the_rules_one_table_and_the_verdicts():
    rows = [["metric", "A\nmeasured on cpu", "B"], ["throughput", "1 | 2", "<b>*3*"]]
    text = comparison_markdown("B against A: slower by 1.2×", rows, [("A", Verdict("VALID", ())), ("B", Verdict("WEAK", ("few",)))], JUDGED)
    assert text.startswith("**B against A: slower by 1.2×**\n")
    assert "| throughput:-5% | **failed** | throughput changed by -20.0 %; allowed: -5.0 % |" in text
    assert "| metric | A<br>measured on cpu | B |\n| --- | ---: | ---: |\n| throughput | 1 \\| 2 | &lt;b>\\*3\\* |" in text
    assert text.endswith("- A: VALID\n- B: WEAK: few\n")
