"""A policy around one run: put in force before the workload is built, looked after while the server runs, undone at the end whatever happens.

`hold` is entered by the worker; `execute` tells the holding of the workload, the device and the end of the run.
"""

import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from labkit.allocation import gpu as gpus
from labkit.allocation import priority as priorities
from labkit.allocation import simulated
from labkit.allocation.cores import KEY as CORES
from labkit.allocation.cores import LinuxThreads, Threads, bind_cores, cores_text, outside, place, remember
from labkit.allocation.gpu import Gpu, TorchGpu
from labkit.allocation.ledger import Ledger, not_applied
from labkit.allocation.moving import Moving
from labkit.allocation.policy import Policy, Scaling
from labkit.allocation.resctrl import Resctrl
from labkit.device.cpu import CpuDevice
from labkit.device.device import Device
from labkit.device.simulated import SimulatedDevice

NO_GPU_HERE = "this run computes on the cpu: there is no GPU to share"
FIXED_BY_MPS = "MPS reads a process's share once, when CUDA starts: a running server's cannot move"


@dataclass
class Host:
    """What can be turned where the run takes place. `gpu`: None where it does not run on one."""

    threads: Threads = field(default_factory=LinuxThreads)
    resctrl: Resctrl = field(default_factory=Resctrl)
    gpu: Gpu | None = None
    environment: MutableMapping[str, str] = field(default_factory=lambda: os.environ)


@contextmanager
def hold(name: str | None, device: str, host: Host | None = None) -> Iterator["Holding"]:
    """A holding of the policy of this name for one run; one that does nothing where there is no name. Undone at the end.

    device  the resolved name of the run's device
    Raises DataError for a policy that cannot be read, or that asks for cores which are not there.
    """
    if name is None:
        yield Holding(Policy(), Ledger(), Host(), ExitStack())
        return
    from labkit.allocation.policy_file import read_policy

    named = read_policy(name)
    if host is None:
        kind, _, index = device.partition(":")
        host = Host(gpu=TorchGpu(int(index or 0)) if kind == "cuda" else None)
    with ExitStack() as undo:
        holding = Holding(named.policy, Ledger(named.name), host, undo)
        if not device.startswith("simulated"):
            holding.reserve()
        yield holding


