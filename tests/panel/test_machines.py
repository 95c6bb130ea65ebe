"""What-if in the panel: what a slider sets, what the machine is called then, and what is refused."""

import pytest

from labkit.device.cost_model import CostModel
from labkit.device.machine import SHIPPED, Machine, load_machine
from labkit.device.simulated import SimulatedDevice
from labkit.errors import MachineError
from labkit.panel.machines import PRESETS, SLIDERS, SOURCE, apply, changed_words, figures_set, sliders_of
from labkit.schedule import Cost, Lane, Op

NAMES = sorted(path.stem for path in SHIPPED.glob("*.yaml"))
LINK, BACK, PAGEABLE = "link_h2d_bytes_per_s", "link_d2h_bytes_per_s", "link_pageable_bytes_per_s"
FIGURES = [slider.figure for slider in SLIDERS]


@pytest.fixture
def h200() -> Machine:
    return load_machine("h200")


def test_the_link_is_set_in_both_directions(h200: Machine):
    changed = apply(h200, {LINK: 32e9})
    assert (changed[LINK], changed[BACK]) == (32e9, 32e9)
    assert CostModel(changed).duration_ns("copy", "d2h", Cost(bytes=32_000_000)) == 1_000_000 + 3000


def test_what_was_set_says_so_in_its_source_and_nothing_else_changes(h200: Machine):
    changed = apply(h200, {"cores": 8})
    assert changed.figures["cores"].source == SOURCE == "what-if: set in the panel"
    assert {name for name in h200.figures if changed.figures[name] != h200.figures[name]} == {"cores"}
    assert h200["cores"] == 24 and changed.name == "h200"


@pytest.mark.parametrize(
    ("changes", "label", "words"),
    [
        ({LINK: 32e9}, "H200 (changed: link 32 GB/s)", "H200 with link 32 GB/s"),
        ({"cores": 4, LINK: 32e9}, "H200 (changed: link 32 GB/s, cores 4)", "H200 with link 32 GB/s, cores 4"),
        ({LINK: 375e9, BACK: 297e9}, "H200 (changed: link 375 GB/s (back 297 GB/s))", "H200 with link 375 GB/s (back 297 GB/s)"),
        ({BACK: 20e9}, "H200 (changed: link (back 20 GB/s))", "H200 with link (back 20 GB/s)"),
        ({"hbm_bytes_per_s": 3.35e12}, "H200 (changed: GPU memory rate 3.35 TB/s)", "H200 with GPU memory rate 3.35 TB/s"),
        ({"copy_engines": 1}, "H200 (changed: copy engines 1)", "H200 with copy engines 1"),
        ({"gpu_flop_per_s": 500e12}, "H200 (changed: 16-bit peak 500 TFLOP/s)", "H200 with 16-bit peak 500 TFLOP/s"),
        ({}, "H200", "H200"),
    ],
)
def test_the_label_names_what_was_changed(h200: Machine, changes: dict[str, float], label: str, words: str):
    assert apply(h200, changes).label == label
    assert changed_words(h200, changes) == words
    assert SimulatedDevice(apply(h200, changes)).recorder.meta["device_label"] == f"simulated {label}"


@pytest.mark.parametrize("name", NAMES)
def test_the_values_that_a_machine_has_are_no_change(name: str):
    machine = load_machine(name)
    same = {figure: machine[figure] for figure in FIGURES if machine.get(figure) is not None}
    assert apply(machine, same) is machine
    assert figures_set(machine, same) == {}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate", [10e9, 12.2e9, 26e9, 55.4e9, 375e9, 450e9])
def test_a_pageable_copy_is_never_faster_than_a_pinned_one_nor_than_it_was(name: str, rate: float):
    machine = load_machine(name)
    changed = apply(machine, {LINK: rate})
    assert changed[PAGEABLE] < changed[LINK]
    assert changed[PAGEABLE] <= machine[PAGEABLE]


def test_a_slower_link_leaves_half_of_its_rate_to_staged_copies(h200: Machine):
    assert figures_set(h200, {LINK: 12e9}) == {LINK: 12e9, BACK: 12e9, PAGEABLE: 6e9}
    assert figures_set(h200, {LINK: 40e9}) == {LINK: 40e9, BACK: 40e9}, "13 GB/s fit through half of it"


def test_copies_that_are_not_staged_keep_their_share_of_the_link():
    assert figures_set(load_machine("gh200"), {LINK: 250e9})[PAGEABLE] == pytest.approx(250e9 * 297 / 375)


