"""One declaration gives one control for each knob; everything is plain data, and every value that a control offers is allowed."""

import json
from typing import Any, Literal

import pytest

from labkit.device.open import Choice
from labkit.errors import MachineError
from labkit.experiments import experiment
from labkit.experiments.pipeline import PipelineKnobs
from labkit.knobs import Knobs, knob
from labkit.panel.control_spec import BOTTLENECKS, MachineSlider, control_spec, knob_controls, machine_control

DEVICES = [Choice("cuda", "GPU", False, "no driver"), Choice("cpu", "CPU threads", True), Choice("simulated:t4", "simulated T4", True)]
LINK = MachineSlider("link_h2d_bytes_per_s", "host link", "GB/s", 1e9, 1, 20, log=True)


class Various(Knobs):
    """A knob of each form."""

    share: float = knob(0.5, "a bounded number", ge=0, le=1)
    free: float = knob(1.5, "a number without bounds", unit="s")
    fixed: float = knob(1.0, "a number with one value only", ge=1, le=1)
    at_128: int = knob(0, "as wide as a slider gets", ge=0, le=128)
    at_129: int = knob(0, "too wide for a slider", ge=0, le=129)
    maybe: int | None = knob(None, "a whole number, or none", ge=1, le=8)
    perhaps: bool | None = knob(None, "yes, no, or none")
    side: Literal["cpu", "gpu"] | None = knob("gpu", "a choice, or none")
    sizes: tuple[int, ...] = knob((1, 2), "several", live=False)


def control(name: str, knobs: type[Knobs] = Various) -> dict[str, Any]:
    return next(vars(one) for one in knob_controls(knobs) if one.name == name)


def spec(**more: Any) -> dict[str, Any]:
    return control_spec(experiment("pipeline"), DEVICES, **more)


# ---- the knobs of the pipeline -------------------------------------------------------------------------------


def test_each_knob_of_the_pipeline_has_the_control_that_suits_it():
    assert [(one.name, one.kind) for one in knob_controls(PipelineKnobs)] == [
        ("prefetch", "slider"),
        ("workers", "slider"),
        ("batch_size", "number"),
        ("augment_on", "choice"),
        ("normalise_on", "choice"),
        ("pinned", "switch"),
        ("non_blocking", "switch"),
        ("copy_stream", "choice"),
        ("log_every", "number"),
        ("log_sync", "switch"),
        ("loader", "choice"),
        ("image_size", "number"),
        ("model", "choice"),
        ("seed", "number"),
        ("data", "text"),
    ]


def test_a_slider_says_everything_that_the_declaration_says():
    assert control("prefetch", PipelineKnobs) == {
        "name": "prefetch",
        "kind": "slider",
        "min": 0,
        "max": 64,
        "step": 1,
        "whole": True,
        "unit": "batches",
        "help": "batches loaded ahead of the step; 0 is the synchronous program",
        "allowed": "whole number, 0 to 64",
        "default": 2,
        "choices": (),
        "optional": False,
        "cold": False,
        "doubles": False,
    }


def test_the_cold_knobs_of_the_pipeline_are_marked():
    assert [one.name for one in knob_controls(PipelineKnobs) if one.cold] == [
        "loader", "image_size", "model", "seed", "data",
    ]  # fmt: skip


def test_what_is_doubled_starts_at_one_or_more():
    assert [one.name for one in knob_controls(PipelineKnobs) if one.doubles] == ["batch_size", "image_size"]


# ---- knobs of every form -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "step"),
    [
        ("share", "slider", 0.01),
        ("free", "number", None),
        ("fixed", "number", None),
        ("at_128", "slider", 1),
        ("at_129", "number", 1),
        ("maybe", "number", 1),
        ("perhaps", "choice", None),
        ("side", "choice", None),
        ("sizes", "text", None),
    ],
)
def test_a_type_and_its_bounds_decide_the_control(name: str, kind: str, step: float | None):
    assert (control(name)["kind"], control(name)["step"]) == (kind, step)


def test_none_is_one_of_the_choices_of_an_optional_one():
    assert control("perhaps")["choices"] == (None, False, True)
    assert control("side")["choices"] == (None, "cpu", "gpu")
    assert control("maybe")["optional"] and control("maybe")["choices"] == ()


