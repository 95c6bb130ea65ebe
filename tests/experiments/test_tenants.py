"""The tenants experiment as its users start it, and every file that cannot be used."""

import json
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.errors import DataError, KnobError
from labkit.experiments.tenants import TenantsKnobs
from labkit.experiments.tenants_file import MOST, read_tenants
from labkit.metrics.fairness import Fairness, jain, slowdown
from labkit.metrics.requests import RequestSummary
from labkit.metrics.summary import Summary

FIXED: dict[str, Any] = {"device": "simulated:l4", "model": "fixed", "out": None}
TWO = """
- {name: urgent, weight: 3, priority: 2, rate: 100, slo: 20}
- {name: bulk, rate: 900, arrivals: constant}
"""


@pytest.fixture
def two(tmp_path: Path) -> str:
    path = tmp_path / "two.yaml"
    path.write_text(TWO)
    return str(path)


def test_it_runs_for_real_with_the_example_tenants():
    run = labkit.run("tenants", device="cpu", model="fixed", seconds=1.5, rate=150.0, warmup=4, out=None)
    assert run.record.status == "ok" and run.record.measured
    requests = run.summary.requests
    assert requests.sent == sum(requests.answers.values())
    assert [each.name for each in requests.fairness.tenants] == ["interactive", "reports", "backfill"]
    assert [each.entitled for each in requests.fairness.tenants] == [0.5, 0.25, 0.25]


def test_the_numbers_of_each_tenant_are_in_the_metrics_and_come_back(two: str):
    run = labkit.run("tenants", tenants=two, seconds=3, **FIXED)
    named = run.summary.requests.metrics()
    assert {"fairness", "urgent: share of service", "urgent: latency p99", "bulk: unserved"} <= set(named)
    plain = json.loads(json.dumps(run.record.metrics, allow_nan=False))
    assert Summary.from_dict(plain).requests == run.summary.requests
    assert plain["requests"]["fairness"]["tenants"][0]["name"] == "urgent"


def test_a_run_with_one_kind_of_user_has_no_tenants():
    run = labkit.run("batching", seconds=1, **FIXED)
    assert run.summary.requests.fairness is None
    assert RequestSummary.from_dict(run.record.metrics["requests"]).fairness is None


def test_a_flood_is_kept_from_an_urgent_tenant_and_its_slowdown_is_told(two: str):
    """The flood alone would keep the device more than busy."""
    shared = {share: labkit.run("tenants", tenants=two, seconds=5, policy="none", share=share, in_flight=1, **FIXED) for share in ("fifo", "wfq", "priority", "static")}
    urgent = {share: run.summary.requests.fairness.tenants[0] for share, run in shared.items()}
    assert urgent["fifo"].latency_p50.value > 50 * urgent["wfq"].latency_p50.value
    assert urgent["priority"].latency_p99.value < 0.1 * urgent["fifo"].latency_p50.value
    assert urgent["wfq"].goodput.value > 0.9 * 100 * urgent["wfq"].answers["served"] / 500
    assert not any(each.starved for run in shared.values() for each in run.summary.requests.fairness.tenants)
    by_itself = {"urgent": urgent["priority"]}
    assert slowdown(shared["fifo"].summary.requests.fairness, by_itself)["urgent"] > 10
    assert slowdown(shared["fifo"].summary.requests.fairness, by_itself)["bulk"] is None


def test_saturated_tenants_have_a_fairness_of_one_under_fair_queueing(tmp_path: Path):
    path = tmp_path / "three.yaml"
    path.write_text("".join(f"- {{name: t{weight}, weight: {weight}, rate: 400, batchable_with: none}}\n" for weight in (1, 2, 4)))
    fair = labkit.run("tenants", tenants=str(path), seconds=5, policy="none", share="wfq", **FIXED).summary.requests.fairness
    first = labkit.run("tenants", tenants=str(path), seconds=5, policy="none", share="fifo", **FIXED).summary.requests.fairness
    assert fair.jain.value > 0.99
    assert first.jain.value < 0.85


