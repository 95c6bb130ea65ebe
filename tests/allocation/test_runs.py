"""Runs under a policy as users start them: for real in a worker on the cpu, tenants by class, and what the record, the report and the words say."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.cli import show
from labkit.device.cores import available_cores
from labkit.device.cpu import CpuDevice
from labkit.errors import KnobError
from labkit.knobs import knob
from labkit.report.sections import run_sections
from labkit.runner.job import Job, Recipe
from labkit.runner.record import RunRecord
from labkit.runner.workers import Workers
from labkit.schedule import Budget, Cost, Lane, Op
from labkit.workloads.workload import Workload
from tests.allocation.work import WorkKnobs, written
from tests.in_process import InProcess

FIXED: dict[str, Any] = {"model": "fixed", "warmup": 2, "rate": 100.0, "out": None}
MINE = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
needs_two_cores = pytest.mark.skipif(len(MINE) < 2, reason="with one core there is nothing to bind to")


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    """Warm workers for all runs of this file."""
    with InProcess() as workers:
        yield workers


class Seen(Workload):
    """Looks where it may run: in its op, in a thread that the op starts, and in a process that it starts."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, Any] = {}

    def look(self, step: Any) -> Op:
        def run() -> None:
            import subprocess
            import sys

            import torch

            words = "import os; print(sorted(os.sched_getaffinity(0)))"
            self.seen["process"] = json.loads(subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout)
            self.seen["op"] = sorted(os.sched_getaffinity(0))
            self.seen["torch threads"] = torch.get_num_threads()
            later = threading.Thread(target=lambda: self.seen.update(thread=sorted(os.sched_getaffinity(0))))
            later.start()
            later.join()

        return self.op("look", Lane("compute"), run, Cost(), step, items=1)

    def results(self) -> dict[str, Any]:
        return self.seen | {"host": sorted(os.sched_getaffinity(0))}


class ThreadKnobs(WorkKnobs):
    """With threads, as a server has them."""

    threads: int | None = knob(None, "compute threads", live=False)


def looking(device: Any, workload: Seen, steps: Any) -> None:
    for step in steps:
        device.wait([device.submit(workload.look(step))])


def seen_under(workers: Workers, **knobs: Any) -> Any:
    recipe = Recipe("seen", looking, lambda knobs, where: Seen(), lambda knobs: {}, content="test")
    outcome = workers.run(Job(recipe, ThreadKnobs.parse(knobs), "cpu", Budget(1, warmup=0)))
    assert outcome.status == "ok", outcome.failure
    return outcome


@needs_two_cores
def test_cores_are_really_bound_in_the_worker_its_later_threads_and_processes_and_nowhere_else(tmp_path: Path):
    last = MINE[-1]
    with Workers() as workers:
        outcome = seen_under(workers, allocation=written(tmp_path, reservation={"cores": [last]}))
        assert {name: outcome.results[name] for name in ("op", "thread", "process", "host")} == {name: [last] for name in ("op", "thread", "process", "host")}
        (line,) = outcome.allocation["lines"]
        assert line["applied"] and line["read_back"] == [last]
    assert sorted(os.sched_getaffinity(0)) == MINE


@needs_two_cores
def test_a_worker_that_goes_on_is_free_again_after_the_run(tmp_path: Path):
    recipe = Recipe("seen", looking, lambda knobs, where: Seen(), lambda knobs: {}, content="test")
    name = written(tmp_path, reservation={"cores": [MINE[0]]})
    job = Job(recipe, ThreadKnobs.parse({"allocation": name}), "cpu", Budget(1, warmup=0))
    with Workers() as workers:
        assert workers.run(job).results["host"] == [MINE[0]]
        pid = workers.warm(job).pid
        assert os.sched_getaffinity(pid) == set(MINE)
        written(tmp_path, reservation={"cores": [MINE[1]]})  # the file has changed: the warm worker reads it anew
        assert workers.run(job).results["host"] == [MINE[1]] and workers.warm(job).pid == pid


@needs_two_cores
def test_lane_threads_move_with_the_cores_compute_apart_from_the_others_where_there_are_enough():
    placed: dict[str, list[int]] = {}

    def look(role: str) -> Op:
        return Op("look", Lane(role), lambda: placed.update({role: sorted(os.sched_getaffinity(0))}), Cost())

    with closing(CpuDevice()) as device:
        seen = []
        for cores in (MINE[:1], MINE[:2]):
            device.use_cores(cores)
            for role in ("workers", "compute", "workers"):
                device.wait([device.submit(look(role))])
            seen.append(dict(placed))
    assert seen == [{"workers": MINE[:1], "compute": MINE[:1]}, {"workers": [MINE[1]], "compute": [MINE[0]]}]


