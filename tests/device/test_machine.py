"""A machine's file says every figure with its source, or is refused with the file's and the figure's name."""

from pathlib import Path

import pytest

from labkit.device import machine as machine_module
from labkit.device.machine import (
    FIGURES,
    Figure,
    Machine,
    load_machine,
    machine_from_dict,
    machine_names,
    read_machine,
    this_machine_path,
    with_figures_of_hand,
    write_machine,
)
from labkit.errors import MachineError

GOOD = """
name: small
label: Small GPU
kind: cuda
figures:
  cores: {value: 2, source: counted}
  hbm_bytes_per_s: {value: 3.0e+11, source: "datasheet, page 1"}
"""


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in the place of the shipped machines, and an empty user's folder."""
    monkeypatch.setattr(machine_module, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))
    (tmp_path / "shipped").mkdir()
    return tmp_path / "shipped"


def with_figure(text: str) -> str:
    return GOOD.replace("{value: 2, source: counted}", text)


def test_a_good_file_gives_values_with_their_sources(tmp_path: Path):
    (tmp_path / "small.yaml").write_text(GOOD)
    machine = read_machine(tmp_path / "small.yaml")
    assert (machine.name, machine.label, machine.kind) == ("small", "Small GPU", "cuda")
    assert machine["cores"] == 2.0
    assert machine.figures["hbm_bytes_per_s"] == Figure(3e11, "datasheet, page 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs name, label, kind and figures"),
        ("- 1\n- 2", "needs name, label, kind and figures"),
        ("name: [unclosed", "cannot read"),
        ("name: \x00", "cannot read"),
        ("name: !!python/object:os.system {}", "cannot read"),
        (GOOD.replace("label: Small GPU\n", ""), "needs name, label, kind and figures"),
        (GOOD.replace("kind: cuda", "kind: tpu"), "kind 'tpu' is not allowed; allowed: cuda, cpu"),
        (GOOD.replace("kind: cuda", "kind: [cuda]"), "kind .* is not allowed"),
        (GOOD[: GOOD.index("figures")] + "figures: 3", "figures must be a table"),
        (GOOD.replace("cores:", "coers:"), "there is no figure 'coers'; there are: cores, "),
        (with_figure("2"), "figure 'cores' needs a value and a source"),
        (with_figure("{value: 2}"), "figure 'cores' needs a value and a source"),
        (with_figure("{value: 2, source: ' '}"), "figure 'cores' needs a value and a source"),
        (
            with_figure("{value: 2, source: counted, unit: cores}"),
            "figure 'cores' needs a value and a source",
        ),
        (with_figure("{value: two, source: counted}"), "figure 'cores' has the value 'two'"),
        (with_figure("{value: null, source: counted}"), "figure 'cores' has the value None"),
        (with_figure("{value: true, source: counted}"), "figure 'cores' has the value True"),
        (with_figure("{value: -1, source: counted}"), "figure 'cores' has the value -1"),
        (with_figure("{value: .nan, source: counted}"), "figure 'cores' has the value nan"),
        (with_figure("{value: .inf, source: counted}"), "figure 'cores' has the value inf"),
        (with_figure("{value: 1" + 400 * "0" + ", source: counted}"), "figure 'cores' has the value 1000"),
    ],
)
def test_a_bad_file_is_refused_by_the_name_of_the_file_and_the_figure(
    tmp_path: Path, text: str, message: str
):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(MachineError, match=message) as raised:
        read_machine(path)
    assert str(path) in str(raised.value)


def test_a_file_that_is_no_text_or_no_file_is_refused_by_name(tmp_path: Path):
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xfa")
    for path in (tmp_path / "bytes.yaml", tmp_path / "missing.yaml", tmp_path):
        with pytest.raises(MachineError, match="cannot read") as raised:
            read_machine(path)
        assert str(path) in str(raised.value)


