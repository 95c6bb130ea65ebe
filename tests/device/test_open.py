"""A device is opened by its name, or refused with the names that are allowed here. Nothing is substituted in silence."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.device import Opening, available_devices, open_device, resolve_device
from labkit.device import machine as machine_module
from labkit.device.cost_model import MeasuredCosts, MeasuredOp
from labkit.device.machine import write_machine
from labkit.errors import MachineError, NoSuchDevice, NotEnoughThreads
from labkit.schedule import Cost, Lane, Op

opening = sys.modules["labkit.device.open"]


@pytest.fixture(autouse=True)
def two_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_machine: Callable) -> Path:
    """Two machines are shipped, `h200` and `small`; this one is not calibrated."""
    monkeypatch.setattr(machine_module, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))
    for name in ("h200", "small"):
        write_machine(make_machine("cuda"), tmp_path / "shipped" / f"{name}.yaml")
    return tmp_path / "shipped"


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Pretend that torch sees this many GPUs."""

    def pretend(count: int) -> None:
        monkeypatch.setattr(opening, "cuda_count", lambda: (count, "" if count else "no driver for a test"))

    return pretend


@pytest.mark.parametrize(
    ("name", "count", "full"),
    [
        ("auto", 0, "cpu"),
        ("auto", 2, "cuda:0"),
        ("cpu", 2, "cpu"),
        ("cuda", 2, "cuda:0"),
        ("cuda:1", 2, "cuda:1"),
        ("cuda:01", 2, "cuda:1"),
        ("simulated:small", 0, "simulated:small"),
    ],
)
def test_a_name_becomes_the_full_name(gpus, name, count, full):
    gpus(count)
    assert resolve_device(name) == full


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:x"])
def test_a_gpu_that_is_not_here_is_refused_and_what_is_here_is_named(gpus, name):
    gpus(0)
    message = f"there is no {name} here: no driver for a test; use cpu, or simulated:h200 for a prediction"
    with pytest.raises(NoSuchDevice, match=message):
        resolve_device(name)
    with pytest.raises(NoSuchDevice, match=message):
        open_device(name)


@pytest.mark.parametrize("name", ["cuda:2", "cuda:99999999999"])
def test_a_gpu_past_the_last_is_refused(gpus, name):
    gpus(2)
    with pytest.raises(NoSuchDevice, match=f"there is no {name} here; there are cuda:0 to cuda:1"):
        resolve_device(name)


@pytest.mark.parametrize("name", ["cuda:x", "cuda:-1", "cuda:0:1", "cuda:1.0", "cuda:²", "cuda: 1"])
def test_a_gpu_that_is_no_number_is_refused(gpus, name):
    gpus(2)
    with pytest.raises(NoSuchDevice, match="is not a device; allowed: cuda, cuda:0 to cuda:1"):
        resolve_device(name)


@pytest.mark.parametrize("name", ["", "CPU", "gpu", "cpu:0", "tpu", "auto:1", " cpu"])
def test_a_name_that_is_no_device_is_answered_with_those_that_are(name):
    allowed = "allowed: auto, cpu, cuda, cuda:N, simulated:h200, simulated:small"
    with pytest.raises(NoSuchDevice, match=f"there is no device {name!r}; {allowed}"):
        resolve_device(name)


def test_a_machine_that_is_not_known_is_answered_with_those_that_are():
    with pytest.raises(MachineError, match="there is no machine 'b300'; there are: h200, small"):
        open_device("simulated:b300")


def test_what_may_be_opened_is_listed_with_the_reason_where_it_may_not(gpus):
    gpus(0)
    assert [(choice.name, choice.available, choice.reason) for choice in available_devices()] == [
        ("cuda", False, "no driver for a test"),
        ("cpu", True, ""),
        ("simulated:h200", True, ""),
        ("simulated:small", True, ""),
    ]
    gpus(2)
    assert [choice.name for choice in available_devices()][:3] == ["cuda:0", "cuda:1", "cpu"]


def test_a_broken_machine_file_is_listed_as_not_available_and_hides_no_other(gpus, two_machines: Path):
    gpus(0)
    (two_machines / "h200.yaml").write_text("name: [")
    broken, small = available_devices()[2:]
    assert (broken.name, broken.available) == ("simulated:h200", False)
    assert "h200.yaml" in broken.reason
    assert (small.name, small.available) == ("simulated:small", True)


def test_everything_listed_as_available_can_be_opened(gpus):
    gpus(0)
    for choice in available_devices():
        if choice.available:
            device = open_device(choice.name)
            assert device.close() == []


def test_the_opening_reaches_the_cpu_device():
    device = open_device("cpu", Opening(widths={"workers": 2}, cap=5))
    device.wait([device.submit(Op("load", Lane("workers"), int))])
    device.close()
    assert device.recorder.cap == 5
    trace = device.recorder.finish(device.now())
    assert {span.unit for span in trace.units if span.lane == "workers"} == {0, 1}
    with pytest.raises(NotEnoughThreads):
        open_device("cpu", Opening(widths={}, shares={"compute": 10_000}))


def test_the_opening_reaches_the_simulated_device(make_machine):
    measured = MeasuredCosts({"step": MeasuredOp(70.0, Cost())})
    changed = make_machine("cuda", launch_ns=10)
    device = open_device("simulated:small", Opening(widths={}, measured=measured, machine=changed, cap=5))
    handle = device.submit(Op("step", Lane("compute"), int))
    assert handle.end_ns - handle.start_ns == 70
    assert device.machine is changed and device.recorder.cap == 5


def test_devices_are_imported_without_torch():
    program = (
        "import sys; sys.modules['torch'] = None; import labkit.device, labkit.device.cuda; print('fine')"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "fine\n", done.stderr