@needs_two_cores
def test_cores_grow_with_the_load_of_a_running_server_on_the_cpu(pool: Workers, tmp_path: Path):
    rule = {"resource": "cores", "high": 3, "low": 1, "step": 0.5, "minimum": 0.5, "period_ms": 20}
    name = written(tmp_path, reservation={"cores": MINE[:2]}, scaling=[rule])
    run = labkit.run("batching", pool=pool, device="cpu", allocation=name, seconds=1.5, policy="none", **FIXED | {"rate": 900.0})
    assert run.record.status == "ok", run.record.reason
    scaling = next(line for line in run.record.allocation["lines"] if line["key"] == "scaling.cores")
    moves = [share for _, share in scaling["read_back"]["moves"]]
    assert scaling["applied"] and moves[0] == 1.0
    assert scaling["read_back"]["in_force"] == MINE[: 2 if moves[-1] == 1.0 else 1]  # with the last requests it shrinks again
    assert next(line for line in run.record.allocation["lines"] if line["key"] == "reservation.cores")["applied"]


def test_what_the_cpu_cannot_do_is_listed_in_the_record_the_words_and_the_report(tmp_path: Path, pool: Workers, capsys: pytest.CaptureFixture[str]):
    name = written(tmp_path, reservation={"gpu_memory": 0.5, "cores": 1})
    run = labkit.run("batching", pool=pool, device="cpu", allocation=name, seconds=0.5, **FIXED | {"out": tmp_path / "runs"})
    record = run.record
    assert record.status == "ok" and [(line["key"], line["applied"]) for line in record.allocation["lines"]] == [("reservation.cores", True), ("reservation.gpu_memory", False)]
    refused = "allocation policy: NOT applied: reservation.gpu_memory=0.5 (this run computes on the cpu: there is no GPU to share)"
    assert refused in record.notes
    assert RunRecord.from_dict(json.loads(json.dumps(record.as_dict(), allow_nan=False))) == record
    assert show.main([record.id, "--out", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr()
    assert refused in said.out + said.err and "applied: reservation.cores=1" in said.out + said.err
    (section,) = run_sections([run.shown("A")], [record])
    assert refused in section.notes


def test_a_record_from_before_there_were_policies_has_none(pool: Workers):
    data = labkit.run("batching", pool=pool, device="simulated:h200", seconds=0.5, **FIXED).record.as_dict()
    assert data["allocation"] == {}
    del data["allocation"]
    assert RunRecord.from_dict(data).allocation == {}
    with pytest.raises(TypeError, match="allocation"):
        RunRecord.from_dict(data | {"allocation": "half"})


def test_cores_that_are_not_there_fail_the_run_with_those_that_are(pool: Workers, tmp_path: Path):
    name = written(tmp_path, reservation={"cores": [4000]})
    run = labkit.run("batching", pool=pool, device="cpu", allocation=name, seconds=0.5, **FIXED)
    assert run.record.status == "failed" and "there is no core 4000 for this process; it may use core" in run.record.reason


@pytest.mark.parametrize("device", ["cpu", "simulated:h200"])
def test_a_policy_that_there_is_not_fails_the_run_with_the_names_of_those_that_there_are(device: str):
    run = labkit.run("batching", device=device, allocation="halve", seconds=0.5, **FIXED)
    assert run.record.status == "failed" and "did you mean 'half'" in run.record.reason


def test_under_the_shipped_half_a_classifier_takes_exactly_twice_as_long_on_a_simulated_gpu(pool: Workers):
    given: dict[str, Any] = {"device": "simulated:t4", "model_size": "large", "image_size": 256, "max_batch": 64, "rate": 2000.0, "workers": 16, "seconds": 1, "out": None}
    whole, half = (labkit.run("batching", pool=pool, allocation=name, **given) for name in (None, "half"))
    assert half.record.status == "ok", half.record.reason
    assert [line["applied"] for line in half.record.allocation["lines"]] == [True, True, True]
    assert half.summary.ops["classify"].p50_ns == 2 * whole.summary.ops["classify"].p50_ns
    assert half.summary.ops["copy"].p50_ns == whole.summary.ops["copy"].p50_ns


def test_compute_grows_under_load_on_a_simulated_gpu_and_the_share_is_told(pool: Workers, tmp_path: Path):
    rule = {"resource": "gpu_compute", "high": 8, "low": 1, "step": 0.3, "minimum": 0.1, "period_ms": 10}
    given: dict[str, Any] = {"device": "simulated:t4", "model_size": "large", "image_size": 256, "max_batch": 16, "rate": 1500.0, "workers": 16, "seconds": 1, "out": None}
    run = labkit.run("batching", pool=pool, allocation=written(tmp_path, scaling=[rule]), **given)
    (line,) = run.record.allocation["lines"]
    assert line["applied"] and line["read_back"]["moves"] and f"moved {len(line['read_back']['moves'])} times" in line["words"]


# ---- the third tier -------------------------------------------------------------------------------------------

LEVELS = {"classes": [{"name": "interactive", "level": 0}, {"name": "backfill", "level": 5}], "ageing_ms": 400}


def test_classes_are_the_priorities_of_tenants_of_that_name(pool: Workers, tmp_path: Path):
    name = written(tmp_path, priority=LEVELS)
    run = labkit.run("tenants", pool=pool, device="simulated:h200", allocation=name, seconds=2, **FIXED)
    classes, ageing = run.record.allocation["lines"]
    assert classes["applied"] and classes["read_back"] == {"interactive": 0, "reports": 1, "backfill": 5}
    assert classes["words"] == "share=priority instead of the run's own share=wfq, with these levels; other tenants keep their own"
    assert ageing["applied"] and ageing["read_back"] == 400


def test_priorities_turn_round_who_waits(pool: Workers, tmp_path: Path):
    given: dict[str, Any] = {"device": "simulated:h200", "seconds": 5, "share": "wfq", "policy": "none", "in_flight": 1, "batch_ms": 8.0, "item_ms": 2.0} | FIXED | {"rate": 130.0}
    waits = []
    for first, last in ((5, 0), (0, 5)):
        classes = [{"name": "interactive", "level": first}, {"name": "backfill", "level": last}, {"name": "reports", "level": 3}]
        run = labkit.run("tenants", pool=pool, allocation=written(tmp_path, priority={"classes": classes}), **given)
        waits.append({each.name: each.latency_p50.value for each in run.summary.requests.fairness.tenants})
    assert waits[0]["interactive"] < waits[1]["interactive"] / 2 and waits[1]["backfill"] < waits[0]["backfill"] / 2


def test_tenants_get_their_own_priorities_back_for_the_next_run(tmp_path: Path):
    from labkit.experiments import experiment
    from labkit.lab import recipe_of
    from labkit.runner.execute import execute

    tenants = experiment("tenants")
    knobs = tenants.knobs.parse({"model": "fixed", "allocation": written(tmp_path, priority=LEVELS)})
    workload = tenants.prepare(knobs, "simulated")
    before = workload.tenants
    outcome = execute(Job(recipe_of(tenants), knobs, "simulated:h200", Budget(seconds=0.5)), workload)
    assert outcome.status == "ok" and outcome.allocation["lines"][0]["applied"] and workload.tenants is before


@pytest.mark.parametrize(
    ("experiment", "classes", "reason"),
    [("batching", LEVELS["classes"], "this experiment has one queue"), ("tenants", [{"name": "vip", "level": 1}], "there is no tenant 'vip'; there are: interactive, reports, backfill")],
)
def test_classes_that_nobody_has_are_not_applied_and_change_nothing(pool: Workers, experiment: str, classes: Any, reason: str, tmp_path: Path):
    given: dict[str, Any] = {"pool": pool, "device": "simulated:h200", "seconds": 1} | FIXED
    under = labkit.run(experiment, allocation=written(tmp_path, priority={"classes": classes, "ageing_ms": 10}), **given)
    free = labkit.run(experiment, **given)
    assert [line["applied"] for line in under.record.allocation["lines"]] == [False, False]
    assert all(reason in line["words"] for line in under.record.allocation["lines"])
    assert under.record.metrics == free.record.metrics


# ---- threads --------------------------------------------------------------------------------------------------


@needs_two_cores
def test_threads_are_those_that_torch_computes_with_in_the_compute_lane():
    with Workers() as workers:
        assert [seen_under(workers, threads=count).results["torch threads"] for count in (None, 2)] == [1, 2]


def test_more_threads_than_cores_are_refused(pool: Workers):
    cores = available_cores()
    run = labkit.run("batching", pool=pool, device="cpu", threads=cores + 1, seconds=0.5, **FIXED)
    assert run.record.status == "failed" and f"asks for {cores + 1} cores; this process may use 1 to {cores}" in run.record.reason


def test_threads_of_a_gpu_say_that_they_have_no_effect(pool: Workers):
    run = labkit.run("batching", pool=pool, device="simulated:h200", threads=2, seconds=0.5, **FIXED)
    assert any("threads" in note and "the cpu device" in note for note in run.record.notes)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "many", 5000])
def test_threads_that_there_cannot_be_are_refused(threads: Any):
    with pytest.raises(KnobError, match="threads"):
        labkit.run("batching", device="simulated:h200", threads=threads, seconds=0.5, **FIXED)
