"""Every spelling that a shell, papermill or JSON gives becomes the exact value of the declared type, or is refused in words."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import KnobError
from labkit.knobs import Knobs, knob

HUGE = 10**5000  # Python refuses to write out an integer of more than 4300 digits


class Every(Knobs):
    """One knob of each type that can be declared."""

    whole: int = knob(0, "a whole number")
    number: float = knob(0.0, "a number")
    switch: bool = knob(False, "a switch")
    text: str = knob("", "text")
    maybe: int | None = knob(None, "a whole number, or none")
    maybe_text: str | None = knob(None, "text, or none")
    side: Literal["cpu", "gpu"] = knob("cpu", "a choice")
    bits: Literal["16", "32"] = knob("16", "a choice that looks like a number")
    power: Literal[1, 2, 4] = knob(1, "a choice among numbers")
    maybe_side: Literal["cpu", "gpu"] | None = knob(None, "a choice, or none")
    sizes: tuple[int, ...] = knob((), "whole numbers")
    names: tuple[str, ...] = knob((), "texts")
    shares: list[float] = knob([], "numbers")


ALLOWED = {
    "whole": "whole number",
    "number": "number",
    "switch": "false | true",
    "text": "text",
    "maybe": "whole number, or none",
    "maybe_text": "text, or none",
    "side": "cpu | gpu",
    "bits": "16 | 32",
    "power": "1 | 2 | 4",
    "maybe_side": "cpu | gpu, or none",
    "sizes": "list of whole number",
    "names": "list of text",
    "shares": "list of number",
}

READ = {
    "whole": [
        (3, 3), ("3", 3), ("007", 7), (" 4 ", 4), ("\t5\n", 5), ("+6", 6), ("-6", -6), ("1_000", 1000), ("1e3", 1000),
        (1e3, 1000), ("4.0", 4), (4.0, 4), ("-0", 0), (np.int64(9), 9), (np.uint8(255), 255), (np.float32(8.0), 8),
        (np.array(7), 7), (np.str_("12"), 12), (10**30, 10**30), ("9" * 30, int("9" * 30)), (2**53 + 1, 2**53 + 1),
    ],
    "number": [
        (2, 2.0), (2.5, 2.5), ("2.5", 2.5), ("1e3", 1000.0), (" 1_000.5 ", 1000.5), ("007", 7.0), ("-1e-3", -0.001),
        (".5", 0.5), (np.float64(0.25), 0.25), (np.int32(3), 3.0),
    ],
    "switch": [
        (True, True), (False, False), ("true", True), ("True", True), (" TRUE ", True), ("yes", True), ("on", True),
        ("1", True), (1, True), ("false", False), ("False", False), ("no", False), ("off", False), ("0", False), (0, False),
        (np.bool_(True), True), (np.bool_(False), False),
    ],
    "text": [
        ("x", "x"), ("", ""), (" x ", " x "), ("None", "None"), ("true", "true"), ("007", "007"), (7, "7"), (1.5, "1.5"),
        (Path("a") / "b", str(Path("a") / "b")), (np.str_("y"), "y"), (np.int64(7), "7"), ("photos/日本", "photos/日本"),
    ],
    "maybe": [
        (None, None), ("None", None), ("none", None), ("null", None), ("~", None), (" NULL ", None), ("3", 3),
        (3, 3), ("1e1", 10),
    ],
    "maybe_text": [(None, None), ("None", None), ("null", None), ("", ""), ("x", "x"), (Path("a"), "a")],
    "side": [("cpu", "cpu"), ("GPU", "gpu"), (" gpu ", "gpu"), (np.str_("gpu"), "gpu")],
    "bits": [("32", "32"), (32, "32"), (np.int64(16), "16"), (" 16", "16")],
    "power": [(2, 2), ("2", 2), (" 4 ", 4), (np.int8(4), 4)],
    "maybe_side": [(None, None), ("null", None), ("Gpu", "gpu")],
    "sizes": [
        ("[1, 2]", (1, 2)), ("1,2", (1, 2)), ("(1, 2)", (1, 2)), ("(1,)", (1,)), ("[]", ()), ("()", ()), ("", ()),
        ("7", (7,)), ("[1, \"2\", 3.0]", (1, 2, 3)), ([1, 2], (1, 2)), ((1, "2"), (1, 2)), ([np.int64(3)], (3,)),
    ],
    "names": [("a, b", ("a", "b")), ('["a", "b c"]', ("a", "b c")), ([Path("x"), 3], ("x", "3"))],
    "shares": [("[1, 0.5]", [1.0, 0.5]), ((1, "2e-1"), [1.0, 0.2])],
}  # fmt: skip

REFUSED = {
    "whole": [
        "", " ", "many", "true", "None", "null", "4.5", 4.5, "0x10", "1__0", "_1", "1_", "+-5", "--5", "1 000", "1,000", "٣",
        "²", "Ⅷ", "１２", "nan", "inf", "-Infinity", float("nan"), float("inf"), float("-inf"), "1e400", "1e30", 1e300,
        "9" * 5000, True, False, np.bool_(True), None, b"3", 3 + 0j, [3], (3,), {}, {"a": 1}, np.array([3]),
        np.array([1, 2]), object(), Path("3"), np.datetime64("2020-01-01"),
    ],
    "number": ["", "x", "nan", "inf", "1e400", "٣.٥", True, "true", None, float("nan"), HUGE, [1.0], np.array([1.0]), "1,5"],
    "switch": ["", "maybe", "2", "tru", "t", "y", "None", 2, -1, 1.0, 0.0, float("nan"), None, [], [True], np.int64(2), HUGE],
    "text": [None, True, False, b"x", ["x"], ("x",), {"a": "b"}, np.bool_(True), 3j],
    "maybe": ["x", "4.5", True, float("nan"), [None], "nil"],
    "maybe_text": [True, ["x"]],
    "side": ["", "tpu", "cpu gpu", None, True, 0, ["cpu"], ("cpu",), np.array(["cpu", "gpu"]), np.array([1, 2]), b"cpu"],
    "bits": ["64", 64, 32.0, "0x20", HUGE, float("nan")],
    "power": [3, "3", True, "1.5", "one", None, float("nan")],
    "maybe_side": ["tpu", True, [None]],
    "sizes": [
        "[1,", "[1.5]", "[NaN]", "[[1]]", "[null]", "[true]", "1,,2", ",", "a", "{}", '{"a": 1}', 3, True, None, {1: 2},
        {1, 2}, np.array([1, 2]), "[" * 100_000, [1, "x"], [float("inf")], "[1]]",
    ],
    "names": [3, None, [True], [None], "[1, [2]]"],
    "shares": ["[Infinity]", ["nan"], 0.5],
}  # fmt: skip


def cases(table: dict[str, list[Any]]) -> list[Any]:
    return [pytest.param(name, case, id=f"{name}-{place}") for name, of_knob in table.items() for place, case in enumerate(of_knob)]


@pytest.mark.parametrize(("name", "case"), cases(READ))
def test_a_spelling_becomes_the_exact_value_of_the_declared_type(name: str, case: tuple[Any, Any]):
    given_value, expected = case
    value = getattr(Every.parse({name: given_value}), name)
    assert (value, type(value)) == (expected, type(expected))


@pytest.mark.parametrize(("name", "value"), cases(REFUSED))
def test_what_is_no_such_value_is_refused_with_its_name_the_value_and_what_is_allowed(name: str, value: Any):
    with pytest.raises(KnobError) as refusal:
        Every.parse({name: value})
    message = str(refusal.value)
    assert message.startswith(f"{name}=")
    assert message.endswith(f" is not allowed; allowed: {ALLOWED[name]}")
    assert len(message) < 200
    shown = message.removeprefix(f"{name}=").partition(" is not allowed")[0]
    assert shown == "a number too long to write out" if value is HUGE else repr(value)[:40] in shown or "np." in shown


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(KnobError) as refusal:
        Every.parse({"whole": "x" * 1_000_000})
    assert str(refusal.value) == f"whole='{'x' * 79}… is not allowed; allowed: whole number"


def test_a_part_of_a_list_that_is_wrong_is_told_with_the_whole_list():
    with pytest.raises(KnobError, match=r"sizes=\[1, 'x'\] is not allowed; allowed: list of whole number"):
        Every.parse({"sizes": [1, "x"]})


@given(st.integers(-(10**18), 10**18))
def test_a_whole_number_is_read_from_its_text_exactly(number: int):
    for spelling in (number, str(number), f" {number}\n", f"{number:_}", np.int64(number)):
        assert Every.parse({"whole": spelling}).whole == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_from_its_text_exactly(number: float):
    for spelling in (number, repr(number), np.float64(number)):
        assert Every.parse({"number": spelling}).number == number


@given(
    st.sampled_from(list(Every.model_fields)),
    st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.binary(), st.lists(st.text(max_size=3))),
)
def test_any_value_at_all_is_either_read_or_refused_with_a_knob_error(name: str, value: Any):
    try:
        knobs = Every.parse({name: value})
    except KnobError as refusal:
        assert name in str(refusal) and ALLOWED[name] in str(refusal)
    else:
        assert Every.parse({name: getattr(knobs, name)}) == knobs
