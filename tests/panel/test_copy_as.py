"""What is copied from the panel runs the same: read back by the shell's rules and labkit's own parser, by papermill's, by Python."""

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from papermill.cli import _resolve_type

from labkit.cli.flags import add_running, knob_values, parse_with_experiment, parser
from labkit.device.machine import load_machine
from labkit.errors import KnobError, MachineError
from labkit.experiments import experiment
from labkit.experiments.pipeline import PipelineKnobs
from labkit.knobs import Knobs, knob
from labkit.notebook.cell import experiment_of, read_notebook
from labkit.notebook.parameters import typed
from labkit.panel.copy_as import NOTEBOOKS, copy_as
from labkit.panel.machines import apply, figures_set

ROOT = Path(__file__).parents[2]
LINK = "link_h2d_bytes_per_s"
AWKWARD = ["007", "1e3", "True", "False", "nan", "-x", "--device", "it's", 'say "hi"', "a b", "$HOME", "#", "", " ", "é\n", "C:\\new", "~/x"]


def values_of(name: str) -> st.SearchStrategy[Any]:
    """Every value that a knob can take."""
    choices = PipelineKnobs.choices(name)
    if choices:
        return st.sampled_from(choices)
    if name == "data":
        return st.none() | st.sampled_from(AWKWARD) | st.text(max_size=12)
    least, greatest = PipelineKnobs.bounds(name)
    return st.integers(int(least), int(greatest))


@st.composite
def settings(draw: st.DrawFn) -> PipelineKnobs:
    """Knobs, some of them turned. What no text can say is left out; a test of its own is about that."""
    names = draw(st.lists(st.sampled_from(list(PipelineKnobs.model_fields)), unique=True, max_size=6))
    values = {name: draw(values_of(name)) for name in names}
    if isinstance(values.get("data"), str) and (values["data"].strip().lower() in {"none", "null", "~"} or "\0" in values["data"]):
        del values["data"]
    if values.get("batch_size") == 1:
        values["image_size"] = 96
    return PipelineKnobs.parse(values)


def read_cli(line: str) -> tuple[dict[str, str], SimpleNamespace]:
    """The knobs of a command line and the rest, as `labkit run` reads them."""
    words = shlex.split(line)
    assert words[:2] == ["labkit", "run"]
    flags = parser("run", "")
    add_running(flags, 10)
    given = parse_with_experiment(flags, words[2:])
    return knob_values(given), given


def read_papermill(line: str) -> tuple[list[str], dict[str, Any]]:
    """The notebooks of a papermill line, and its parameters as papermill resolves them."""
    words = shlex.split(line)
    files, parameters = words[1:3], {}
    for flag, name, text in zip(words[3::3], words[4::3], words[5::3], strict=True):
        parameters[name] = {"-p": _resolve_type, "-r": str}[flag](text)
    return files, parameters


def run_python(line: str, **names: Any) -> tuple[Any, dict[str, Any]]:
    """What a line of Python calls `labkit.run` with."""
    machines = SimpleNamespace(load_machine=load_machine)
    labkit = SimpleNamespace(
        run=lambda first, **named: (first, named), device=SimpleNamespace(machine=machines)
    )
    return eval(line, {"labkit": labkit, **names})


def test_the_lines_are_those_that_people_would_write():
    lines = copy_as("pipeline", PipelineKnobs(prefetch=4), "cpu", 5.0, {})
    assert lines.cli == "labkit run pipeline --device cpu --prefetch 4 --seconds 5"
    assert lines.papermill == f"papermill {NOTEBOOKS['pipeline']} out.ipynb -p prefetch 4 -p device cpu -p seconds 5"
    assert lines.python == 'labkit.run("pipeline", device="cpu", prefetch=4, seconds=5)'


