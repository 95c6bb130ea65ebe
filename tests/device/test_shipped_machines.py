"""The machines that labkit ships: each loads, gives its sources, and has what a prediction of the pipeline asks for."""

from pathlib import Path

import pytest

from labkit.device.cost_model import CostModel
from labkit.device.machine import FIGURES, SHIPPED, load_machine
from labkit.schedule import Cost

NAMES = sorted(path.stem for path in Path(SHIPPED).glob("*.yaml"))
PIPELINE = {
    "cores", "decode_pixels_per_s", "host_flop_per_s", "host_bytes_per_s", "link_h2d_bytes_per_s", "link_d2h_bytes_per_s",
    "link_pageable_bytes_per_s", "link_latency_ns", "link_duplex_share", "gpu_flop_per_s", "gpu_fp32_flop_per_s", "gpu_flop_share",
    "hbm_bytes_per_s", "hbm_share", "gpu_min_kernel_ns", "gpu_memory_bytes", "launch_ns", "submit_ns", "wake_ns",
    "dispatch_ns", "power_w",
}  # fmt: skip


def test_nine_machines_are_shipped():
    assert NAMES == ["a10", "a100", "cxl", "gh200", "h100", "h200", "l4", "rtx4090", "t4"]


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_machine_bears_the_name_of_its_file_and_is_a_gpu(name):
    machine = load_machine(name)
    assert (machine.name, machine.kind) == (name, "cuda")
    assert machine.label


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_a_shipped_machine_says_in_words_where_it_comes_from(name):
    for figure, entry in load_machine(name).figures.items():
        assert len(entry.source.split()) >= 4, f"{figure}: {entry.source!r}"


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_machine_has_all_figures_that_the_pipeline_needs_and_no_zero(name):
    machine = load_machine(name)
    assert PIPELINE - set(machine.figures) == set()
    assert all(entry.value > 0 for entry in machine.figures.values())
    assert set(machine.figures) <= set(FIGURES)


@pytest.mark.parametrize("name", NAMES)
def test_shares_of_a_shipped_machine_lie_between_nothing_and_all(name):
    machine = load_machine(name)
    shares = {figure: entry.value for figure, entry in machine.figures.items() if figure.endswith("_share")}
    assert all(0 < value <= 1 for value in shares.values()), shares


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_op_can_be_priced_on_a_shipped_machine(name):
    model = CostModel(load_machine(name))
    prices = [
        model.duration_ns("decode", "workers", Cost(jpeg_pixels=10**6, bytes=10**6, flop=10**6)),
        model.duration_ns("copy", "h2d", Cost(bytes=10**6)),
        model.duration_ns("copy", "h2d", Cost(bytes=10**6, pageable=True)),
        model.duration_ns("log", "d2h", Cost(bytes=4)),
        model.duration_ns("forward", "compute", Cost(flop=10**9, bytes=10**7, launches=40)),
        model.host_ns("compute", Cost(launches=40)),
        model.wake_ns,
        model.dispatch_ns("workers"),
    ]
    assert min(prices) > 1


@pytest.mark.parametrize(
    ("name", "dense"),
    [("h200", 989e12), ("h100", 989e12), ("gh200", 989e12), ("cxl", 989e12), ("a100", 312e12), ("a10", 125e12), ("l4", 121e12), ("t4", 65e12), ("rtx4090", 165.2e12)],
)
def test_the_16_bit_peak_is_the_dense_one_not_the_sparse_one(name, dense):
    assert load_machine(name)["gpu_flop_per_s"] == dense
    assert load_machine("h200")["gpu_flop_per_s"] <= 1.0e15


def test_an_h200_product_of_8192_is_predicted_within_a_quarter_of_what_has_been_measured_elsewhere():
    """769 to 798 TFLOP/s through PyTorch; the sparse peak would predict twice that."""
    flop = 2 * 8192**3
    predicted_ns = CostModel(load_machine("h200")).duration_ns("gemm", "compute", Cost(flop=flop, bytes=3 * 8192**2 * 2, bits=16))
    assert flop / predicted_ns * 1e9 == pytest.approx(780e12, rel=0.25)


def test_pageable_copies_are_slower_than_pinned_ones_on_every_machine():
    for name in NAMES:
        machine = load_machine(name)
        assert machine["link_pageable_bytes_per_s"] < machine["link_h2d_bytes_per_s"]


def test_no_price_is_given_without_a_public_source():
    assert [name for name in NAMES if load_machine(name).get("price_usd_per_hour") is not None] == []


def test_a_cxl_pool_differs_from_the_h200_in_the_rate_and_the_latency_of_its_link_only():
    pool, local = load_machine("cxl"), load_machine("h200")
    changed = {name for name in FIGURES if pool.get(name) != local.get(name)}
    assert changed == {"link_h2d_bytes_per_s", "link_d2h_bytes_per_s", "link_latency_ns"}
    copy = Cost(bytes=29_600_000)
    assert CostModel(pool).duration_ns("copy", "h2d", copy) == 1_000_000 + 3095
    assert CostModel(local).duration_ns("copy", "h2d", copy) == 534_296 + 3000


def test_unified_memory_copies_faster_than_any_pcie_link_and_is_not_staged():
    gh200 = load_machine("gh200")
    pcie = [load_machine(name) for name in NAMES if name != "gh200"]
    assert gh200["link_h2d_bytes_per_s"] > 6 * max(machine["link_h2d_bytes_per_s"] for machine in pcie)
    assert gh200["link_pageable_bytes_per_s"] == gh200["link_d2h_bytes_per_s"]
