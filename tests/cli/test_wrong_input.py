"""Wrong input never starts anything: exit code 2, and a message that says what, which value, what is allowed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.experiments import experiment

PIPELINE = experiment("pipeline").knobs
WRONG_VALUES = {bool: ["perhaps", "2", ""], int: ["many", "1.5", "nan", "-1", "99999999999"], str: []}


def wrong_knobs() -> list[tuple[str, str]]:
    """Every knob with values out of its range or of another type."""
    cases = []
    for name in PIPELINE.model_fields:
        annotation = PIPELINE.annotation(name)
        values = WRONG_VALUES.get(annotation, ["tpu", "1"] if PIPELINE.choices(name) else [])
        least, greatest = PIPELINE.bounds(name)
        values = values + [str(int(bound)) for bound in (None if least is None else least - 1, None if greatest is None else greatest + 1) if bound is not None]
        cases += [(name, value) for value in values]
    return cases


@pytest.mark.parametrize(("name", "value"), wrong_knobs())
def test_a_knob_out_of_range_or_of_the_wrong_type(labkit: Callable, name: str, value: str) -> None:
    ended = labkit("run", "pipeline", f"--{name.replace('_', '-')}={value}", "--device", "cpu", "--steps", "1")
    assert ended.code == 2
    assert name in ended.err
    assert "allowed" in ended.err
    assert ended.out == ""
    assert not Path("runs").exists(), "nothing was started, nothing was written"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fly"], "there is no command 'fly'"),
        (["run"], "required: experiment"),
        (["run", "flying"], "there is no experiment 'flying'; there are: pipeline"),
        (["run", "pipeline", "--wings", "2"], "unrecognized arguments: --wings"),
        (["run", "pipeline", "--device", "tpu"], "there is no device 'tpu'; allowed: auto, cpu, cuda"),
        (["run", "pipeline", "--device", "simulated:abacus"], "there is no machine 'abacus'; there are:"),
        (["run", "pipeline", "--device", "simulated:"], "there is no machine ''"),
        (["run", "pipeline", "--device", "simulated:../machines/h200"], "there is no machine"),
        (["run", "pipeline", "--device", "simulated:" + "x" * 300], "there is no machine"),
        (["predict", "pipeline", "--on", "h200,,t4"], "there is no machine ''"),
        (["run", "pipeline", "--device", "simulated:this"], "run `labkit calibrate`"),
        (["run", "pipeline", "--steps", "0"], "steps=0 is out of range"),
        (["run", "pipeline", "--steps", "-5"], "steps=-5 is out of range"),
        (["run", "pipeline", "--seconds", "0"], "seconds=0.0 is out of range"),
        (["run", "pipeline", "--seconds", "nan"], "seconds=nan is out of range"),
        (["run", "pipeline", "--seconds", "soon"], "invalid float value: 'soon'"),
        (["run", "pipeline", "--warmup", "-1"], "warmup=-1 is out of range"),
        (["run", "pipeline", "--costs", "last"], "there is no runs folder"),
        (["compare", "pipeline", "--a", "prefetch"], "'prefetch' is not of the form knob=value"),
        (["compare", "pipeline", "--a", "wings=1"], "there is no knob 'wings'"),
        (["compare", "pipeline", "--rounds", "1"], "rounds=1 is out of range: 2 to 1000"),
        (["sweep", "pipeline"], "required: --grid"),
        (["sweep", "pipeline", "--grid", "prefetch="], "is not of the form knob=value"),
        (["sweep", "pipeline", "--grid", "prefetch=1,many"], "prefetch='many' is not allowed"),
        (["predict", "pipeline", "--on", "abacus"], "there is no machine 'abacus'"),
        (["show", "last"], "there is no runs folder"),
        (["show", "nothing/at/all"], "there is no run at"),
        (["list", "--out", "nowhere"], "there is no runs folder nowhere"),
        (["export", "last"], "there is no runs folder"),
        (["export", "last", "--format", "pdf"], "invalid choice: 'pdf'"),
        (["report", "last"], "there is no runs folder"),
        (["data", "make", "photos", "--count", "0"], "0"),
        (["data", "make", "songs"], "invalid choice: 'songs'"),
    ],
)
def test_other_wrong_input(labkit: Callable, words: list[str], says: str) -> None:
    ended = labkit(*words)
    assert ended.code == 2
    assert says in ended.err
    assert ended.out == ""
    assert not list(Path().rglob("run.json"))


def test_asking_for_cuda_where_there_is_none_names_what_there_is(labkit: Callable) -> None:
    from labkit.device.open import cuda_count

    if cuda_count()[0]:
        pytest.skip("there is a GPU here")
    ended = labkit("run", "pipeline", "--device", "cuda", "--steps", "1")
    assert ended.code == 2
    assert "there is no cuda here" in ended.err
    assert "use cpu, or simulated:h200" in ended.err


def test_a_runs_folder_that_cannot_be_written_is_refused_before_anything_is_measured(labkit: Callable) -> None:
    Path("runs").write_text("a file where the folder should be")
    ended = labkit("run", "pipeline", "--device", "cpu", "--steps", "1")
    assert ended.code == 2
    assert "cannot write to the runs folder runs" in ended.err


@pytest.mark.parametrize("words", [[], ["--help"], ["help"], ["run", "--help"], ["run", "pipeline", "--help"], ["compare", "-h"]])
def test_help_is_exit_code_zero(labkit: Callable, words: list[str]) -> None:
    ended = labkit(*words)
    assert ended.code == 0
    assert "usage: labkit" in ended.out


def test_the_help_of_a_run_shows_every_knob_with_its_range_and_default(labkit: Callable) -> None:
    text = " ".join(labkit("run", "pipeline", "--help").out.split())
    for name in PIPELINE.model_fields:
        assert f"--{name.replace('_', '-')}" in text
    assert "[whole number, 0 to 64; default 2]" in text
