"""`labkit why`, `whatif`, `wrong`, and `compare` of two runs: what they print, as JSON, and their exit codes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

KINETO = Path(__file__).parents[2] / "datasets/traces/kineto"
SMALL = ["--image-size", "32", "--batch-size", "4"]


@pytest.fixture
def two_runs(labkit: Callable) -> tuple[str, str]:
    """Ids of a synchronous and a pipelined prediction, in the folder `runs`."""
    words = ["run", "pipeline", *SMALL, "--device", "simulated:t4", "--steps", "140", "--json"]
    return tuple(json.loads(labkit(*words, "--prefetch", prefetch).out)["id"] for prefetch in ("0", "4"))


def test_why_adds_up_and_names_the_bottleneck(labkit: Callable, two_runs: tuple[str, str]) -> None:
    told = json.loads(labkit("why", two_runs[0], "--json").out)
    fall = told["waterfall"]
    assert fall["ideal_ns"] + sum(loss["ns"] for loss in fall["losses"]) == fall["total_ns"]
    assert told["critical_path"]["op_ns"] <= told["critical_path"]["wall_ns"]
    assert sum(told["critical_path"]["shares"].values()) == pytest.approx(1)
    assert (told["speedups"]["predicted"], told["replay_error"], told["measured"]) == (True, 0, False)
    text = labkit("why", two_runs[0]).out
    assert "from ideal to measured" in text and "the critical path" in text and "what would help" in text
    assert "predicted, T4" in text or "simulated" in text


def test_whatif_replays_a_faster_stage_and_refuses_what_is_not_there(labkit: Callable, two_runs: tuple[str, str]) -> None:
    told = json.loads(labkit("whatif", two_runs[0], "--scale", "workers=0.5", "--json").out)
    assert told["change"] == "workers in 0.5 of its time"
    assert told["predicted_ratio"] > 1.1
    assert told["predicted_per_s"] <= 2 * told["measured_per_s"]
    wrong = labkit("whatif", two_runs[0], "--scale", "loading=0.5")
    assert wrong.code != 0 and "'loading', which is no op or lane of this trace; there are:" in wrong.err
    assert labkit("whatif", two_runs[0], "--scale", "workers=fast").code == 2
    assert labkit("whatif", two_runs[0], "--measure").code == 2
    both = labkit("whatif", two_runs[0], "--scale", "workers=0.5", "--knob", "prefetch=2")
    assert both.code == 2 and "ask for one at a time" in both.err
    refused = labkit("whatif", two_runs[0], "--knob", "prefetch=2")
    assert refused.code == 2 and "is a prediction: its op times cannot predict other settings" in refused.err


def test_wrong_says_invalid_of_every_wrong_number(labkit: Callable, two_runs: tuple[str, str]) -> None:
    told = json.loads(labkit("wrong", two_runs[1], "--json").out)
    assert {mistake["grade"] for mistake in told["mistakes"]} == {"INVALID"}
    shown = [mistake for mistake in told["mistakes"] if mistake["wrong"] is not None]
    text = labkit("wrong", two_runs[1]).out
    assert text.count("INVALID: ") == len(shown) >= 4


def test_two_runs_are_held_against_each_other_with_rules_and_files(labkit: Callable, two_runs: tuple[str, str]) -> None:
    slow, fast = two_runs
    rules = ["--fail-on", "throughput:-5%", "--fail-on", "batch age p50:+1%"]
    better = labkit("compare", slow, fast, "--fail-on", "throughput:-5%")
    assert better.code == 0, better.err
    assert "passed: throughput changed by +" in better.out and "both are predictions" in better.out
    worse = labkit("compare", fast, slow, *rules, "--markdown", "summary.md", "--junit", "rules.xml")
    assert worse.code == 1
    assert "failed: throughput changed by -" in worse.out
    assert "**failed**" in Path("summary.md").read_text()
    suite = ElementTree.parse("rules.xml").getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    as_json = json.loads(labkit("compare", fast, slow, *rules, "--json").out)
    assert [rule["result"] for rule in as_json["rules"]] == ["failed", "passed"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--fail-on", "throughput:+5%"], "did you mean 'throughput:-5%'?"),
        (["--fail-on", "speed:-5%"], "there is no metric 'speed'"),
        (["--fail-on", "throughput"], "is not of the form METRIC:-5%"),
        (["--a", "prefetch=1"], "two stored runs have theirs"),
        (["--json", "--markdown", "-"], "both want stdout"),
        (["--junit", "/nowhere/at/all.xml", "--fail-on", "throughput:-5%"], "cannot write /nowhere/at/all.xml"),
        (["third"], "takes one experiment or two runs, not 3 names"),
    ],
)
def test_what_cannot_be_compared_is_wrong_input(labkit: Callable, two_runs: tuple[str, str], words: list[str], says: str) -> None:
    ended = labkit("compare", *two_runs, *words)
    assert ended.code == 2
    assert says in ended.err


def test_a_measurement_is_not_held_against_a_prediction(labkit: Callable, two_runs: tuple[str, str]) -> None:
    measured = json.loads(labkit("run", "pipeline", *SMALL, "--device", "cpu", "--steps", "12", "--json").out)["id"]
    ended = labkit("compare", measured, two_runs[0])
    assert ended.code == 2
    assert "one was measured and the other is a prediction" in ended.err


def test_a_comparison_goes_on_until_its_interval_is_narrow(labkit: Callable) -> None:
    words = ["compare", "pipeline", "--a", "prefetch=0,image_size=32", "--b", "prefetch=4,image_size=32"]
    ended = labkit(*words, "--device", "simulated:t4", "--steps", "60", "--fail-on", "throughput:-5%", "--json")
    assert ended.code == 0, ended.err
    both = json.loads(ended.out)
    assert both["comparison"]["rounds"] == 5
    assert both["rules"][0]["result"] == "passed"
    assert labkit(*words, "--precision", "wide").code == 2
    assert labkit(*words, "--budget", "0").code == 2


def test_a_trace_of_a_real_gpu_is_imported_and_everything_works_on_it(labkit: Callable) -> None:
    record = json.loads(labkit("import", str(KINETO / "a100_alexnet.json.gz"), "--json").out)
    assert (record["experiment"], record["status"], record["device_label"]) == ("imported", "ok", "NVIDIA A100-PG509-200 (imported trace)")
    assert record["verdict"]["grade"] == "WEAK" and "not known here" in record["verdict"]["reasons"][0]
    assert record["provenance"]["file"] == "a100_alexnet.json.gz" and "host" not in record["provenance"]
    assert labkit("show", "last").code == labkit("why", "last").code == labkit("report", "last").code == 0
    told = json.loads(labkit("whatif", "last", "--scale", "compute7=0.5", "--json").out)
    assert told["unit"] == "runs/s" and told["predicted_ratio"] >= 1
    assert labkit("export", "last").code == 0


def test_a_file_that_is_no_trace_is_told_and_nothing_is_saved(labkit: Callable) -> None:
    Path("bad.json").write_text("{}")
    ended = labkit("import", "bad.json")
    assert ended.code == 1 and "has no list of traceEvents" in ended.err
    assert json.loads(labkit("list", "--json").out)["runs"] == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def made():\n    raise SystemExit(3)", "mine:made() failed: SystemExit: 3; it takes nothing"),
        ("def made(needed):\n    pass", "mine:made() failed: TypeError"),
        ("import torch\ndef made():\n    return torch.nn.Linear(4, 4), torch.ones(2, 5)", "the model of mine:made failed on its inputs, (float32 [2, 5]): RuntimeError: mat1"),
        ("def (", "mine cannot be imported: SyntaxError"),
    ],
)
def test_a_factory_or_a_model_of_one_s_own_that_fails_is_told_in_a_sentence(labkit, monkeypatch, source: str, says: str):
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    Path("mine.py").write_text(source)
    ended = labkit("profile", "mine:made")
    assert ended.code == 2
    assert says in ended.err


def test_a_change_that_cannot_be_is_wrong_input(labkit):
    labkit("run", "pipeline", "--device", "simulated:l4", "--steps", "20")
    for words, says in ((("--scale", "compute=-1"), "scale -1.0 of 'compute' is not allowed"), (("--width", "workers=0"), "width 0 of lane 'workers'")):
        ended = labkit("whatif", "last", *words)
        assert ended.code == 2 and says in ended.err


def test_a_rule_on_runs_of_different_experiments_or_devices_is_refused(labkit):
    ids = [
        json.loads(labkit("run", name, "--device", device, "--json", *more).out)["id"]
        for name, device, more in (
            ("pipeline", "simulated:l4", ("--steps", "20")),
            ("batching", "simulated:l4", ("--model", "fixed", "--seconds", "2")),
            ("pipeline", "simulated:t4", ("--steps", "20")),
        )
    ]
    for other, what in ((ids[1], "experiments"), (ids[2], "devices")):
        ended = labkit("compare", ids[0], other, "--fail-on", "throughput:-5%")
        assert ended.code == 2 and f"are of different {what}" in ended.err
    ended = labkit("predict", "batching", "--on", "t4", "--costs", ids[0], "--model", "fixed")
    assert ended.code == 2 and "its op times say nothing of batching" in ended.err
