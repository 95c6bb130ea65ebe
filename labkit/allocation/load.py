"""How busy a server is, from what its run records: requests that wait, and the share of time for which compute is busy."""

from labkit.trace import KIND_OP, Recorder


class Load:
    """The load between two looks at one recorder.

    On a measuring device an op is recorded when it has ended, and counts wholly in that look: a period shorter than a batch
    sees none, then more than all, which is taken as all. A simulated device records ahead, and each part counts in its own look.
    """

    def __init__(self, recorder: Recorder):
        self._recorder = recorder
        self._position = 0
        self._looked_ns = 0
        self._to_come: list[tuple[int, int]] = []

    def waiting(self) -> float:
        """Requests that wait now; 0 for a kernel that says nothing of it."""
        return float(self._recorder.gauges.get("waiting", 0))

    def utilization(self, now_ns: int) -> float:
        """Busy time of compute since the last call, as a share of that time: 0 to 1."""
        rows, self._position = self._recorder.rows_since(self._position)
        new = [(row[9], row[10]) for row in rows if row[1] == KIND_OP and row[3].startswith("compute") and row[9] >= 0]
        busy_ns, still = 0, []
        for start, end in (*self._to_come, *new):
            busy_ns += max(min(end, now_ns) - start, 0)
            if end > now_ns:
                still.append((max(start, now_ns), end))
        span_ns, self._looked_ns, self._to_come = now_ns - self._looked_ns, now_ns, still
        return min(busy_ns / span_ns, 1.0) if span_ns > 0 else 0.0
