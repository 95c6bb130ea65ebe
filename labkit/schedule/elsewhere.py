"""Work that another process did for an op: what came out, and when it was done."""

from typing import Any, NamedTuple


class Elsewhere(NamedTuple):
    """What an op's `run` returns when a process did its work while the lane's thread waited: the op's value is `value`.

    start_ns, end_ns  when the work began and ended, of `time.perf_counter_ns`: one clock for all processes of a machine

    The op's slice in the trace has these times. What lies between its end and whoever waited for it is the hand-over. For
    lanes of threads; on the host's own lane the host was held, so there the slice is the host's own time.
    """

    value: Any
    start_ns: int
    end_ns: int
