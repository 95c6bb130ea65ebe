"""Rigs: each device, with ops that mean the same on all of them. A machine whose every figure has the source "test"."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import sleep
from typing import Any

import pytest

from labkit.device.cpu import CpuDevice
from labkit.device.cuda import STREAM_ROLES, CudaDevice
from labkit.device.machine import Figure, Machine
from labkit.device.simulated import SimulatedDevice
from labkit.schedule import Cost, Lane, Op
from labkit.trace import Recorder
from tests.device.fake_cuda import FakeCuda
from tests.threads import threads_left

MS = 1_000_000
FIGURES = {
    "cores": 64,
    "link_h2d_bytes_per_s": 1e9,
    "link_d2h_bytes_per_s": 1e9,
    "link_pageable_bytes_per_s": 5e8,
    "gpu_flop_per_s": 1e12,
    "gpu_fp32_flop_per_s": 5e11,
    "gpu_flop_share": 0.5,
    "hbm_bytes_per_s": 2e9,
    "hbm_share": 0.5,
    "gpu_min_kernel_ns": 0,
    "host_flop_per_s": 1e9,
    "host_bytes_per_s": 1e9,
    "decode_pixels_per_s": 1e9,
}


def machine_of(kind: str, **figures: float) -> Machine:
    """A machine of round figures; those given replace or add to them. No overheads unless given."""
    return Machine(
        "test", "Test", kind, {name: Figure(value, "test") for name, value in (FIGURES | figures).items()}
    )


@pytest.fixture
def make_machine() -> Callable[..., Machine]:
    return machine_of


@dataclass
class Rig:
    """One kind of device. `occupy` keeps a lane of a role busy from within an op's `run`."""

    name: str
    create: Callable[[dict[str, int] | None, Recorder], Any]
    occupy: Callable[[str, int], None]
    live: bool = True
    opened: list[Any] = field(default_factory=list)

    def open(self, widths: dict[str, int] | None = None, cap: int = 1_000_000) -> Any:
        self.opened.append(self.create(widths, Recorder(cap)))
        return self.opened[-1]

    def op(
        self,
        name: str,
        role: str = "workers",
        ns: int = MS,
        *,
        index: int = 0,
        value: Any = None,
        error: Exception | None = None,
        do: Callable[..., Any] | None = None,
        **more: Any,
    ) -> Op:
        """An op that keeps its lane busy for `ns`, then gives `value` (or what `do` makes of its arguments), or fails."""

        def run(*values: Any) -> Any:
            if ns:
                self.occupy(role, ns)
            if error is not None:
                raise error
            return do(*values) if do else value

        simulated = value if error is None else error
        return Op(name, Lane(role, index), run, Cost(fixed_ns=ns), simulated_value=simulated, **more)


def simulated_rig(kind: str) -> Rig:
    overheads = {
        "submit_ns": 1000,
        "launch_ns": 5000,
        "wake_ns": 2000,
        "dispatch_ns": 3000,
        "link_duplex_share": 0.7,
    }
    machine = machine_of(kind, **overheads)
    return Rig(
        f"simulated {kind}",
        lambda widths, recorder: SimulatedDevice(machine, widths=widths, recorder=recorder),
        lambda role, ns: pytest.fail("the simulated device ran an op"),
        live=False,
    )


def cpu_rig() -> Rig:
    return Rig(
        "cpu",
        lambda widths, recorder: CpuDevice(widths=widths, recorder=recorder),
        lambda role, ns: sleep(ns / 1e9),
    )


def fake_cuda_rig() -> Rig:
    fake = FakeCuda()
    return Rig(
        "cuda on a recording fake",
        lambda widths, recorder: CudaDevice(0, widths=widths, recorder=recorder, api=fake),
        lambda role, ns: fake.work(ns) if role in STREAM_ROLES else sleep(ns / 1e9),
    )


def cuda_rig() -> Rig:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch.cuda.is_available() is false: there is no CUDA GPU here")
    cycles_per_ns = 1.5  # about the clock rate: only "busy for roughly this long" is asked
    return Rig(
        "cuda",
        lambda widths, recorder: CudaDevice(0, widths=widths, recorder=recorder),
        lambda role, ns: (
            torch.cuda._sleep(int(ns * cycles_per_ns)) if role in STREAM_ROLES else sleep(ns / 1e9)
        ),
    )


RIGS = {
    "simulated-cuda": lambda: simulated_rig("cuda"),
    "simulated-cpu": lambda: simulated_rig("cpu"),
    "cpu": cpu_rig,
    "cuda-fake": fake_cuda_rig,
    "cuda": cuda_rig,
}
EVERY_RIG = [pytest.param(name, marks=pytest.mark.cuda) if name == "cuda" else name for name in RIGS]


@pytest.fixture(params=EVERY_RIG)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Every device in turn. What a test leaves open is cancelled and closed; no lane thread may be left."""
    rig = RIGS[request.param]()
    yield rig
    for device in rig.opened:
        device.cancel()
        device.close()
        assert getattr(getattr(device, "api", None), "broken_rules", []) == []
    assert threads_left() == []


@pytest.fixture
def live_rig(rig: Rig) -> Rig:
    """The devices that run ops for real."""
    if not rig.live:
        pytest.skip("the simulated device never runs an op")
    return rig
