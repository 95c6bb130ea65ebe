"""One declaration gives bounds in words, live and cold knobs, reasons, and a JSON form that loses nothing."""

import json
from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError, model_validator

from labkit.errors import KnobError
from labkit.experiments.pipeline import PipelineKnobs
from labkit.knobs import Knobs, knob

SIDES = st.sampled_from(["cpu", "gpu"])
PIPELINE_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "prefetch": st.integers(0, 64),
        "workers": st.integers(1, 64),
        "batch_size": st.integers(2, 4096),
        "augment_on": SIDES,
        "normalise_on": SIDES,
        "pinned": st.booleans(),
        "non_blocking": st.booleans(),
        "copy_stream": st.sampled_from(["own", "compute"]),
        "log_every": st.integers(0, 1_000_000),
        "log_sync": st.booleans(),
        "loader": st.sampled_from(["threads", "inline", "processes"]),
        "image_size": st.integers(16, 1024),
        "model": st.sampled_from(["small", "large"]),
        "seed": st.integers(0, 2**31),
        "data": st.none() | st.text(),
    },
)


class Bounded(Knobs):
    """A knob of each kind of bound."""

    both: int = knob(2, "both bounds", unit="batches", ge=0, le=64)
    least: int = knob(1, "a least value", ge=0)
    share: float = knob(0.5, "a least value", ge=0.25)
    greatest: int = knob(1, "a greatest value", le=9, live=False)
    maybe: int | None = knob(None, "bounds, or none", ge=1, le=8, live=False, inert={"cpu": "no link", "cuda": "no need"})
    free: int = knob(0, "no bounds")
    switch: bool = knob(True, "a switch")
    side: Literal["cpu", "gpu"] = knob("cpu", "a choice")


# ---- bounds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words", "bounds"),
    [
        ("both", "whole number, 0 to 64", (0, 64)),
        ("least", "whole number, 0 or more", (0, None)),
        ("share", "number, 0.25 or more", (0.25, None)),
        ("greatest", "whole number, 9 or less", (None, 9)),
        ("maybe", "whole number, 1 to 8, or none", (1, 8)),
        ("free", "whole number", (None, None)),
        ("switch", "false | true", (None, None)),
        ("side", "cpu | gpu", (None, None)),
    ],
)
def test_what_a_knob_takes_is_said_in_words(name: str, words: str, bounds: tuple[Any, Any]):
    assert Bounded.allowed(name) == words
    assert Bounded.bounds(name) == bounds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("both", -1), ("both", 65), ("both", "65"), ("both", 10**400), pytest.param("both", 10**5000, id="both-huge"),
        ("both", "many"), ("both", None), ("both", True), ("least", -1), ("least", "x"), ("share", 0.2), ("share", "nan"), ("greatest", 10), ("greatest", []),
        ("maybe", 0), ("maybe", "9"), ("maybe", "x"),
    ],
)  # fmt: skip
def test_the_bounds_are_named_when_the_value_is_out_of_range_and_when_it_is_no_number_at_all(name: str, value: Any):
    with pytest.raises(KnobError) as refusal:
        Bounded.parse({name: value})
    assert str(refusal.value).startswith(f"{name}=")
    assert str(refusal.value).endswith(f"is not allowed; allowed: {Bounded.allowed(name)}")


def test_both_bounds_are_allowed_values():
    assert [Bounded.parse({"both": value}).both for value in (0, 64)] == [0, 64]
    assert [Bounded.parse({"maybe": value}).maybe for value in (1, 8, None)] == [1, 8, None]


def test_an_example_of_a_message():
    with pytest.raises(KnobError) as refusal:
        PipelineKnobs.parse({"prefetch": "many"})
    assert str(refusal.value) == "prefetch='many' is not allowed; allowed: whole number, 0 to 64"


def test_the_choices_of_a_knob():
    assert Bounded.choices("switch") == (False, True)
    assert Bounded.choices("side") == ("cpu", "gpu")
    assert Bounded.choices("both") == ()


# ---- names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prefetched", "", "Prefetch", "model_fields", 3])
def test_an_unknown_knob_is_refused_and_the_known_ones_are_named(name: Any):
    with pytest.raises(KnobError) as refusal:
        PipelineKnobs.parse({"prefetch": 1, name: 1})
    assert str(refusal.value) == f"there is no knob {name!r}; allowed: {', '.join(PipelineKnobs.model_fields)}"


def test_knobs_that_are_not_given_keep_their_defaults():
    assert PipelineKnobs.parse({}) == PipelineKnobs()
    assert PipelineKnobs.parse({"prefetch": "5"}).differences(PipelineKnobs()) == {"prefetch": (5, 2)}


def test_a_rule_over_several_knobs_is_told_in_its_own_words():
    class Ruled(Knobs):
        low: int = knob(0, "low")
        high: int = knob(1, "high")

        @model_validator(mode="after")
        def ordered(self) -> "Ruled":
            if self.low > self.high:
                raise ValueError("low must not be above high")
            return self

    with pytest.raises(KnobError) as refusal:
        Ruled.parse({"low": 2})
    assert str(refusal.value) == "low must not be above high"
    with pytest.raises(KnobError, match="low must not be above high"):
        Ruled().changed(low=5)


