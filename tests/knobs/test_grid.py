"""The sweep grid: every combination once, in a stated order, each of them checked."""

import pytest

from labkit.errors import KnobError
from labkit.experiments.pipeline import PipelineKnobs
from labkit.knobs.grid import grid, parse_axis


def points(axes: dict) -> list[tuple]:
    return [tuple(getattr(knobs, name) for name in axes) for knobs in grid(PipelineKnobs(), axes)]


def test_the_last_axis_turns_fastest():
    assert points({"prefetch": [0, 4], "augment_on": ["cpu", "gpu"], "workers": [1, 2]}) == [
        (0, "cpu", 1), (0, "cpu", 2), (0, "gpu", 1), (0, "gpu", 2),
        (4, "cpu", 1), (4, "cpu", 2), (4, "gpu", 1), (4, "gpu", 2),
    ]  # fmt: skip


def test_values_keep_the_order_in_which_they_were_given():
    assert points({"prefetch": ["8", "0", "2"]}) == [(8,), (0,), (2,)]


def test_a_combination_that_comes_twice_is_kept_once_at_its_first_place():
    assert points({"prefetch": [2, "0", "2", 2.0, "00"]}) == [(2,), (0,)]


def test_the_other_knobs_are_those_of_the_base():
    base = PipelineKnobs.parse({"batch_size": 5})
    assert [knobs.batch_size for knobs in grid(base, {"prefetch": [0, 1]})] == [5, 5]


def test_without_axes_the_base_is_the_only_point():
    assert grid(PipelineKnobs(), {}) == [PipelineKnobs()]


def test_an_iterator_of_values_is_used_up_once():
    assert points({"prefetch": iter([0, 1]), "workers": range(1, 3)}) == [(0, 1), (0, 2), (1, 1), (1, 2)]


@pytest.mark.parametrize(("axes", "message"), [
    ({"prefetch": [0, 65]}, "prefetch=65 is not allowed; allowed: whole number, 0 to 64"),
    ({"prefetch": ["many"]}, "prefetch='many' is not allowed; allowed: whole number, 0 to 64"),
    ({"depth": [1]}, "there is no knob 'depth'"),
])  # fmt: skip
def test_a_point_that_is_not_allowed_is_refused(axes: dict, message: str):
    with pytest.raises(KnobError, match=message):
        grid(PipelineKnobs(), axes)


@pytest.mark.parametrize(("text", "axis"), [
    ("prefetch=0,1,2", ("prefetch", ["0", "1", "2"])),
    (" prefetch = 0 , 1 ", ("prefetch", ["0", "1"])),
    ("data=none", ("data", ["none"])),
    ("data=a=b", ("data", ["a=b"])),
])  # fmt: skip
def test_an_axis_is_a_knob_and_its_values(text: str, axis: tuple[str, list[str]]):
    assert parse_axis(text) == axis


@pytest.mark.parametrize("text", ["", "prefetch", "prefetch=", "=1", " =1", "prefetch=1,", "prefetch=,1", "prefetch=1,,2", "="])
def test_an_axis_of_another_form_is_refused_with_the_form_expected(text: str):
    with pytest.raises(KnobError) as refusal:
        parse_axis(text)
    assert str(refusal.value) == f"grid axis {text!r} is not of the form knob=value,value,…"
