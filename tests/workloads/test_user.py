"""Training of a user's own, stage by stage, on the virtual clock and on threads."""

from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import torch
from torch import nn

from labkit.device.cpu import CpuDevice
from labkit.device.machine import load_machine
from labkit.device.simulated import SimulatedDevice
from labkit.errors import DataError, ExperimentError, KnobError, LabkitError, WorkerDied
from labkit.kernels.pipeline import pipeline
from labkit.schedule import Cost, Elsewhere, Handle, Op, Status, Step
from labkit.workloads import user
from labkit.workloads.sample import Sample, sample_of
from labkit.workloads.training import epochs
from labkit.workloads.user import UserTraining
from tests.workloads.own import WIDE, Choosy, Linear, Points, knobs, parts, sgd

ITEM_NS = 1_000
BATCH_BYTES = 4 * WIDE + 8
"""Of one item of `Points`: ten floats and a label."""


@pytest.fixture(autouse=True)
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An item takes a microsecond, whatever the clock says."""
    monkeypatch.setattr(user, "sample_of", lambda loading: Sample(sample_of(loading).form, ITEM_NS))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums are added up in the same order in every lane thread and here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def ops_of(workload: UserTraining, step: Step) -> list[Op]:
    return [
        workload.load(step, 0), workload.copy(step, 0), *workload.prepare(step),
        workload.forward(step), workload.backward(step), workload.update(step), workload.log(step),
    ]  # fmt: skip


def train(workload: UserTraining, step: Step) -> float:
    """Run a step by hand; its loss."""
    load, copy, forward, backward, update, log = ops_of(workload, step)
    loaded = load.run()
    loss = forward.run(copy.run(loaded.value if isinstance(loaded, Elsewhere) else loaded))
    update.run(backward.run(loss))
    handle = Handle(step.index, "log")
    handle._value, handle.status, handle.seen = log.run(loss), Status.OK, True
    workload.logged(step, handle)
    return float(handle.value)


def losses(workload: UserTraining, count: int, **values: Any) -> list[float]:
    return [train(workload, Step(index, knobs(**values))) for index in range(count)]


# ---- what is computed ------------------------------------------------------------------------------------------------


def test_items_come_in_a_seeded_order_once_an_epoch_without_end():
    workload = UserTraining(parts(Points(6)), knobs(seed=3), "cpu")
    seen: list[torch.Tensor] = []
    for index in range(3):
        seen += list(workload.load(Step(index, knobs()), 0).run().inputs)
    order = epochs(6, 3)
    expected = [Points(6)[next(order)][0] for _ in range(12)]
    assert all(torch.equal(one, other) for one, other in zip(seen, expected, strict=True))


def test_a_batch_larger_than_the_data_wraps_around():
    batch = UserTraining(parts(Points(3)), knobs(), "cpu").load(Step(0, knobs(batch_size=8)), 0).run()
    assert batch.inputs.shape == (8, WIDE) and batch.target.shape == (8,)
    assert len({tuple(point.tolist()) for point in batch.inputs}) == 3


def test_training_is_what_a_plain_loop_does():
    workload = UserTraining(parts(model=lambda: Linear()), knobs(seed=5), "cpu")
    torch.manual_seed(5)
    model = Linear()
    optimizer, order, expected = sgd(model.parameters()), epochs(100, 5), []
    for _ in range(6):
        points, sides = zip(*(Points()[next(order)] for _ in range(4)), strict=True)
        loss = nn.functional.cross_entropy(model(torch.stack(points)), torch.tensor(sides))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert losses(workload, 6) == expected
    assert workload.results() == {"first_loss": expected[0], "last_loss": expected[-1], "losses_read": 6}


def test_training_learns_and_the_users_module_is_not_trained():
    model = Linear().eval()
    before = model.head.weight.detach().clone()
    read = losses(UserTraining(parts(model=model), knobs(), "cpu"), 60, batch_size=32)
    assert sum(read[-5:]) < 0.6 * sum(read[:5])
    assert torch.equal(model.head.weight, before) and not model.training


def test_a_module_that_was_left_for_evaluation_is_trained_and_its_gradients_are_dropped_as_torch_does():
    workload = UserTraining(parts(model=nn.Sequential(nn.BatchNorm1d(WIDE), Linear()).eval()), knobs(), "cpu")
    model = workload._learning.model
    before = model[0].running_mean.clone()
    train(workload, Step(0, knobs()))
    assert model.training and not torch.equal(model[0].running_mean, before)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_seed_makes_the_weights_of_a_function_and_not_those_of_a_module():
    def weights(model: Any, seed: int) -> torch.Tensor:
        return UserTraining(parts(model=model), knobs(seed=seed), "cpu")._learning.model.head.weight.detach()

    assert torch.equal(weights(Linear, 1), weights(Linear, 1)) and not torch.equal(weights(Linear, 1), weights(Linear, 2))
    module = Linear()
    assert torch.equal(weights(module, 1), weights(module, 2))


def test_a_new_run_begins_with_the_same_items_and_keeps_the_weights():
    workload = UserTraining(parts(), knobs(), "cpu")
    first = workload.load(Step(0, knobs()), 0).run().inputs
    before = losses(workload, 3)
    workload.begin()
    assert workload.results() == {"first_loss": None, "last_loss": None, "losses_read": 0}
    assert torch.equal(workload.load(Step(0, knobs()), 0).run().inputs, first)
    workload.begin()
    assert losses(workload, 3) != before


def test_inputs_in_dicts_and_a_collate_of_ones_own_reach_the_model():
    class Named(Points):
        def __getitem__(self, index: int) -> Any:
            point, side = super().__getitem__(index)
            return {"point": point, "name": f"point {index}", "side": side}

    class Reads(Linear):
        def forward(self, inputs: dict[str, Any]) -> torch.Tensor:
            assert inputs["names"][0].startswith("point ")
            return super().forward(inputs["points"])

    def collate(items: list[dict[str, Any]]) -> Any:
        points = {"points": torch.stack([item["point"] for item in items]), "names": [item["name"] for item in items]}
        return points, torch.tensor([item["side"] for item in items])

    packed = parts(Named(), Reads, collate=collate)
    assert losses(UserTraining(packed, knobs(), "cpu"), 2) == losses(UserTraining(parts(), knobs(), "cpu"), 2)
    assert UserTraining(packed, knobs(), "simulated").copy(Step(0, knobs()), 0).cost.bytes == 4 * BATCH_BYTES


def test_the_optimizer_may_ask_for_the_parameters_of_the_module_itself():
    model = Linear()
    read = losses(UserTraining(parts(model=model, optimizer=lambda _: sgd(model.parameters())), knobs(), "cpu"), 40, batch_size=32)
    assert read[-1] < read[0]


# ---- ops and their costs ---------------------------------------------------------------------------------------------


def test_the_stages_are_the_pipelines_and_the_load_is_one_op():
    ops = ops_of(UserTraining(parts(), knobs(), "cpu"), Step(3, knobs()))
    assert [op.name for op in ops] == ["load", "copy", "forward", "backward", "update", "log"]
    assert [op.lane.role for op in ops] == ["workers", "h2d", "compute", "compute", "compute", "d2h"]
    assert {op.step for op in ops} == {3}
    assert [(op.name, op.items) for op in ops if op.items] == [("update", 4)]


def test_knobs_say_on_which_lane_and_whether_the_host_is_held():
    def ops(**values: Any) -> dict[str, Op]:
        return {op.name: op for op in ops_of(UserTraining(parts(), knobs(**values), "cpu"), Step(0, knobs(**values)))}

    assert ops(loader="inline")["load"].lane.role == "host"
    assert ops(copy_stream="compute")["copy"].lane.role == "compute"
    assert [ops(non_blocking=flag)["copy"].blocking for flag in (True, False)] == [False, True]
    assert [ops(log_sync=flag)["log"].blocking for flag in (True, False)] == [True, False]
    assert [ops(pinned=flag)["copy"].cost.pageable for flag in (True, False)] == [False, True]


@pytest.mark.parametrize("size", [1, 4, 16, 4096])
def test_costs_scale_with_the_batch_on_every_device_alike(size: int):
    step = Step(0, knobs(batch_size=size))
    costs = [{op.name: op.cost for op in ops_of(UserTraining(parts(), knobs(), where), step)} for where in ("cpu", "simulated")]
    assert costs[0] == costs[1]
    assert costs[0]["load"] == Cost(bytes=size * BATCH_BYTES, fixed_ns=size * ITEM_NS)
    assert costs[0]["copy"] == Cost(bytes=size * BATCH_BYTES)
    assert costs[0]["forward"].flop == costs[0]["backward"].flop == size * 2 * WIDE * 2


def test_a_load_on_a_simulated_machine_takes_what_its_items_took_here_and_the_notes_say_so():
    workload, device = UserTraining(parts(), knobs(), "simulated"), SimulatedDevice(load_machine("h200"))
    sizes = (4, 8, 16)
    pipeline(device, workload, [Step(index, knobs(batch_size=size)) for index, size in enumerate(sizes)])
    assert device.close() == []
    rows = [row for row in device.recorder.rows if row[2] == "load"]
    rate = load_machine("h200")["host_bytes_per_s"]
    assert [row[10] - row[9] for row in rows] == [round(size * (ITEM_NS + BATCH_BYTES / rate * 1e9)) for size in sizes]
    assert workload.notes() == ["load: 1 µs an item, timed on this host when the workload was prepared"]


def test_prefetching_hides_the_load_behind_the_step_on_the_virtual_clock():
    def took_ns(prefetch: int) -> int:
        device = SimulatedDevice(load_machine("h200"))
        pipeline(device, UserTraining(parts(), knobs(), "simulated"), [Step(index, knobs(prefetch=prefetch)) for index in range(50)])
        device.close()
        return device.now()

    assert took_ns(2) + 50 * 4 * ITEM_NS <= took_ns(0)


def test_for_a_simulated_device_no_optimizer_is_made_and_no_memory_held():
    workload = UserTraining(parts(), knobs(), "simulated")
    assert not hasattr(workload, "optimizer") and not hasattr(workload, "_learning")
    assert all(parameter.is_meta for parameter in workload._costs._learning.model.parameters())


def test_a_model_larger_than_this_host_is_predicted():
    def huge() -> nn.Module:
        return nn.Sequential(nn.Linear(WIDE, 1 << 21), nn.Linear(1 << 21, 1 << 21), nn.Linear(1 << 21, 2))

    workload = UserTraining(parts(model=huge), knobs(), "simulated")
    assert workload.forward(Step(0, knobs())).cost.flop == 2 * 4 * (WIDE * 2**21 + 2**42 + 2 * 2**21)


def test_a_function_that_looks_at_the_weights_it_makes_is_predicted_too():
    def scaled() -> nn.Module:
        model = Linear()
        assert model.head.weight.abs().max().item() < 1
        return model

    assert UserTraining(parts(model=scaled), knobs(), "simulated").forward(Step(0, knobs())).cost.flop == 4 * 2 * WIDE * 2


# ---- on threads ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [
    {"prefetch": 4, "workers": 3}, {"prefetch": 2, "copy_stream": "compute"},
    {"prefetch": 1, "loader": "inline", "non_blocking": False, "log_sync": True}, {"prefetch": 3, "loader": "processes", "workers": 2},
])  # fmt: skip
def test_a_pipeline_on_threads_reads_the_losses_of_the_steps_done_by_hand(values: dict[str, Any]):
    settings = knobs(**values)
    expected = losses(UserTraining(parts(), knobs(), "cpu"), 8)
    workload, device = UserTraining(parts(), settings, "cpu"), CpuDevice(widths={"workers": settings.workers})
    pipeline(device, workload, [Step(index, settings) for index in range(8)])
    assert device.close() == []
    assert workload.results() == {"first_loss": expected[0], "last_loss": expected[-1], "losses_read": 8}
    workload.close()


def test_the_number_of_processes_is_fixed_while_they_live_and_a_simulated_device_starts_none():
    two, three = (knobs(loader="processes", workers=count) for count in (2, 3))
    assert two.cold() != three.cold() and knobs(workers=2).cold() == knobs(workers=3).cold()
    workload = UserTraining(parts(), two, "cpu")
    with pytest.raises(KnobError, match="workers=3 cannot act on a run whose loader is processes: it has 2"):
        workload.load(Step(0, three), 0)
    pids = workload._processes.pids.values()
    assert all(psutil.pid_exists(pid) for pid in pids)
    workload.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    simulated = UserTraining(parts(), two, "simulated")
    assert simulated._processes is None
    assert simulated.load(Step(0, three), 0).cost == Cost(bytes=4 * BATCH_BYTES, fixed_ns=4 * ITEM_NS)


def test_a_process_that_died_fails_the_run_and_the_next_run_has_new_ones():
    settings = knobs(loader="processes")
    workload = UserTraining(parts(), settings, "cpu")
    [pid] = workload._processes.pids.values()
    psutil.Process(pid).kill()
    with pytest.raises(WorkerDied, match="was ended by SIGKILL"):
        while True:
            train(workload, Step(0, settings))
    workload.begin()
    assert train(workload, Step(0, settings)) > 0
    workload.close()


def test_an_item_that_cannot_be_had_in_a_process_fails_the_load_with_its_index():
    class Broken(Points):
        def __getitem__(self, index: int) -> Any:
            if index == 13:
                raise OSError("disk is gone")
            return super().__getitem__(index)

    workload = UserTraining(parts(Broken()), knobs(loader="processes"), "cpu")
    assert failing(workload, loader="processes", batch_size=100) == "dataset[13] failed: OSError: disk is gone"
    workload.close()


# ---- what does not work ----------------------------------------------------------------------------------------------


def failing(workload: UserTraining, **values: Any) -> str:
    """How a step fails."""
    with pytest.raises(LabkitError) as failure:
        train(workload, Step(0, knobs(**values)))
    return str(failure.value)


def test_a_model_that_does_not_fit_its_input_says_the_shapes():
    workload = UserTraining(parts(model=lambda: nn.Linear(7, 2)), knobs(), "cpu")
    assert failing(workload).startswith("the model failed on its input, float32 [4, 10]: RuntimeError: mat1 and mat2")
    with pytest.raises(ExperimentError, match=r"^the model failed on its input, float32 \[4, 10\]: RuntimeError: mat1 and mat2"):
        UserTraining(parts(model=lambda: nn.Linear(7, 2)), knobs(), "simulated")


def test_a_loss_that_does_not_fit_the_output_says_both_forms():
    workload = UserTraining(parts(loss=lambda output, target: nn.functional.binary_cross_entropy_with_logits(output, target.float())), knobs(), "cpu")
    assert failing(workload).startswith("the loss failed on output float32 [4, 2] and target int64 [4]: ValueError: ")


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda output, target: nn.functional.cross_entropy(output, target, reduction="none"), r"the loss is float32 \[4\]; a tensor of one value is needed"),
        (lambda output, target: nn.functional.cross_entropy(output, target).item(), r"the loss is float; a tensor of one value is needed"),
        (lambda output, target: target.float().mean(), "the loss depends on no parameter of the model"),
    ],
)  # fmt: skip
def test_a_loss_that_cannot_be_made_small_is_refused(loss: Any, says: str):
    workload = UserTraining(parts(loss=loss), knobs(), "cpu")
    with pytest.raises(ExperimentError, match=f"^{says}"):
        workload.forward(Step(0, knobs())).run(workload.load(Step(0, knobs()), 0).run())
    with pytest.raises(ExperimentError, match=f"^{says}"):
        UserTraining(parts(loss=loss), knobs(), "simulated")


def test_a_model_that_cannot_be_counted_is_measured_and_not_predicted():
    with pytest.raises(ExperimentError) as refusal:
        UserTraining(parts(model=Choosy), knobs(), "simulated")
    assert str(refusal.value).startswith("this model cannot be predicted: on tensors that have shapes and no values the model failed")
    assert "device='cpu' and device='cuda' measure it" in str(refusal.value)
    workload = UserTraining(parts(model=Choosy), knobs(), "cpu")
    assert workload.forward(Step(0, knobs())).cost == Cost()
    [note] = workload.notes()
    assert note.startswith("forward, backward and update: FLOP and bytes could not be counted (the model failed on its input")
    assert all(loss > 0 for loss in losses(workload, 3))


def test_a_batch_size_that_the_model_cannot_take_fails_when_it_comes():
    def normalised() -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(WIDE), Linear())

    workload = UserTraining(parts(model=normalised), knobs(), "cpu")
    assert workload.forward(Step(0, knobs(batch_size=1))).cost == Cost()
    assert "float32 [1, 10]: ValueError: Expected more than 1 value per channel" in failing(workload, batch_size=1)
    with pytest.raises(ExperimentError, match="Expected more than 1 value per channel"):
        UserTraining(parts(model=normalised), knobs(), "simulated").forward(Step(0, knobs(batch_size=1)))


@pytest.mark.parametrize("where", ["cpu", "simulated"])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model": lambda: 5}, "the function that makes the model gave of type int; a torch.nn.Module is needed"),
        ({"model": lambda: 1 / 0}, "the function that makes the model failed: ZeroDivisionError"),
        ({"optimizer": lambda parameters: [*parameters]}, r"optimizer\(model.parameters\(\)\) gave a list of 2 parts"),
        ({"optimizer": lambda parameters: 1 / 0}, r"optimizer\(model.parameters\(\)\) failed: ZeroDivisionError"),
        ({"model": nn.Identity}, r"optimizer\(model.parameters\(\)\) failed: ValueError: optimizer got an empty parameter list"),
    ],
)  # fmt: skip
def test_parts_that_do_not_work_are_named_when_the_workload_is_prepared(where: str, given: dict[str, Any], says: str):
    with pytest.raises(ExperimentError, match=f"^{says}"):
        UserTraining(parts(**given), knobs(), where)


def test_an_item_that_cannot_be_had_fails_the_load_with_its_index():
    class Broken(Points):
        def __getitem__(self, index: int) -> Any:
            if index == 13:
                raise OSError("disk is gone")
            return super().__getitem__(index)

    assert failing(UserTraining(parts(Broken()), knobs(), "cpu"), batch_size=100) == "dataset[13] failed: OSError: disk is gone"


@pytest.mark.parametrize(
    ("collate", "says"),
    [
        (lambda items: torch.zeros(3), r"collate gave float32 \[3\]; a pair"),
        (lambda items: ([5.0], torch.zeros(1)), "the input of a batch holds no tensor, it is a list of 1 parts"),
        (lambda items: (torch.eye(3).to_sparse(), torch.zeros(3)), r"a batch holds a sparse tensor, which has no buffer: \(float32 \[3, 3\]"),
        (lambda items: 1 / 0, "8 items of the data set cannot be put together: ZeroDivisionError"),
    ],
)  # fmt: skip
def test_what_is_no_batch_is_refused(collate: Any, says: str):
    with pytest.raises(DataError, match=f"^{says}"):
        UserTraining(parts(collate=collate), knobs(), "cpu")