class Holding:
    """One policy in force, and its ledger."""

    def __init__(self, policy: Policy, ledger: Ledger, host: Host, undo: ExitStack):
        self.ledger = ledger
        self._policy, self._host, self._undo = policy, host, undo
        self._moving: list[Moving] = []
        self._prioritised = False
        self._asked: Any = None

    # ---- before the run -----------------------------------------------------------------------------------

    def reserve(self) -> None:
        """Set aside, on this machine, what the policy reserves. Raises DataError."""
        wanted, host, undo, write = self._policy.reservation, self._host, self._undo, self.ledger.write
        if wanted.cores is not None:
            write(bind_cores(host.threads, wanted.cores, undo))
        if wanted.cache_ways is not None:
            write(host.resctrl.reserve(wanted.cache_ways, host.threads, undo))
        if wanted.gpu_compute is not None:  # before the memory: that starts CUDA
            write(not_applied(gpus.COMPUTE, wanted.gpu_compute, NO_GPU_HERE) if host.gpu is None else gpus.share_compute(host.gpu, wanted.gpu_compute, host.environment, undo))
        if wanted.gpu_memory is not None:
            write(not_applied(gpus.MEMORY, wanted.gpu_memory, NO_GPU_HERE) if host.gpu is None else gpus.share_memory(host.gpu, wanted.gpu_memory, undo))

    def begin(self, workload: Any, knobs: Any) -> None:
        """The workload is about to be run with these knobs."""
        self._asked = knobs
        if self._policy.priority is not None:
            self._prioritised = priorities.raise_levels(workload, knobs, self._policy.priority, self.ledger, self._undo)

    def on(self, device: Device) -> None:
        """The device has been opened. Raises DataError for cores that a simulated machine has not."""
        if isinstance(device, SimulatedDevice):
            simulated.reserve(device, self._policy.reservation, self.ledger)
        for rule in self._policy.scaling:
            turn = self._turn_simulated(rule, device) if isinstance(device, SimulatedDevice) else self._turn_here(rule, device)
            if isinstance(turn, str):
                self.ledger.write(not_applied(f"scaling.{rule.resource}", rule.model_dump(), turn))
            else:
                self._moving.append(Moving(rule, device.recorder, turn))

    # ---- while it runs ------------------------------------------------------------------------------------

    def knobs(self, knobs: Any) -> Any:
        """The knobs as the policy lets them be."""
        return priorities.prioritised(knobs, self._policy.priority) if self._prioritised and self._policy.priority and knobs is not None else knobs

    def paced(self, device: Device, pace: Callable[[], None]) -> Callable[[], None]:
        """The pace of a run's steps, with a look at the load at each; the same where no share moves."""
        if not self._moving:
            return pace

        def look_too() -> None:
            pace()
            for moving in self._moving:
                moving.look(device.now())

        return look_too

    def look_ns(self, otherwise: int | None) -> int | None:
        """How long a server may sleep at most, so that no look is missed."""
        return min([each.period_ns for each in self._moving] + ([] if otherwise is None else [otherwise]), default=None)

    # ---- afterwards ---------------------------------------------------------------------------------------

    def inspect(self, device: Device, knobs: Any) -> None:
        """The kernel has ended, the device is still open: read back once more what may have changed meanwhile."""
        for moving in self._moving:
            moving.write(self.ledger, device.now())
        if self._prioritised and self._policy.priority is not None:
            priorities.read_back(device.recorder.meta.get("tenants", []), self._asked, knobs, self._policy.priority, self.ledger)
        if self.ledger.is_applied(CORES) and not isinstance(device, SimulatedDevice):
            astray = outside(self._host.threads, self.ledger.lines[CORES].read_back)
            if astray:
                self.ledger.withdraw(CORES, astray)

    def finish(self, device: Device, costs: Mapping[str, Any]) -> None:
        """The run has ended, and its ops have cost that much."""
        if isinstance(device, SimulatedDevice):
            simulated.withdraw_what_cannot_act(device, self.ledger, costs)

    # ---- inside -------------------------------------------------------------------------------------------

    def _turn_simulated(self, rule: Scaling, device: SimulatedDevice) -> Callable[[float], tuple[Any, str]] | str:
        """What puts a share in force on a simulated device; or why nothing can."""
        if rule.resource == "gpu_compute":
            reserved = device.compute_share
            if device.machine.kind != "cuda":
                return simulated.NO_GPU

            def turn_compute(share: float) -> tuple[Any, str]:
                device.share_compute(round(reserved * share, 9))
                return device.compute_share, ""

            return turn_compute
        cores = device.cores
        if not cores:
            return "not modelled: the machine's file does not say how many cores it has"

        def turn_cores(share: float) -> tuple[Any, str]:
            device.limit_cores(_part(cores, share))
            return device.cores, ""

        return turn_cores

    def _turn_here(self, rule: Scaling, device: Device) -> Callable[[float], tuple[Any, str]] | str:
        """What puts a share in force on this machine; or why nothing can."""
        threads = self._host.threads
        if rule.resource == "gpu_compute":
            return NO_GPU_HERE if self._host.gpu is None else FIXED_BY_MPS
        if not threads.can_bind:
            return "this system has no call that binds threads to cores"
        cores = remember(threads, self._undo)

        def turn(share: float) -> tuple[Any, str]:
            some = cores[: _part(len(cores), share)]
            problem = place(threads, some)
            if isinstance(device, CpuDevice):
                device.use_cores(some)
            astray = outside(threads, some)
            return some, problem or (astray and f"{astray} ({cores_text(some)})")

        return turn


def _part(whole: int, share: float) -> int:
    """A share of some cores: whole ones, at least one."""
    return max(round(whole * share), 1)
