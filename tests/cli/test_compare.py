"""`labkit compare`: in turns and of two stored runs, what it prints and where, and when it exits 1."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

SMALL = "image_size=32,batch_size=4"
TURNS = ["compare", "pipeline", "--a", f"prefetch=4,{SMALL}", "--b", f"prefetch=0,{SMALL}", "--device", "simulated:t4", "--steps", "130"]


@pytest.fixture
def measured(labkit: Callable) -> tuple[str, str]:
    """Ids of both sides of a comparison on this machine's CPU, in the folder `runs`."""
    words = ["compare", "pipeline", "--a", SMALL, "--b", SMALL, "--device", "cpu", "--steps", "25", "--rounds", "2", "--json"]
    both = json.loads(labkit(*words).out)
    return both["a"]["id"], both["b"]["id"]


def altered(run: str, **fields: object) -> None:
    """Change the stored record of a run."""
    path = Path("runs") / run / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_regression_that_all_of_the_interval_shows_is_exit_code_1_with_its_files(labkit: Callable) -> None:
    ended = labkit(*TURNS, "--fail-on", "throughput:-5%", "--fail-on", "p99:+10%", "--markdown", "m.md", "--junit", "j.xml")
    assert ended.code == 1, ended.err
    assert "failed: throughput changed by -" in ended.out and "failed: step interval p99 changed by" in ended.out
    assert "B against A, throughput: slower by" in ended.out and "worse is" in ended.out
    assert [case.find("failure") is not None for case in ElementTree.parse("j.xml").iter("testcase")] == [True, True]
    assert Path("m.md").read_text().startswith("**B against A, throughput: slower by")


def test_a_percentile_that_no_round_has_alone_is_undecided_and_says_what_would_decide_it(labkit: Callable) -> None:
    ended = labkit(*TURNS[:-1], "60", "--fail-on", "p99:+10%", "--json")
    assert ended.code == 0, ended.err
    [rule] = json.loads(ended.out)["rules"]
    assert rule["result"] == "undecided" and rule["change"] > 0.1
    assert "without an interval (no round alone has enough samples for it)" in rule["words"]
    assert rule["words"].endswith("WEAK: longer rounds would decide it")


def test_markdown_on_stdout_stands_there_alone(labkit: Callable) -> None:
    ended = labkit(*TURNS, "--rounds", "2", "--markdown", "-")
    assert ended.code == 0
    assert ended.out.startswith("**B against A") and ended.out.rstrip().splitlines()[-1].startswith("- B: PREDICTED")
    assert "saved in" not in ended.out and ended.err.count("saved in") == 2


def test_both_sides_of_a_comparison_are_known_to_have_been_measured_in_turns(labkit: Callable, measured: tuple[str, str]) -> None:
    text = labkit("compare", *measured).out
    assert "WEAK: measured in turns, but the rounds are not stored with the runs" in text
    altered(measured[1], started_at="2026-01-01T00:00:00+00:00")
    assert "WEAK: the runs were not measured in turns" in labkit("compare", *measured).out


def test_other_experiments_and_devices_are_named(labkit: Callable, measured: tuple[str, str]) -> None:
    altered(measured[1], experiment="other", device="cuda:0")
    text = labkit("compare", *measured).out
    assert "they are different experiments: pipeline and other" in text
    assert "they ran on different devices: cpu and cuda:0" in text


def test_an_invalid_run_gives_no_headline_and_fails_every_rule(labkit: Callable, measured: tuple[str, str]) -> None:
    altered(measured[1], verdict={"grade": "INVALID", "reasons": ["nothing completed after the warm-up"]})
    ended = labkit("compare", *measured, "--fail-on", "throughput:-50%")
    assert ended.code == 1
    assert "no comparison: side B is INVALID: nothing completed after the warm-up" in ended.out
    assert "failed: throughput cannot be judged: side B is INVALID" in ended.out
    assert "B against A, throughput" not in ended.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--fail-on", "p98:+5%"], "there is no metric 'p98'"),
        (["--fail-on", "p99:-5%"], "did you mean 'step interval p99:+5%'?"),
        (["--junit", "j.xml"], "--junit writes the rules, and there is none"),
        (["--markdown", "nowhere/m.md"], "there is no folder nowhere"),
    ],
)
def test_what_cannot_end_well_is_refused_before_anything_is_measured(labkit: Callable, words: list[str], says: str) -> None:
    ended = labkit(*TURNS, *words)
    assert ended.code == 2
    assert says in ended.err
    assert not Path("runs").exists()


def test_a_budget_that_allows_one_round_gives_no_comparison_and_says_so(labkit: Callable) -> None:
    ended = labkit(*TURNS, "--budget", "0.000001", "--fail-on", "throughput:-5%", "--json")
    both = json.loads(ended.out)
    assert both["comparison"]["sentence"] == "no comparison: fewer than two rounds measured both sides: 1e-06 s were spent after 1 round"
    assert both["rules"][0]["result"] == "undecided"
