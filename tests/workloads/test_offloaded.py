"""Offloaded layers compute what the model held whole computes, bit for bit in float32; packed weights stray no further than they say."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labkit.device.cpu import CpuDevice
from labkit.errors import DataError, KnobError
from labkit.experiments.offload import OffloadKnobs, prepare
from labkit.kernels.offload import offload
from labkit.schedule import Step
from labkit.workloads.block_file import PAGE
from labkit.workloads.layer_store import DiskStore, HostStore
from labkit.workloads.layered_models import layer_of
from labkit.workloads.offloaded import Offloaded
from labkit.workloads.packed_layer import PackedLayer

SMALL = {"layers": 4, "width": 64, "batch_size": 3}


def passed(passes: int = 3, changes: dict[int, dict[str, Any]] | None = None, **knobs: Any) -> dict[str, Any]:
    """The results of some passes on the cpu device."""
    settings = {**SMALL, **knobs}
    workload = prepare(OffloadKnobs.parse(settings), "cpu")
    steps = []
    for index in range(passes):
        settings |= (changes or {}).get(index, {})
        steps.append(Step(index, OffloadKnobs.parse(settings)))
    device = CpuDevice()
    try:
        offload(device, workload, steps)
    finally:
        failures = device.close()
        results = workload.results()
        workload.close()
    assert not failures, failures
    return results


def held_whole(**knobs: Any) -> bytes:
    """The result of the model held whole, without any of this."""
    chosen = OffloadKnobs.parse({**SMALL, **knobs})
    workload = prepare(chosen, "cpu")
    hidden = workload.enter(Step(0, chosen)).run()
    with torch.inference_mode():
        for layer in range(chosen.layers):
            hidden = layer_of(chosen.model, chosen.width, chosen.seed, layer)(hidden)
    workload.close()
    return hidden.numpy().tobytes()


def digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


# ---- the same result -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["mlp", "decoder"])
@pytest.mark.parametrize("source", ["host", "disk"])
@pytest.mark.parametrize(
    "knobs",
    [
        {"device_budget": 0.0, "prefetch": 0, "slots": 1},
        {"device_budget": 0.0, "prefetch": 3, "slots": 4},
        {"device_budget": 0.5, "keep": "first", "prefetch": 1, "slots": 2},
        {"device_budget": 0.5, "keep": "last", "prefetch": 7, "slots": 3},
        {"device_budget": 1.0},
    ],
)
def test_every_setting_gives_the_result_of_the_model_held_whole_bit_for_bit(model: str, source: str, knobs: dict[str, Any]):
    assert passed(model=model, source=source, **knobs)["result_sha256"] == digest(held_whole(model=model))


def test_knobs_turned_between_passes_change_nothing_in_the_result():
    changes = {1: {"device_budget": 1.0}, 2: {"device_budget": 0.25, "keep": "last"}, 3: {"prefetch": 0, "slots": 1}, 5: {"prefetch": 3, "slots": 4}}
    assert passed(8, changes, source="disk", cached=False)["result_sha256"] == digest(held_whole())


@pytest.mark.parametrize("dequant_on", ["cpu", "gpu"])
@pytest.mark.parametrize("source", ["host", "disk"])
def test_packed_weights_give_one_result_wherever_they_are_unpacked_and_tell_how_far_it_strays(dequant_on: str, source: str):
    results = passed(weights="int8", dequant_on=dequant_on, source=source)
    assert results["result_sha256"] == passed(weights="int8", device_budget=1.0)["result_sha256"]
    assert 0.999 < results["cosine_to_fp32"] < 1.0


def test_where_weights_are_unpacked_may_be_turned_while_layers_are_on_their_way():
    changes = {number: {"dequant_on": ("cpu", "gpu")[number % 2]} for number in range(8)}
    turned = passed(8, changes, weights="int8", prefetch=3, slots=4, device_budget=0.5)
    assert turned["result_sha256"] == passed(weights="int8")["result_sha256"]


# ---- packing -------------------------------------------------------------------------------------------------


def shapes_of(layer: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in layer.named_parameters()}


@pytest.mark.parametrize("model", ["mlp", "decoder"])
def test_packed_float32_is_the_parameters_themselves(model: str):
    layer = layer_of(model, 64, 0, 0)
    packing = PackedLayer(shapes_of(layer), "fp32")
    for name, view in packing.views(packing.packed(dict(layer.named_parameters()))).items():
        assert torch.equal(view, layer.get_parameter(name))


@pytest.mark.parametrize("model", ["mlp", "decoder"])
def test_int8_is_off_by_half_a_level_at_most_and_a_quarter_of_the_size(model: str):
    layer = layer_of(model, 512, 0, 0)
    packing, whole = PackedLayer(shapes_of(layer), "int8"), PackedLayer(shapes_of(layer), "fp32")
    unpacked = packing.unpack(packing.packed(dict(layer.named_parameters())), whole, torch.zeros(whole.nbytes, dtype=torch.uint8))
    for name, view in whole.views(unpacked).items():
        value = layer.get_parameter(name)
        if value.ndim == 1:
            assert torch.equal(view, value)
        else:
            levels = value.abs().amax(1, keepdim=True) / 127
            assert ((view - value).abs() <= levels * 0.5001).all()
    assert packing.nbytes / whole.nbytes <= 0.26


def test_a_channel_of_zeros_stays_one():
    packing, whole = PackedLayer({"w": (2, 4)}, "int8"), PackedLayer({"w": (2, 4)}, "fp32")
    packed = packing.packed({"w": torch.tensor([[0.0, 0, 0, 0], [1, -2, 0.5, 2]])})
    unpacked = whole.views(packing.unpack(packed, whole, torch.zeros(whole.nbytes, dtype=torch.uint8)))["w"]
    assert unpacked[0].tolist() == [0, 0, 0, 0]
    assert unpacked[1].tolist() == pytest.approx([1, -2, 0.5, 2], abs=2 / 254)


# ---- where they lie ------------------------------------------------------------------------------------------


def bytes_of(layer: int) -> torch.Tensor:
    return torch.full((1000,), layer, dtype=torch.uint8)


@pytest.mark.parametrize("cached", [True, False])
def test_what_was_written_is_read(tmp_path: Path, cached: bool):
    store = DiskStore(5, 1000, bytes_of, str(tmp_path))
    into = torch.empty(1000, dtype=torch.uint8)
    assert [store.read(layer, into, cached)[0].item() for layer in (3, 0, 4, 3)] == [3, 0, 4, 3]
    assert list(tmp_path.iterdir()) == [], "the file has no name, so that nothing can be left behind"
    store.close()
    assert HostStore(5, 1000, bytes_of, False).there(2)[0] == 2


def test_what_is_wrong_with_the_file_is_said_of_a_layer(tmp_path: Path):
    store = DiskStore(5, 1000, bytes_of, str(tmp_path))
    into = torch.empty(1000, dtype=torch.uint8)
    os.ftruncate(store._file._file.fileno(), 3 * PAGE + 400)
    with pytest.raises(DataError, match=r"layer 3 is cut off: 400 B of 1000 B are there"):
        store.read(3, into, True)
    assert store.read(1, into, True)[0] == 1, "the others are as they were"
    with pytest.raises(DataError, match=r"layer 0 of 5 \(1000 B; 20 KiB in all\) cannot be written to /dev/nowhere: No such file"):
        DiskStore(5, 1000, bytes_of, "/dev/nowhere")


# ---- memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "slots"), [(0.0, 1), (0.0, 3), (0.5, 2)])
def test_what_is_held_is_the_budget_and_the_buffers(budget: float, slots: int):
    results = passed(6, source="disk", layers=8, width=128, device_budget=budget, slots=slots, prefetch=slots - 1)
    places = int(budget * 8) + slots
    assert results["held_bytes"] <= 2 * places * results["layer_bytes"], "a host and a device side each"


@pytest.mark.parametrize(("keep", "layers"), [("first", {0, 1, 2}), ("last", {5, 6, 7}), ("interleaved", {0, 2, 5})])
def test_which_layers_stay(keep: str, layers: set[int]):
    chosen = OffloadKnobs.parse({"layers": 8, "width": 64, "device_budget": 0.4, "keep": keep})
    workload = Offloaded(chosen, "simulated", np.zeros(64, np.uint8))
    assert workload.keeps(chosen) == layers


# ---- wrong input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"device_budget": -0.1}, "device_budget"),
        ({"device_budget": 1.01}, "device_budget"),
        ({"device_budget": float("nan")}, "device_budget"),
        ({"prefetch": -1}, "prefetch"),
        ({"slots": 0}, "slots"),
        ({"slots": 66}, "slots"),
        ({"batch_size": 0}, "batch_size"),
        ({"layers": 0}, "layers"),
        ({"width": 100}, "no multiple of 64; allowed: 64, 128, 192"),
        ({"weights": "int4"}, "weights"),
        ({"source": "tape"}, "source"),
        ({"keep": "middle"}, "keep"),
        ({"dequant_on": "tpu"}, "dequant_on"),
        ({"model": "rnn"}, "model"),
        ({"budget": 0.5}, "budget"),
    ],
)
def test_a_knob_that_cannot_be_is_refused_with_what_is_allowed(knobs: dict[str, Any], words: str):
    with pytest.raises(KnobError, match=words):
        OffloadKnobs.parse(knobs)


def test_a_text_that_is_missing_or_too_short_is_refused(tmp_path: Path):
    short = tmp_path / "short.txt"
    short.write_text("a few words")
    with pytest.raises(DataError, match=r"short.txt has 11 bytes; at least 64 are needed"):
        prepare(OffloadKnobs.parse({"model": "decoder", "data": str(short)}), "simulated")
    with pytest.raises(DataError, match=r"nowhere.txt cannot be read: No such file"):
        prepare(OffloadKnobs.parse({"model": "decoder", "data": str(tmp_path / "nowhere.txt")}), "simulated")