# ---- values that stay ----------------------------------------------------------------------------------------


def test_knobs_are_frozen():
    knobs = PipelineKnobs()
    with pytest.raises(ValidationError, match="frozen"):
        knobs.prefetch = 3
    assert knobs.prefetch == 2


def test_changed_knobs_are_new_ones_and_are_checked():
    knobs = PipelineKnobs()
    assert knobs.changed(prefetch="4", pinned="false").differences(knobs) == {"prefetch": (4, 2), "pinned": (False, True)}
    assert knobs == PipelineKnobs()
    with pytest.raises(KnobError, match="prefetch=65 is not allowed"):
        knobs.changed(prefetch=65)
    with pytest.raises(KnobError, match="there is no knob 'depth'"):
        knobs.changed(depth=1)


def test_equal_knobs_have_one_hash():
    assert len({PipelineKnobs(), PipelineKnobs.parse({"prefetch": "2"}), PipelineKnobs.parse({"prefetch": 3})}) == 2


@given(PIPELINE_VALUES)
def test_knobs_to_json_and_back_lose_nothing(values: dict[str, Any]):
    knobs = PipelineKnobs.parse(values)
    text = knobs.model_dump_json()
    assert PipelineKnobs.model_validate_json(text) == knobs
    assert PipelineKnobs.parse(json.loads(text)) == knobs
    assert knobs.changed() == knobs


@given(PIPELINE_VALUES)
def test_knobs_as_a_shell_writes_them_are_the_same_knobs(values: dict[str, Any]):
    assert PipelineKnobs.parse({name: str(value) for name, value in values.items()}) == PipelineKnobs.parse(values)


# ---- live and cold -------------------------------------------------------------------------------------------


def test_the_cold_knobs_are_those_that_restart_the_worker():
    assert Bounded().cold() == {"greatest": 1, "maybe": None}
    assert [name for name in PipelineKnobs.model_fields if not PipelineKnobs.is_live(name)] == [
        "loader", "image_size", "model", "seed", "data",
    ]  # fmt: skip


def test_turning_a_live_knob_leaves_the_cold_ones_as_they_were():
    knobs = PipelineKnobs()
    assert knobs.changed(prefetch=9).cold() == knobs.cold()
    assert knobs.changed(seed=9).cold() != knobs.cold()


def test_a_live_knob_is_cold_for_as_long_as_another_one_has_a_certain_value():
    threads, processes = PipelineKnobs(workers=2), PipelineKnobs(workers=2, loader="processes")
    assert PipelineKnobs.is_live("workers"), "as it is declared"
    assert (threads.acts_live("workers"), processes.acts_live("workers")) == (True, False)
    assert processes.cold() == {**threads.cold(), "loader": "processes", "workers": 2}
    assert processes.changed(workers=3).cold() != processes.cold()
    assert processes.changed(batch_size=3, prefetch=9).cold() == processes.cold()
    for name in PipelineKnobs.model_fields:
        if name != "workers":
            assert threads.acts_live(name) == processes.acts_live(name) == PipelineKnobs.is_live(name)


def test_a_knob_that_cannot_act_on_a_device_says_why_and_only_there():
    assert Bounded.inert_reason("maybe", "cpu") == "no link"
    assert Bounded.inert_reason("maybe", "simulated") is None
    assert Bounded.inert_reason("both", "cpu") is None
    assert "pinned memory cannot act on cpu" in PipelineKnobs.inert_reason("pinned", "cpu")
    assert PipelineKnobs.inert_reason("pinned", "cuda") is None


def test_the_unit_of_a_knob_is_known_or_empty():
    assert (Bounded.unit("both"), Bounded.unit("free")) == ("batches", "")


def test_a_field_that_was_not_declared_with_knob_is_live_and_has_no_unit():
    class Plain(Knobs):
        depth: int = 3

    assert (Plain.is_live("depth"), Plain.unit("depth"), Plain.inert_reason("depth", "cpu")) == (True, "", None)
    assert Plain().acts_live("depth") and Plain().cold() == {}


# ---- the pipeline's own declaration ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", PipelineKnobs.model_fields)
def test_every_knob_of_the_pipeline_has_help_a_flag_and_a_default_within_its_own_bounds(name: str):
    info = PipelineKnobs.model_fields[name]
    assert info.description and "\n" not in info.description
    assert isinstance(PipelineKnobs.is_live(name), bool)
    assert getattr(PipelineKnobs.parse({name: info.default}), name) == info.default
    for choice in PipelineKnobs.choices(name):
        assert getattr(PipelineKnobs.parse({name: str(choice)}), name) == choice
    assert set(info.json_schema_extra["inert"]) <= {"cpu", "cuda", "simulated"}


def test_the_annotation_of_a_choice_is_its_literal():
    assert get_args(PipelineKnobs.annotation("model")) == ("small", "large")
