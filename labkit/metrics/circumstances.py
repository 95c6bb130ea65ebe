"""Circumstances: what went on around a run while it was measured, and what of it makes the numbers weak.

They come from the sensors' summaries in the run record (`labkit.monitor`); what no sensor could tell is None and speaks neither way.
A simulated run has none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit.units import format_percent

OTHERS_ALLOWED = 0.2
"""Share of the cores that other processes may keep busy: a run that wants them all loses about as much."""
HELD_ALLOWED = 0.05
"""Share of the quota's periods in which the run may be held back."""
THROTTLED_ALLOWED = 0.05
"""Share of the time for which one cause may hold the GPU's clocks down."""
CLOCK_WANTED = 0.6
"""Of its highest clock that the fastest core should keep: with all cores busy many processors go down to about 0.7."""
BUSY_CORES = 0.5
"""Cores that the run must keep busy for the clocks to mean anything: an idle core is slow on purpose."""

_HOLDS = {
    "gpu_throttled_by_heat": "heat",
    "gpu_throttled_by_power_brake": "the power brake of its supply",
    "gpu_throttled_by_hardware": "a hardware slowdown",
}
_POWER, _BRAKE = "gpu_throttled_by_power", "gpu_throttled_by_power_brake"


@dataclass(frozen=True)
class Circumstances:
    """Shares are 0 to 1; None where it is not known.

    others      of the usable cores: kept busy by processes of others
    stolen      of the usable cores: given to other guests by the host of a virtual machine
    quota_held  of the CPU quota's periods: the run was held back
    clock       of its highest clock: the fastest core, on average
    busy_cores  cores that the run itself kept busy
    cores       that it may use
    gpu_held    cause in words → share of the time that it held the GPU's clocks down
    gpu_others  most processes of others that computed on the GPU at a time
    """

    others: float | None = None
    stolen: float | None = None
    quota_held: float | None = None
    clock: float | None = None
    busy_cores: float | None = None
    cores: int | None = None
    gpu_held: Mapping[str, float] = field(default_factory=dict)
    gpu_others: int | None = None

    def doubts(self) -> tuple[str, ...]:
        """What makes a measurement weak: what, how much, and the limit."""
        return tuple(self._doubts())

    def facts(self) -> tuple[str, ...]:
        """What is worth knowing and within its limit."""
        if self.others is None or self.others > OTHERS_ALLOWED:
            return ()
        return (f"other processes kept {format_percent(self.others)} of the cores busy; up to {format_percent(OTHERS_ALLOWED)} is let pass",)

    def _doubts(self) -> Iterator[str]:
        yield from self._throttled()
        if self.quota_held is not None and self.quota_held > HELD_ALLOWED:
            yield (
                f"the CPU quota held the run back in {format_percent(self.quota_held)} of its periods; "
                f"up to {format_percent(HELD_ALLOWED)} is let pass"
            )
        for share, who in ((self.others, "other processes kept"), (self.stolen, "other guests of this virtual machine's host kept")):
            if share is not None and share > OTHERS_ALLOWED:
                yield (
                    f"the machine was shared: {who} {format_percent(share)} of the cores busy meanwhile; "
                    f"up to {format_percent(OTHERS_ALLOWED)} is let pass"
                )
        if self.gpu_others:
            others = "1 other process" if self.gpu_others == 1 else f"{self.gpu_others} other processes"
            yield f"the GPU was shared: {others} computed on it; none is let pass"

    def _throttled(self) -> Iterator[str]:
        for cause, share in self.gpu_held.items():
            if share > THROTTLED_ALLOWED:
                yield (
                    f"throttled clocks: {cause} held the GPU's clocks down for {format_percent(share)} of the time; "
                    f"up to {format_percent(THROTTLED_ALLOWED)} is let pass"
                )
        worked = self.busy_cores is not None and self.busy_cores >= BUSY_CORES
        if worked and self.clock is not None and self.clock < CLOCK_WANTED:
            yield (
                f"throttled clocks: the fastest core ran at {format_percent(self.clock)} of its highest clock; "
                f"{format_percent(CLOCK_WANTED)} is wanted"
            )

    @classmethod
    def of_monitor(cls, monitor: Mapping[str, Any]) -> "Circumstances":
        """The circumstances that a record's sensors tell of: `RunRecord.monitor`, as `Sampler.summary` gives it."""
        cores, used = _value(monitor, "usable_cores"), _value(monitor, "process_cpu_share")
        gpu_others = _value(monitor, "gpu_other_processes", "max")
        return cls(
            others=_value(monitor, "others_cpu_share"),
            stolen=_value(monitor, "stolen_cpu_share"),
            quota_held=_value(monitor, "quota_held_share"),
            clock=_value(monitor, "cpu_clock_share"),
            busy_cores=None if cores is None or used is None else cores * used,
            cores=None if cores is None else int(cores),
            gpu_held=_gpu_held(monitor),
            gpu_others=None if gpu_others is None else int(gpu_others),
        )


UNKNOWN = Circumstances()
"""Nothing is known of them: of a run from before they were watched, or of a simulated one."""


def _gpu_held(monitor: Mapping[str, Any]) -> dict[str, float]:
    held = {words: share for name, words in _HOLDS.items() if (share := _value(monitor, name)) is not None}
    power, brake = _value(monitor, _POWER), _value(monitor, _BRAKE)
    if power is not None:
        held["its power cap"] = max(power - (brake or 0.0), 0.0)  # the one reading counts both
    return held


def _value(monitor: Mapping[str, Any], name: str, of: str = "mean") -> float | None:
    """One figure of a sensor's summary; None where there is none, or what is there is no summary."""
    summary = monitor.get(name)
    value = summary.get(of) if isinstance(summary, Mapping) else None
    return float(value) if isinstance(value, int | float) else None
