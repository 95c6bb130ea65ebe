"""The roofline: the same times as the cost model, the right roof named, and nothing guessed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from labkit.device.cost_model import CostModel
from labkit.device.machine import Figure, Machine, load_machine
from labkit.errors import ExperimentError, MachineError
from labkit.experiments.target import target
from labkit.figures import roofline
from labkit.profile import place, profile
from labkit.profile.roofline import roofs, sentence
from labkit.schedule import Cost
from tests.cli.conftest import labkit  # noqa: F401  (a fixture)

FIGURES = {
    "gpu_flop_per_s": 100e12, "gpu_fp32_flop_per_s": 50e12, "gpu_flop_share": 0.8, "hbm_bytes_per_s": 1e12, "hbm_share": 0.5,
    "gpu_min_kernel_ns": 2000.0, "launch_ns": 5000.0,
}  # fmt: skip


def gpu(**changes: float | None) -> Machine:
    values = {name: value for name, value in {**FIGURES, **changes}.items() if value is not None}
    return Machine("toy", "toy GPU", "cuda", {name: Figure(value, "test") for name, value in values.items()})


def test_the_roofs_are_what_large_kernels_reach_and_16_bits_have_their_own():
    fp32, half = roofs(gpu(), "float32"), roofs(gpu(), "bfloat16")
    assert (fp32.flop_per_s, half.flop_per_s, fp32.bytes_per_s, fp32.launch_ns) == (40e12, 80e12, 0.5e12, 5000.0)
    assert fp32.ridge == 80


@pytest.mark.parametrize(
    ("work", "bound"),
    [
        (lambda: (nn.Linear(4096, 4096, bias=False), torch.randn(4096, 4096)), "compute"),
        (lambda: (nn.ReLU(), torch.randn(64, 1024, 1024)), "memory"),
        (lambda: (nn.ReLU(), torch.randn(8, 8)), "launch"),
    ],
)
def test_the_roof_that_holds_an_operator_back_is_named(work: Callable, bound: str):
    model, x = work()
    [placed] = place(profile(model, x), gpu())
    assert placed.bound == bound


def test_the_times_are_those_of_the_simulated_device_and_never_less_than_the_launches():
    model, x = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()), torch.randn(2048, 2048)
    for placed in place(profile(model, x), gpu()):
        cost = Cost(flop=placed.op.flop, bytes=placed.op.bytes, launches=placed.op.calls)
        kernel_ns = CostModel(gpu()).duration_ns(placed.op.name, "compute", cost)
        assert placed.time_ns == max(kernel_ns, 5000.0 * placed.op.calls)


def test_a_figure_that_is_missing_is_not_guessed():
    with pytest.raises(MachineError, match="gpu_fp32_flop_per_s"):
        place(profile(nn.ReLU(), torch.randn(8)), gpu(gpu_fp32_flop_per_s=None))


def test_what_is_unknown_has_no_time_and_is_named():
    found = profile(lambda x: torch.linalg.inv(x), torch.eye(8))
    placed = place(found, gpu())
    unknown = [each for each in placed if each.bound == "unknown"]
    assert unknown and all(each.time_ns is None for each in unknown)
    assert f"{len(unknown)} of {len(placed)} operators are unknown: " in sentence(placed, gpu())


def test_the_figure_says_what_is_counted_and_what_is_predicted():
    model, inputs = target("pipeline", {"image_size": "64"}, 8, "float32")
    found, machine = profile(model, *inputs, name="pipeline"), load_machine("h200")
    figure = roofline(found, place(found, machine), machine)
    assert "FLOP counted, times predicted for H200" in figure.layout.title.text
    assert {trace.name for trace in figure.data} >= {"roof, float32", "the whole"}
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"


def test_a_factory_of_ones_own_is_found_in_the_working_folder(labkit: Callable, tmp_path: Path):  # noqa: F811
    Path("mine_to_profile.py").write_text(
        "import torch\n\ndef make():\n    return torch.nn.Linear(64, 32), torch.randn(4, 64)\n\ndef bad():\n    return 7\n"
    )
    told = json.loads(labkit("profile", "mine_to_profile:make", "--on", "t4", "--json").out)
    assert told["totals"]["flop"] == 2 * 4 * 64 * 32
    assert (told["predicted"], told["machine"]) == (True, "t4")
    text = labkit("profile", "mine_to_profile:make", "--on", "t4", "--html", "roof.html").out
    assert "addmm" in text and "Predicted time on" in text
    assert "<html" in Path("roof.html").read_text()
    for wrong, says in (
        (["mine_to_profile:bad"], "returned int; it must return (model, inputs)"),
        (["mine_to_profile:nothing"], "has no attribute 'nothing'"),
        (["nowhere_at_all:make"], "No module named"),
        (["pipeline", "--dtype", "int8"], "dtype='int8' is not allowed; allowed: float32, bfloat16, float16"),
        (["pipeline", "--batch", "0"], "batch=0 is out of range"),
        (["pipeline", "--on", "abacus"], "there is no machine 'abacus'"),
    ):
        ended = labkit("profile", *wrong)
        assert ended.code == 2 and says in ended.err, ended.err


def test_an_experiment_without_a_model_of_labkits_is_refused():
    with pytest.raises(ExperimentError, match="there is no experiment"):
        target("serving", {}, None, "float32")