def test_knobs_at_their_defaults_and_a_time_that_is_not_given_are_left_out():
    lines = copy_as("pipeline", PipelineKnobs(), "simulated:t4", None, {})
    assert lines.cli == "labkit run pipeline --device simulated:t4"
    assert lines.papermill == f"papermill {NOTEBOOKS['pipeline']} out.ipynb -p device simulated:t4"
    assert lines.python == 'labkit.run("pipeline", device="simulated:t4")'


@given(settings(), st.sampled_from(["cpu", "cuda:1", "simulated:h200"]), st.floats(0.1, 1e6))
def test_every_form_gives_exactly_the_same_knobs_back(knobs: PipelineKnobs, device: str, seconds: float):
    lines = copy_as("pipeline", knobs, device, seconds, {})
    texts, rest = read_cli(lines.cli)
    assert PipelineKnobs.parse(texts) == knobs
    assert (rest.experiment, rest.device, rest.seconds) == ("pipeline", device, seconds)

    files, parameters = read_papermill(lines.papermill)
    turned = {name: value for name, (value, _) in knobs.differences(PipelineKnobs()).items()}
    assert files == [NOTEBOOKS["pipeline"], "out.ipynb"]
    assert typed("pipeline", parameters) == {"device": device, "seconds": seconds, "steps": None, "out": "runs", **turned}

    assert run_python(lines.python) == ("pipeline", {"device": device, "seconds": seconds, **turned})


@pytest.mark.parametrize("data", AWKWARD)
def test_awkward_texts_come_back_as_they_were(data: str):
    knobs = PipelineKnobs(data=data)
    lines = copy_as("pipeline", knobs, "cpu", 5, {})
    assert PipelineKnobs.parse(read_cli(lines.cli)[0]) == knobs
    assert typed("pipeline", read_papermill(lines.papermill)[1])["data"] == data
    assert run_python(lines.python)[1]["data"] == data


def test_a_shell_hands_the_words_on_as_they_are():
    line = copy_as("pipeline", PipelineKnobs(data="it's $HOME; `ls` \\ \"x\""), "cpu", 5, {}).cli
    show = f"{shlex.quote(sys.executable)} -c 'import sys; print(sys.argv[1:])' {line}"
    done = subprocess.run(["sh", "-c", show], capture_output=True, text=True, check=True, timeout=60)
    assert eval(done.stdout) == shlex.split(line)


@pytest.mark.parametrize("data", ["none", "None", "~", "NULL", "a\0b"])
def test_what_text_cannot_say_is_a_comment_that_names_it(data: str):
    """A folder called `none` would be read as no folder."""
    lines = copy_as("pipeline", PipelineKnobs(data=data), "cpu", 5, {})
    assert lines.cli == f"# the command line cannot say data={data!r}"
    assert lines.papermill == f"# papermill cannot say data={data!r}"
    assert run_python(lines.python)[1]["data"] == data


def test_a_changed_machine_has_a_python_form_that_sets_every_figure():
    changes: Mapping[str, float] = {LINK: 12e9, "cores": 8}
    lines = copy_as("pipeline", PipelineKnobs(prefetch=4), "simulated:h200", 5, changes)
    first, named = run_python(lines.python)
    machine = named.pop("machine")
    assert (first, named) == ("pipeline", {"prefetch": 4, "seconds": 5})
    expected = apply(load_machine("h200"), changes)
    assert {name: machine[name] for name in machine.figures} == {name: expected[name] for name in expected.figures}
    assert machine.label == "H200 (changed)", "not taken for the real one"
    assert 'load_machine("h200").with_figures("what-if", link_h2d_bytes_per_s=12000000000.0, ' in lines.python


def test_a_changed_machine_has_no_other_form_and_they_say_so():
    lines = copy_as("pipeline", PipelineKnobs(), "simulated:h200", 5, {LINK: 32e9})
    assert lines.cli == "# the command line cannot say it: it takes machines as they are, and this is H200 with link 32 GB/s"
    assert lines.papermill == "# papermill cannot say it: it takes machines as they are, and this is H200 with link 32 GB/s"


