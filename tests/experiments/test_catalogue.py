"""Every experiment of the catalogue can be looked up, and what it declares fits together."""

import subprocess
import sys
from dataclasses import replace
from inspect import signature

import pytest

from labkit import lab
from labkit.errors import DataError, ExperimentError, KnobError
from labkit.experiments import Experiment, experiment, experiments
from labkit.experiments.experiment import RESERVED
from labkit.knobs import Knobs, knob

NAMES = experiments()


def test_the_catalogue_has_the_pipeline_and_every_name_once():
    assert "pipeline" in NAMES
    assert len(set(NAMES)) == len(NAMES)


def test_the_list_of_names_is_a_copy():
    experiments().clear()
    assert experiments() == NAMES


@pytest.mark.parametrize("name", ["pipelines", "", "Pipeline", "labkit.experiments.pipeline"])
def test_an_unknown_name_is_refused_with_the_names_that_there_are(name: str):
    with pytest.raises(ExperimentError) as refusal:
        experiment(name)
    assert str(refusal.value) == f"there is no experiment {name!r}; there are: {', '.join(NAMES)}"


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_bears_the_name_it_is_found_by_and_asks_a_question(name: str):
    found = experiment(name)
    assert isinstance(found, Experiment)
    assert found.name == name
    assert found.question.endswith("?") and "\n" not in found.question
    assert experiment(name) is found


@pytest.mark.parametrize("name", NAMES)
def test_every_knob_has_help_and_a_default_within_its_own_bounds(name: str):
    knobs = experiment(name).knobs
    assert issubclass(knobs, Knobs)
    assert knobs.parse({}) == knobs() == knobs.parse(knobs().model_dump())
    for field, info in knobs.model_fields.items():
        assert info.description and "\n" not in info.description
        assert getattr(knobs.parse({field: info.default}), field) == info.default
        least, greatest = knobs.bounds(field)
        for bound in (least, greatest):
            assert bound is None or getattr(knobs.parse({field: bound}), field) == bound


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_is_valid_and_changes_something(name: str):
    found = experiment(name)
    for preset, values in found.presets.items():
        assert preset.strip()
        assert found.knobs.parse(values).differences(found.knobs()), f"preset '{preset}' is the default"


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_told_apart_by_their_values(name: str):
    found = experiment(name)
    assert len({found.knobs.parse(values) for values in found.presets.values()}) == len(found.presets)


@pytest.mark.parametrize("name", NAMES)
def test_the_widths_are_whole_units_of_known_lanes_for_the_default_and_every_preset(name: str):
    found = experiment(name)
    for values in ({}, *found.presets.values()):
        widths = found.widths(found.knobs.parse(values))
        assert set(widths) <= {"workers", "h2d", "compute", "d2h", "disk", "net"}
        assert all(isinstance(width, int) and width >= 1 for width in widths.values())


def test_the_pipeline_has_as_many_workers_as_its_knob_says():
    pipeline = experiment("pipeline")
    assert [pipeline.widths(pipeline.knobs(workers=count)) for count in (1, 8)] == [{"workers": 1}, {"workers": 8}]


def test_the_naive_preset_overlaps_nothing():
    knobs = experiment("pipeline").knobs.parse(experiment("pipeline").presets["naive"])
    assert (knobs.prefetch, knobs.loader, knobs.non_blocking, knobs.log_sync) == (0, "inline", False, True)


def test_a_folder_of_data_that_is_not_there_is_refused_before_anything_runs(tmp_path):
    pipeline = experiment("pipeline")
    with pytest.raises(DataError, match="does not exist"):
        pipeline.prepare(pipeline.knobs(data=str(tmp_path / "none")), "cpu")


@pytest.mark.parametrize(("model", "size", "least"), [("small", 16, 17), ("large", 16, 33), ("large", 32, 33)])
def test_a_batch_of_one_that_shrinks_to_one_value_is_refused_and_the_way_out_is_named(model: str, size: int, least: int):
    knobs = experiment("pipeline").knobs
    with pytest.raises(KnobError) as refusal:
        knobs.parse({"batch_size": 1, "image_size": size, "model": model})
    assert f"batch_size=1 with image_size={size} leaves the {model} model one value a channel" in str(refusal.value)
    assert str(refusal.value).endswith(f"allowed: batch_size of 2 or more, or image_size of {least} or more")
    knobs.parse({"batch_size": 1, "image_size": least, "model": model})
    knobs.parse({"batch_size": 2, "image_size": size, "model": model})
    with pytest.raises(KnobError, match="batch_size=1 with"):
        knobs(image_size=size, model=model).changed(batch_size=1)


def test_a_knob_may_not_take_the_name_of_a_parameter_of_run():
    class Taken(Knobs):
        device: str = knob("cpu", "taken")

    with pytest.raises(ExperimentError, match="experiment 'mine': a knob cannot be called device"):
        replace(experiment("pipeline"), name="mine", knobs=Taken)


def test_the_catalogue_is_read_without_loading_torch():
    code = "import sys, labkit.experiments as e; [e.experiment(n) for n in e.experiments()]; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("function", [lab.run, lab.sweep])
def test_no_knob_can_take_the_name_of_any_parameter_of_run_or_sweep(function):
    own = {name for name, parameter in signature(function).parameters.items() if parameter.kind is not parameter.VAR_KEYWORD}
    assert own <= RESERVED