def test_the_index_of_fairness():
    assert jain([1, 1, 1]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([0, 0]) == 1
    assert jain([3, 1]) == pytest.approx(16 / 20)


def test_who_starves_makes_the_verdict_weak_or_is_told(tmp_path: Path):
    path = tmp_path / "two.yaml"
    path.write_text("- {name: high, priority: 1, rate: 800, batchable_with: none}\n- {name: low, rate: 5, batchable_with: none}\n")
    run = labkit.run("tenants", tenants=str(path), seconds=10, policy="none", share="priority", in_flight=1, **FIXED)
    assert run.summary.requests.fairness.tenants[1].starved
    aged = labkit.run("tenants", tenants=str(path), seconds=10, policy="none", share="priority", ageing=20.0, in_flight=1, **FIXED)
    assert not aged.summary.requests.fairness.tenants[1].starved
    assert Fairness.from_dict(run.summary.requests.fairness.as_dict()).starved[0].startswith("low starved: its requests waited for")


# ---- wrong input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds a NoneType; a list of 1 to 64 tenants is needed"),
        ("name: a", "holds a dict; a list"),
        ("[]", "holds a list of 0"),
        ("- just words", "entry 1 is a str; keys and values are needed"),
        ("- {name: a, rate: 1}\n- {name: a, rate: 2}", "the name 'a' is there 2 times"),
        ("- {name: a, rate: 1, weight: 0}", "entry 1 (a): weight=0 is not allowed: a number more than 0"),
        ("- {name: a, rate: 1, weight: -2}", "weight=-2 is not allowed"),
        ("- {name: a, rate: 1, weight: .nan}", "weight=nan is not allowed"),
        ("- {name: a, rate: 1, weight: .inf}", "weight=inf is not allowed"),
        ("- {name: a, rate: 1, weight: heavy}", "weight='heavy' is not allowed"),
        ("- {name: a, rate: 0}", "rate=0 is not allowed: 0.01 to 1,000,000"),
        ("- {name: a, rate: -5}", "rate=-5 is not allowed"),
        ("- {name: a, rate: 1e9}", "rate="),
        ("- {name: a}", "'rate' is missing"),
        ("- {rate: 1}", "'name' is missing"),
        ("- {name: '', rate: 1}", "name='' is not allowed: 1 to 40 characters"),
        ("- {name: a, rate: 1, wieght: 2}", "unknown key 'wieght'; there are: name, weight, priority, rate"),
        ("- {name: a, rate: 1, wieght: 2}", "did you mean 'weight'?"),
        ("- {name: a, rate: 1, priority: 1.5}", "priority=1.5 is not allowed: a whole number"),
        ("- {name: a, rate: 1, arrivals: weekly}", "arrivals='weekly' is not allowed: constant, poisson"),
        ("- {name: a, rate: 1, slo: 0}", "slo=0 is not allowed"),
        ("- {name: a, rate: 1, deadline: -1}", "deadline=-1 is not allowed"),
        ("- {name: a, rate: 1, batchable_with: [b]}", "batchable_with names 'b', which is no tenant; there are: a"),
        ("- {name: a, rate: 1, batchable_with: some}", "batchable_with='some' is not allowed: all, none, or a list"),
        ("- {name: a, rate: 1, name: b}", "the key 'name' is there twice"),
        ("- {name: a, rate: 1", "cannot be read as YAML"),
        ("- !!python/object:os.system {}", "cannot be read as YAML"),
        ("\n".join(f"- {{name: t{number}, rate: 1}}" for number in range(MOST + 1)), "holds a list of 65"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_entry_and_what_is_allowed(tmp_path: Path, text: str, words: str):
    path = tmp_path / "tenants.yaml"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read_tenants(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_file_that_is_not_there_a_folder_and_no_text_are_refused(tmp_path: Path):
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, words in ((tmp_path / "nowhere", "No such file"), (tmp_path, "Is a directory"), (binary, "cannot be read as YAML")):
        with pytest.raises(DataError, match=words):
            read_tenants(path)


def test_a_failed_file_is_a_failed_run_with_the_reason(tmp_path: Path):
    run = labkit.run("tenants", tenants=str(tmp_path / "nowhere.yaml"), seconds=1, **FIXED)
    assert run.record.status == "failed" and "nowhere.yaml' cannot be read as YAML: No such file" in run.record.reason


@pytest.mark.parametrize(("knobs", "words"), [({"share": "lottery"}, "share"), ({"ageing": 0}, "ageing"), ({"period": 0}, "period"), ({"rate": 0}, "rate"), ({"arrivals": "weekly"}, "arrivals"), ({"replay": "x.csv"}, "does not say whose")])
def test_a_knob_that_cannot_be_is_refused(knobs: dict[str, Any], words: str):
    with pytest.raises(KnobError, match=words):
        TenantsKnobs.parse(knobs)


def test_batchable_is_what_both_allow(tmp_path: Path):
    path = tmp_path / "three.yaml"
    path.write_text("- {name: a, rate: 1, batchable_with: [b]}\n- {name: b, rate: 1}\n- {name: c, rate: 1, batchable_with: none}\n")
    assert [sorted(each.batchable_with) for each in read_tenants(path)] == [["a", "b"], ["a", "b"], ["c"]]
