"""The cpu device: every lane is a thread or a pool of them, and `compute` stands where the GPU would.

Overlap, queueing and placement are then real and measured, on a laptop. Each lane thread gets a fixed share of the
cores: compute has cores of its own (see `affinity.py`), and torch's OpenMP threads are set per lane thread, because a
pool the size of the host in each of several lanes makes all of them slow.
"""

from labkit.device.affinity import Affinity
from labkit.device.cores import available_cores, share_torch_cores
from labkit.device.live import LiveDevice
from labkit.errors import NotEnoughThreads
from labkit.schedule import Lane
from labkit.trace import Recorder

_LABELS = {
    "host": "host thread",
    "workers": "worker thread (CPU)",
    "h2d": "copy-in thread (CPU)",
    "compute": "compute thread (CPU)",
    "d2h": "copy-out thread (CPU)",
    "disk": "disk thread",
    "net": "network thread",
}


class CpuDevice(LiveDevice):
    """Lanes of threads.

    widths  threads of each lane role, 1 where not given
    shares  cores that each thread of a role may use, 1 where not given
    Raises NotEnoughThreads when one lane thread alone asks for more cores than there are; more threads than cores in all
    is allowed and noted as a warning in the trace.
    """

    kind = "cpu"

    def __init__(
        self,
        *,
        widths: dict[str, int] | None = None,
        shares: dict[str, int] | None = None,
        recorder: Recorder | None = None,
    ):
        self._shares = dict(shares or {})
        cores = available_cores()
        for role, share in self._shares.items():
            if not 1 <= share <= cores:
                raise NotEnoughThreads(f"lane '{role}' asks for {share} cores; this process may use 1 to {cores}")
        self._affinity = Affinity(self._shares)
        super().__init__("cpu", widths=widths, recorder=recorder)
        self.recorder.meta.update(device_label="CPU threads", cores=cores, pinned=self._affinity.active)
        self._note_oversubscription()

    def label(self, lane: Lane) -> str:
        """`compute thread (CPU)`."""
        return _LABELS.get(lane.role, super().label(lane))

    def resize(self, role: str, width: int) -> None:
        """As every device's; notes a warning when the threads now exceed the cores."""
        super().resize(role, width)
        self._note_oversubscription()

    def use_cores(self, cores: list[int]) -> None:
        """Place the lane threads on these cores from now on, compute apart from the others where there are enough."""
        self._affinity.use(cores)

    def _note_oversubscription(self) -> None:
        cores = available_cores()
        busy = {role: self._widths.get(role, 1) * self._shares.get(role, 1) for role in ("workers", "compute")}
        if sum(busy.values()) > cores:
            words = " + ".join(f"{count} {role}" for role, count in busy.items())
            warning = f"more busy threads than cores: {words} on {cores} cores; they slow each other down"
            warnings = self.recorder.meta.setdefault("warnings", [])
            if warning not in warnings:
                warnings.append(warning)

    def _on_thread_start(self, lane: Lane) -> None:
        self._affinity.join(lane)
        share_torch_cores(self._shares.get(lane.role, 1))