def test_figures_that_the_machine_has_already_are_no_change():
    same = {"cores": load_machine("h200")["cores"]}
    assert copy_as("pipeline", PipelineKnobs(), "simulated:h200", 5, same) == copy_as(
        "pipeline", PipelineKnobs(), "simulated:h200", 5, {}
    )


def test_the_base_machine_goes_before_the_device():
    lines = copy_as("pipeline", PipelineKnobs(), "simulated:h200", 5, {"cores": 2}, "t4")
    assert run_python(lines.python)[1]["machine"].name == "t4"


def test_changes_of_no_machine_are_refused():
    with pytest.raises(MachineError, match="figures of a machine can be changed where it is simulated; this runs on cpu"):
        copy_as("pipeline", PipelineKnobs(), "cpu", 5, {"cores": 2})


def test_the_python_form_works_with_the_real_labkit():
    """The names that it uses are there once `labkit.run` has been looked up."""
    line = copy_as("pipeline", PipelineKnobs(), "simulated:h200", 5, {"cores": 2}).python
    code = line.replace("labkit.run(", "(labkit.run, ", 1).replace("machine=", "", 1).replace(", seconds=5", "")
    program = f"import labkit\nprint({code}[2]['cores'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "2.0", done.stderr
    assert figures_set(load_machine("h200"), {"cores": 2}) == {"cores": 2.0}


def test_a_workload_of_ones_own_has_a_python_form_only():
    lines = copy_as("workload", PipelineKnobs(prefetch=4), "cpu", 2.5, {})
    mine = object()
    assert run_python(lines.python, mine=mine) == (mine, {"device": "cpu", "prefetch": 4, "seconds": 2.5})
    assert lines.python == 'labkit.run(mine, device="cpu", prefetch=4, seconds=2.5)'
    assert lines.cli == "# the command line cannot say it: a workload of your own is Python"
    assert lines.papermill == "# papermill cannot say it: a workload of your own is Python"


class Odd(Knobs):
    """Types that the pipeline has none of."""

    share: float = knob(0.5, "a share", ge=-1, le=1)
    sizes: tuple[int, ...] = knob((1, 2), "some sizes")
    names: tuple[str, ...] = knob(("a",), "some names")
    most: int | None = knob(None, "at most")
    wide: Literal["no", "yes"] = knob("no", "a word that is also a truth")


@pytest.mark.parametrize(
    "values",
    [{"share": -0.25}, {"share": 1e-9}, {"sizes": (3, 4)}, {"sizes": (7,)}, {"names": ("b", "c d")}, {"most": 3}, {"wide": "yes"}],
)
def test_knobs_of_every_type_come_back_from_the_words(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    knobs = Odd(**values)
    monkeypatch.setattr("labkit.cli.flags.experiment", lambda name: SimpleNamespace(knobs=Odd))
    monkeypatch.setattr("labkit.notebook.parameters.experiment", lambda name: SimpleNamespace(knobs=Odd))
    lines = copy_as("pipeline", knobs, "cpu", 5, {})
    assert Odd.parse(read_cli(lines.cli)[0]) == knobs
    parameters = {name: value for name, value in read_papermill(lines.papermill)[1].items() if name in Odd.model_fields}
    assert Odd.parse(parameters) == knobs
    assert Odd(**{name: value for name, value in run_python(lines.python)[1].items() if name in Odd.model_fields}) == knobs


def test_a_list_that_text_would_cut_elsewhere_is_a_comment():
    with pytest.raises(KnobError):
        Odd.parse({"sizes": "a,b"})
    assert copy_as("pipeline", Odd(names=("a,b",)), "cpu", 5, {}).cli == "# the command line cannot say names=('a,b',)"


def test_each_notebook_is_there_and_names_its_experiment():
    for name, notebook in NOTEBOOKS.items():
        assert experiment(name).name == experiment_of(read_notebook(ROOT / notebook)) == name
