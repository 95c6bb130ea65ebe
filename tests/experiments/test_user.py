"""A user's own workload as an experiment: what it declares, and what is refused before anything is copied or started."""

import pickle
import threading
from typing import Any

import cloudpickle
import pytest
import torch
from torch import nn

import labkit
from labkit.errors import DataError, ExperimentError
from labkit.experiments import Experiment, experiment, experiments
from labkit.experiments.pipeline import PipelineKnobs
from labkit.experiments.user import UserKnobs, workload
from labkit.knobs import Knobs
from labkit.workloads.user import UserTraining
from tests.workloads.own import Linear, Points, sgd


def mine(dataset: Any = None, **changed: Any) -> Experiment:
    """A workload of points, with some parts changed."""
    given = {"model": Linear, "loss": nn.functional.cross_entropy, "optimizer": sgd} | changed
    return workload(Points() if dataset is None else dataset, **given)


# ---- what it declares ------------------------------------------------------------------------------------------------


def test_it_is_an_experiment_that_is_taken_where_a_name_is():
    made = mine(name="mine")
    assert isinstance(made, Experiment) and made.name == "mine" and mine().name == "workload"
    assert experiment(made) is made
    assert labkit.workload is workload
    assert made.question.endswith("?")


@pytest.mark.parametrize("wrong", [None, 5, ["pipeline"], Linear])
def test_what_is_neither_a_name_nor_an_experiment_is_refused(wrong: Any):
    with pytest.raises(ExperimentError, match=r"an experiment's name is needed, or what labkit\.workload"):
        experiment(wrong)


def test_a_knob_of_the_pipelines_name_is_declared_as_the_pipelines():
    def declared(knobs: type[Knobs], name: str) -> Any:
        field = knobs.model_fields[name]
        return field.default, field.description, field.annotation, knobs.bounds(name), field.json_schema_extra

    assert set(UserKnobs.model_fields) < set(PipelineKnobs.model_fields)
    for name in set(UserKnobs.model_fields) - {"batch_size", "seed"}:
        assert declared(UserKnobs, name) == declared(PipelineKnobs, name)
    assert UserKnobs.bounds("batch_size") == (1, 4096)


def test_its_presets_and_widths_are_the_pipelines():
    made, pipeline = mine(), experiment("pipeline")
    assert made.presets == {name: pipeline.presets[name] for name in ("naive", "overlapped")}
    for values in made.presets.values():
        made.knobs.parse(values)
    assert made.widths(made.knobs(workers=5)) == {"workers": 5}


def test_the_parts_are_copied_when_it_is_made():
    model, data = Linear(), Points(100)
    made = mine(data, model=model)
    before = model.head.weight.detach().clone()
    with torch.no_grad():
        model.head.weight.zero_()
    data.count = 1
    prepared = made.prepare(made.knobs(), "cpu")
    assert isinstance(prepared, UserTraining)
    assert torch.equal(prepared._learning.model.head.weight, before) and prepared._items == 100


def test_it_travels_as_the_same_bytes_every_time():
    """By them a worker knows what it has prepared already."""
    made = mine(model=Linear())
    once = cloudpickle.dumps(made.prepare)
    assert once == cloudpickle.dumps(made.prepare) == cloudpickle.dumps(pickle.loads(once))


def test_it_is_shown_without_its_bytes():
    assert len(repr(mine(model=nn.Linear(1000, 1000)))) < 1000


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", " ", "a b", "../up", "a/b", "-first", "_first", "é", "a\n", "x" * 65, 5, None])
def test_a_name_that_folders_cannot_have_is_refused(name: Any):
    with pytest.raises(ExperimentError, match=r"name=.* is not allowed: letters, digits, - and _"):
        mine(name=name)


def test_names_of_the_catalogue_are_taken():
    for name in experiments():
        with pytest.raises(ExperimentError, match=f"name='{name}' is that of an experiment of labkit's"):
            mine(name=name)
    assert [mine(name=name).name for name in ("A", "my-net_2", "x" * 64)] == ["A", "my-net_2", "x" * 64]


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self) -> Any:
        return iter(Points())


class Unmeasured:
    def __getitem__(self, index: int) -> Any:
        return Points()[index]


class Failing(Points):
    def __getitem__(self, index: int) -> Any:
        raise FileNotFoundError("no such photo")