def test_what_is_written_reads_back_the_same(tmp_path: Path):
    figures = {
        name: Figure(10.0 ** (place - 3), f"source «{place}»: x") for place, name in enumerate(FIGURES)
    }
    machine = Machine("café", "Café: 1", "cpu", figures)
    write_machine(machine, tmp_path / "deep" / "folder" / "m.yaml")
    assert read_machine(tmp_path / "deep" / "folder" / "m.yaml") == machine
    assert machine_from_dict(machine.as_dict(), "memory") == machine
    assert [path.name for path in (tmp_path / "deep" / "folder").iterdir()] == ["m.yaml"], (
        "no half-written file"
    )


def test_an_unknown_machine_is_answered_with_those_there_are(machines: Path):
    (machines / "small.yaml").write_text(GOOD)
    (machines / "other.yaml").write_text(GOOD)
    assert machine_names() == ["other", "small"]
    assert load_machine("small").label == "Small GPU"
    with pytest.raises(MachineError, match="there is no machine 'h9000'; there are: other, small"):
        load_machine("h9000")


def test_this_machine_must_be_calibrated_first_and_is_then_the_first_of_the_names(machines: Path):
    with pytest.raises(MachineError, match=r"has not been calibrated .*run `labkit calibrate`"):
        load_machine("this")
    (machines / "small.yaml").write_text(GOOD)
    write_machine(load_machine("small"), this_machine_path())
    assert machine_names() == ["this", "small"]
    assert load_machine("this").name == "small"


def test_an_unknown_figure_is_absent_and_asking_for_it_says_what_it_means():
    machine = Machine("small", "Small", "cuda", {})
    assert machine.get("launch_ns") is None
    with pytest.raises(
        MachineError, match=r"'small' has no figure 'launch_ns' \(host time to enqueue one kernel\)"
    ):
        _ = machine["launch_ns"]
    with pytest.raises(MachineError, match=r"'speed' \(not a figure that labkit knows"):
        _ = machine["speed"]


def test_what_if_changes_figures_and_says_so_in_their_source():
    machine = Machine(
        "small", "Small", "cuda", {"cores": Figure(2, "counted"), "power_w": Figure(70, "datasheet")}
    )
    changed = machine.with_figures("what if", cores=8, launch_ns=5)
    assert changed.figures == {
        "cores": Figure(8.0, "what if"),
        "power_w": Figure(70, "datasheet"),
        "launch_ns": Figure(5.0, "what if"),
    }
    assert machine["cores"] == 2, "the machine itself is as it was"


def test_a_changed_machine_is_not_labelled_as_the_real_one():
    machine = Machine("small", "Small", "cuda", {})
    changed = machine.with_figures("what if", cores=8)
    assert (changed.name, changed.label) == ("small", "Small (changed)")
    assert changed.with_figures("what if", cores=9).label == "Small (changed)", "once is enough"
    assert machine.with_figures("what if").label == "Small", "nothing was changed"


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"speed": 1}, "there is no figure 'speed'"),
        ({"cores": -1}, "machine 'small': figure 'cores' has the value -1"),
        ({"cores": float("nan")}, "machine 'small': figure 'cores' has the value nan"),
    ],
)
def test_what_if_takes_no_figure_that_a_file_could_not_give(figures: dict[str, float], message: str):
    with pytest.raises(MachineError, match=message):
        Machine("small", "Small", "cuda", {}).with_figures("what if", **figures)


def test_a_new_calibration_keeps_what_only_people_know_of_a_machine(tmp_path: Path):
    path = tmp_path / "this.yaml"
    new = Machine("this", "this machine", "cpu", {"cores": Figure(4, "counted"), "power_w": Figure(60, "measured")})
    assert with_figures_of_hand(new, path) is new
    by_hand = {"price_usd_per_hour": Figure(1.5, "the invoice"), "power_w": Figure(70, "datasheet"), "launch_ns": Figure(9, "old")}
    write_machine(Machine("this", "this machine", "cpu", by_hand), path)
    assert with_figures_of_hand(new, path).figures == {**new.figures, "price_usd_per_hour": Figure(1.5, "the invoice")}