def test_a_machine_without_a_figure_gets_it(h200: Machine):
    assert h200.get("copy_engines") is None
    assert apply(h200, {"copy_engines": 1})["copy_engines"] == 1.0
    bare = Machine("bare", "Bare", "cuda", {})
    assert figures_set(bare, {LINK: 20e9}) == {LINK: 20e9, BACK: 20e9}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"speed": 1}, r"the panel changes no figure 'speed'; it changes: link_h2d_bytes_per_s, copy_engines, cores, "),
        ({"launch_ns": 1}, r"the panel changes no figure 'launch_ns'"),
        ({LINK: 9e9}, r"link_h2d_bytes_per_s=9000000000.0 is not allowed; allowed: 1e\+10 to 4.5e\+11"),
        ({BACK: 1e12}, r"link_d2h_bytes_per_s=1000000000000.0 is not allowed; allowed: 1e\+10 to 4.5e\+11"),
        ({"cores": 2.5}, r"cores=2.5 is not allowed; allowed: whole number, 1 to 128"),
        ({"copy_engines": 0}, r"copy_engines=0 is not allowed; allowed: whole number, 1 to 2"),
        ({"cores": float("nan")}, r"cores=nan is not allowed"),
        ({"cores": float("inf")}, r"cores=inf is not allowed"),
        ({"cores": True}, r"cores=True is not allowed"),
        ({"cores": "4"}, r"cores='4' is not allowed"),
    ],
)
def test_what_no_slider_can_give_is_refused_and_the_message_says_what_is_allowed(h200: Machine, changes, message: str):
    for ask in (apply, changed_words, figures_set):
        with pytest.raises(MachineError, match=message):
            ask(h200, changes)


def test_figures_of_a_gpu_cannot_act_where_threads_compute():
    laptop = Machine("this", "a laptop", "cpu", {})
    assert [slider.figure for slider in sliders_of(laptop)] == [LINK, "copy_engines", "cores"]
    with pytest.raises(MachineError, match="'gpu_flop_per_s' cannot act on a laptop: there, threads of the host compute; leave it out"):
        apply(laptop, {"gpu_flop_per_s": 500e12})
    assert sliders_of(load_machine("t4")) == SLIDERS


def test_the_ends_of_every_slider_are_allowed_and_hold_the_shipped_machines(h200: Machine):
    for slider in SLIDERS:
        for shown in (slider.low, slider.high):
            assert apply(h200, {slider.figure: shown * slider.scale})[slider.figure] == pytest.approx(shown * slider.scale)
        own = [load_machine(name).get(slider.figure) for name in NAMES]
        assert all(slider.low <= value / slider.scale <= slider.high for value in own if value is not None), slider.label


def ends(machine: Machine) -> list[tuple[int, int]]:
    """How and when the ops of a small program end: two workers, copies both ways, kernels of 16 and of 32 bits, one that needs 4 GB."""
    device = SimulatedDevice(machine, widths={"workers": 2})
    asks = [
        ("workers", Cost(jpeg_pixels=10**7)),
        ("workers", Cost(jpeg_pixels=10**7)),
        ("h2d", Cost(bytes=10**9)),
        ("d2h", Cost(bytes=10**9)),
        ("compute", Cost(flop=10**13, bits=16)),
        ("compute", Cost(flop=10**13)),
        ("compute", Cost(bytes=10**10, resident=4 * 10**9)),
    ]
    done = [device.submit(Op(f"op {number}", Lane(role), print, cost)) for number, (role, cost) in enumerate(asks)]
    return [(handle.status, handle.end_ns) for handle in done]


@pytest.mark.parametrize("figure", FIGURES)
def test_every_slider_moves_the_prediction(h200: Machine, figure: str):
    slider = next(slider for slider in SLIDERS if slider.figure == figure)
    assert ends(apply(h200, {figure: slider.low * slider.scale})) != ends(h200)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_a_preset_can_be_applied_to_every_shipped_machine_and_says_where_it_comes_from(preset):
    assert len(preset.source.split()) >= 4
    for name in NAMES:
        machine = load_machine(name)
        changed = apply(machine, preset.changes)
        assert all(changed[figure] == value for figure, value in preset.changes.items())


def test_links_grow_from_preset_to_preset():
    rates = [preset.changes[LINK] for preset in PRESETS if LINK in preset.changes]
    assert rates == sorted(rates) and len(rates) == 4