class Of(Points):
    """Items that are what was given."""

    def __init__(self, item: Any):
        super().__init__()
        self.item = item

    def __getitem__(self, index: int) -> Any:
        return self.item


@pytest.mark.parametrize(
    ("dataset", "says"),
    [
        (Points, r"dataset is the class Points: give an instance, Points\(…\)"),
        (torch.utils.data.DataLoader(Points()), "dataset is a DataLoader: give its data set, loader.dataset"),
        (Endless(), r"dataset is an iterable one \(Endless\), whose items have no index; a map-style data set is needed"),
        (iter([1]), r"dataset \(list_iterator\) has no __getitem__; a map-style data set is needed"),
        (Unmeasured(), r"len\(dataset\) failed: TypeError: .*; a map-style data set is needed"),
        (Points(0), r"dataset \(Points\) is empty: len\(dataset\) is 0; one item or more is needed"),
        ([], r"dataset \(list\) is empty"),
        (Failing(), r"dataset\[0\] failed: FileNotFoundError: no such photo"),
        ({"a": 1}, r"dataset\[0\] failed: KeyError: 0"),
        (Of(torch.zeros(3)), r"dataset\[i\] is float32 \[3\]; a pair \(input, target\) is needed, or a collate="),
        (Of((torch.zeros(3), 1, 2)), r"dataset\[i\] is a tuple of 3 parts; a pair"),
        (Of({"image": torch.zeros(3)}), r"dataset\[i\] is of type dict; a pair"),
        (Of((object(), 1)), "2 items of the data set cannot be put together: TypeError: default_collate"),
        (Of(("text", 1)), "the input of a batch holds no tensor"),
    ],
)  # fmt: skip
def test_a_data_set_that_cannot_be_trained_on_is_refused_at_once(dataset: Any, says: str):
    with pytest.raises(DataError, match=f"^{says}"):
        mine(dataset)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model": 5}, "model is of type int; a torch.nn.Module, or a function without parameters"),
        ({"model": lambda size: Linear()}, r"model cannot be called without arguments \(missing a required argument: 'size'\)"),
        ({"model": nn.Linear}, r"model cannot be called without arguments \(missing a required argument: 'in_features'\)"),
        ({"loss": "cross_entropy"}, "loss is of type str; a function"),
        ({"loss": nn.CrossEntropyLoss}, r"loss is the class CrossEntropyLoss: give an instance, CrossEntropyLoss\(\)"),
        ({"optimizer": None}, "optimizer is of type NoneType; a function from parameters to an optimizer"),
        ({"optimizer": sgd(Linear().parameters())}, "optimizer is a SGD that holds the parameters of a module already"),
        ({"optimizer": lambda parameters: None}, r"optimizer\(parameters\) gave NoneType, not a torch optimizer"),
        ({"collate": "default"}, "collate is of type str; a function from a list of items"),
    ],
)  # fmt: skip
def test_parts_that_cannot_be_used_are_refused_at_once_and_what_is_needed_is_said(given: dict[str, Any], says: str):
    with pytest.raises(ExperimentError, match=f"^{says}"):
        mine(**given)


def test_an_optimizer_that_only_works_with_its_own_model_is_left_to_the_worker():
    made = mine(optimizer=lambda parameters: sgd([*parameters][1:]))
    assert len(made.prepare(made.knobs(), "cpu").optimizer.param_groups[0]["params"]) == 1


def test_classes_that_make_what_is_needed_are_taken_as_they_are():
    made = mine(model=Linear, loss=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam)
    assert isinstance(made.prepare(made.knobs(), "cpu").optimizer, torch.optim.Adam)


def test_items_of_any_form_are_taken_where_collate_makes_pairs_of_them():
    def collate(items: list[Any]) -> Any:
        return torch.stack(items), torch.zeros(len(items), dtype=torch.int64)

    assert mine(Of(torch.zeros(10)), collate=collate).name == "workload"


def test_what_cannot_be_copied_to_another_process_is_refused_at_once():
    locked = Points()
    locked.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"the data set cannot be copied to the worker process: TypeError: .*lock.*; open files"):
        mine(locked)
    model = Linear()
    model.lock = threading.Lock()
    with pytest.raises(ExperimentError, match="model, loss and optimizer cannot be copied to the worker process: TypeError"):
        mine(model=model)
