"""A reservation on a simulated device: the same shares, as the cost model takes them.

What the model does not know is not applied: no cost depends on the last-level cache, so its ways could change nothing.
"""

from typing import Any

from labkit.allocation.cores import chosen_cores
from labkit.allocation.ledger import Ledger, Line, applied, not_applied
from labkit.allocation.policy import Reservation
from labkit.device.simulated import SimulatedDevice
from labkit.units import format_bytes

COMPUTE, MEMORY, CORES, WAYS = (f"reservation.{key}" for key in ("gpu_compute", "gpu_memory", "cores", "cache_ways"))
NO_GPU = "this machine has no GPU"
NO_FLOP = "no op of this run asks the GPU for FLOP, so that a share of its compute units changes nothing; other models do"


def reserve(device: SimulatedDevice, reservation: Reservation, ledger: Ledger) -> None:
    """Give the device its shares, and write down what became of each. Raises DataError for cores that the machine has not."""
    if reservation.gpu_memory is not None:
        ledger.write(_memory(device, reservation.gpu_memory))
    if reservation.gpu_compute is not None:
        ledger.write(_compute(device, reservation.gpu_compute))
    if reservation.cores is not None:
        ledger.write(_cores(device, reservation.cores))
    if reservation.cache_ways is not None:
        ledger.write(not_applied(WAYS, reservation.cache_ways, "not modelled: no cost of a simulated machine depends on its last-level cache"))


def _memory(device: SimulatedDevice, share: float) -> Line:
    whole = device.memory_bytes
    if whole is None:
        return not_applied(MEMORY, share, NO_GPU if device.machine.kind == "cpu" else "not modelled: the machine's file does not give its gpu_memory_bytes")
    device.limit_memory(int(whole * share))
    return applied(MEMORY, share, f"simulated: an op that needs more than {format_bytes(device.memory_bytes or 0)} fails", device.memory_bytes)


def _compute(device: SimulatedDevice, share: float) -> Line:
    if device.machine.kind != "cuda":
        return not_applied(COMPUTE, share, NO_GPU)
    device.share_compute(share)
    words = f"simulated: {device.compute_share:g} of the FLOP rate; memory bandwidth is not divided, as under MPS"
    return applied(COMPUTE, share, words, device.compute_share)


def _cores(device: SimulatedDevice, wanted: int | list[int]) -> Line:
    if not device.cores:
        return not_applied(CORES, wanted, "not modelled: the machine's file does not say how many cores it has")
    device.limit_cores(len(chosen_cores(wanted, range(device.cores))))
    return applied(CORES, wanted, f"simulated: the host has {device.cores} of {int(device.machine['cores'])} cores", device.cores)


def withdraw_what_cannot_act(device: SimulatedDevice, ledger: Ledger, costs: Any) -> None:
    """After the run: a share of compute units acts on FLOP only, and there may have been none. `costs`: op name → its mean cost."""
    if any(cost.flop for cost in costs.values()):
        return
    for key in (COMPUTE, "scaling.gpu_compute"):
        if ledger.is_applied(key):
            ledger.withdraw(key, NO_FLOP)