def test_a_default_is_what_json_holds():
    assert control("sizes")["default"] == [1, 2]
    assert control("maybe")["default"] is None


@pytest.mark.parametrize("knobs", [PipelineKnobs, Various])
def test_every_value_that_a_control_offers_is_allowed(knobs: type[Knobs]):
    for one in knob_controls(knobs):
        offered = [one.default, *one.choices, *([None] if one.optional else [])]
        if one.kind in ("slider", "number"):
            offered += [bound for bound in (one.min, one.max) if bound is not None]
        if one.kind == "slider":
            offered.append(one.min + one.step)
        if one.kind == "switch":
            offered += [False, True]
        for value in offered:
            read = getattr(knobs.parse({one.name: value}), one.name)
            assert list(read) == value if isinstance(value, list) else read == value


# ---- the machine's sliders -----------------------------------------------------------------------------------


def test_a_logarithmic_slider_visits_round_numbers_and_both_ends():
    slider = machine_control(MachineSlider("hbm_bytes_per_s", "HBM", "TB/s", 1e12, 0.32, 4.8, log=True))
    assert slider.stops == (0.32, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 4.8)
    assert slider.step is None


def test_a_logarithmic_slider_of_whole_numbers_visits_no_others():
    assert machine_control(MachineSlider("cores", "cores", "", 1, 1, 16, log=True, whole=True)).stops == (
        1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16,
    )  # fmt: skip


@pytest.mark.parametrize(("high", "whole", "step"), [(1, False, 0.01), (64, False, 0.5), (1000, False, 10), (4, True, 1)])
def test_a_linear_slider_takes_a_hundred_round_steps_or_steps_of_one(high: float, whole: bool, step: float):
    slider = machine_control(MachineSlider("corun_share", "share", "", 1, 0, high, log=False, whole=whole))
    assert (slider.step, slider.stops) == (step, ())


def test_a_figure_is_explained_as_the_machine_file_explains_it():
    slider = machine_control(LINK)
    assert (slider.name, slider.help, slider.allowed) == ("link_h2d_bytes_per_s", "host to device, pinned memory", "1 to 20")


@pytest.mark.parametrize(
    ("scale", "low", "high", "log", "words"),
    [(0, 1, 2, False, "scale of 0"), (1, 2, 2, False, "from 2 to 2"), (1, 0, 2, True, "begins at 0")],
)
def test_a_slider_that_cannot_be_drawn_is_refused(scale: float, low: float, high: float, log: bool, words: str):
    with pytest.raises(MachineError, match=words):
        MachineSlider("cores", "cores", "", scale, low, high, log)


# ---- the whole -----------------------------------------------------------------------------------------------


def test_the_spec_is_plain_data_that_json_keeps_as_it_is():
    whole = spec(machine=[LINK])
    assert json.loads(json.dumps(whole, allow_nan=False)) == whole


def test_the_spec_names_the_experiment_and_its_question():
    assert spec()["experiment"] == "pipeline"
    assert spec()["question"].startswith("What does loading ahead")


def test_a_device_that_is_not_here_says_why():
    assert spec()["devices"][0] == {
        "name": "cuda",
        "label": "GPU",
        "available": False,
        "reason": "no driver",
        "words": "GPU (not here: no driver)",
        "simulated": False,
    }


def test_simulated_devices_are_marked():
    assert [(device["name"], device["simulated"]) for device in spec()["devices"]] == [
        ("cuda", False), ("cpu", False), ("simulated:t4", True),
    ]  # fmt: skip


def test_a_preset_says_what_it_turns():
    assert spec()["presets"][0] == {
        "name": "naive",
        "words": "prefetch=0, loader=inline, pinned=false, non_blocking=false, log_sync=true",
        "knobs": {
            "prefetch": 0, "loader": "inline", "pinned": False, "non_blocking": False, "log_sync": True,
            "augment_on": "cpu", "normalise_on": "cpu",
        },
    }


def test_every_bottleneck_has_its_words_in_the_help():
    assert spec()["bottlenecks"] == ["compute", "workers", "h2d", "d2h", "host"]
    assert {name: spec()["help"][name] for name in BOTTLENECKS} == BOTTLENECKS
    assert spec(bottlenecks={"disk": "reading"})["bottlenecks"] == ["disk"]
