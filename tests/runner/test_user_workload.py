"""A user's own workload by the lab's functions: in worker processes, on the cpu and on simulated machines."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import labkit
from labkit.device.open import cuda_count
from labkit.experiments import Experiment
from labkit.runner.workers import Workers
from labkit.store import load_run
from tests.workloads.own import Choosy, Linear, Points, sgd

CELL = """
import torch, labkit
class Shapes(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, index): return torch.full((1, 8, 8), float(index % 2)), index % 2
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    def forward(self, images): return self.layers(images)
mine = labkit.workload(Shapes(), Net, torch.nn.functional.cross_entropy, lambda parameters: torch.optim.SGD(parameters, lr=0.1))
"""


def own(**changed: Any) -> Experiment:
    given = {"model": Linear, "loss": nn.functional.cross_entropy, "optimizer": sgd, "name": "mine"} | changed
    return labkit.workload(Points(), **given)


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    with Workers() as workers:
        yield workers


@pytest.fixture(scope="module")
def mine() -> Experiment:
    return own()


@pytest.mark.parametrize("loader", ["threads", "processes"])
def test_a_notebook_cell_of_ten_lines_runs(pool: Workers, loader: str):
    """Its classes live in `__main__`, where no other process finds them."""
    assert CELL.strip().count("\n") < 10
    cell = types.ModuleType("__main__")
    exec(CELL, cell.__dict__)
    assert cell.Net.__module__ == cell.Shapes.__module__ == "__main__"
    run = labkit.run(cell.mine, prefetch=4, loader=loader, device="cpu", steps=30, pool=pool).checked()
    assert run.record.experiment == "workload"
    assert run.record.results["losses_read"] == 38
    assert run.record.results["last_loss"] < run.record.results["first_loss"]


def test_a_record_carries_its_name_and_is_saved_under_it(mine: Experiment, pool: Workers, tmp_path: Path):
    run = labkit.run(mine, device="cpu", steps=20, out=tmp_path, pool=pool, batch_size=8, loader="inline").checked()
    assert run.record.experiment == "mine" and "-mine-" in run.record.id
    assert run.record.knobs == {**mine.knobs().model_dump(), "batch_size": 8, "loader": "inline"}
    assert run.record.metrics["throughput"]["value"] > 0
    assert load_run("last", tmp_path).record == run.record


def test_a_warm_worker_goes_on_with_the_weights_it_has(mine: Experiment, pool: Workers):
    first, second = (labkit.run(mine, device="cpu", steps=100, batch_size=32, pool=pool).checked() for _ in range(2))
    assert second.record.results["first_loss"] < first.record.results["first_loss"] / 2


def test_two_models_of_one_name_are_told_apart_by_a_warm_worker(mine: Experiment, pool: Workers):
    labkit.run(mine, device="cpu", steps=5, pool=pool).checked()
    other = labkit.run(own(model=lambda: nn.Linear(10, 3)), device="cpu", steps=5, pool=pool).checked()
    assert other.record.costs["forward"]["flop"] == 16 * 2 * 10 * 3


def test_two_settings_are_compared_in_turns(mine: Experiment, pool: Workers):
    both = labkit.compare(mine, a=mine.presets["naive"], b=mine.presets["overlapped"], device="cpu", steps=20, rounds=3, pool=pool)
    assert both.a.record.status == both.b.record.status == "ok"
    assert both.comparison.rounds == 3 and "throughput" in both.comparison.ratios
    assert both.a.record.knobs["loader"] == "inline" and both.b.record.knobs["prefetch"] == 4


def test_a_prediction_says_that_its_loads_were_timed_here(mine: Experiment, pool: Workers):
    run = labkit.predict(mine, on="h200", prefetch=4, pool=pool).checked()
    assert run.record.verdict.grade == "PREDICTED" and run.record.device == "simulated:h200"
    assert any(note.startswith("load: ") and "an item, timed on this host" in note for note in run.record.notes)


def test_a_prediction_from_a_measured_run_scales_its_op_times_with_the_batch(mine: Experiment, pool: Workers):
    measured = labkit.run(mine, device="cpu", steps=50, pool=pool).checked()
    op_ns = {name: op.mean_ns for name, op in measured.costs().ops.items()}
    predicted = labkit.predict(mine, on="t4", costs=measured, batch_size=64, steps=20, pool=pool).checked()
    assert predicted.trace is not None
    rows = predicted.trace.frame()
    for name, times in (("load", 4), ("forward", 4), ("backward", 4), ("update", 1)):
        took_ns = (rows["end_ns"] - rows["start_ns"])[rows["name"] == name]
        assert took_ns.to_numpy() == pytest.approx(times * op_ns[name], abs=1)


def test_a_sweep_never_takes_the_runs_of_another_model_for_its_own(mine: Experiment, tmp_path: Path):
    for made in (mine, own(model=lambda: nn.Linear(10, 3))):
        swept = labkit.sweep(made, {"prefetch": [0, 1]}, device="cpu", steps=5, out=tmp_path)
        assert [run.record.status for run in swept.made] == ["ok", "ok"] and swept.there == ()
        assert [run.record.knobs["prefetch"] for run in swept.made] == [0, 1]


def test_a_sweep_of_the_same_model_goes_on_where_it_ended(mine: Experiment, tmp_path: Path):
    first = labkit.sweep(mine, {"prefetch": [0, 1]}, device="cpu", steps=5, out=tmp_path)
    again = labkit.sweep(mine, {"prefetch": [0, 1, 2]}, device="cpu", steps=5, out=tmp_path)
    assert [run.record.knobs["prefetch"] for run in again.made] == [2]
    assert {run.record.id for run in again.there} == {run.record.id for run in first.made}



def test_a_model_that_does_not_fit_its_data_is_a_failed_record_that_says_the_shapes(pool: Workers):
    run = labkit.run(own(model=lambda: nn.Linear(7, 2)), device="cpu", steps=5, pool=pool)
    assert run.record.status == "failed"
    assert run.record.reason.startswith("op 'forward': ExperimentError: the model failed on its input, float32 [16, 10]: RuntimeError: mat1")


def test_a_model_that_cannot_be_counted_is_measured_and_its_prediction_fails_with_the_reason(pool: Workers):
    made = own(model=Choosy)
    measured = labkit.run(made, device="cpu", steps=5, pool=pool).checked()
    assert any("could not be counted" in note for note in measured.record.notes)
    predicted = labkit.predict(made, pool=pool)
    assert predicted.record.status == "failed"
    assert predicted.record.reason.startswith("this model cannot be predicted: ")


@pytest.mark.cuda
@pytest.mark.parametrize("values", [{"prefetch": 4}, {"prefetch": 2, "pinned": False, "copy_stream": "compute"}, {"loader": "processes"}])
def test_on_a_gpu_it_learns_as_on_the_cpu(mine: Experiment, pool: Workers, values: dict[str, Any]):
    count, reason = cuda_count()
    if not count:
        pytest.skip(reason)
    run = labkit.run(mine, device="cuda", steps=60, batch_size=32, pool=pool, **values).checked()
    assert run.record.results["losses_read"] == 68
    assert run.record.results["last_loss"] < run.record.results["first_loss"]
