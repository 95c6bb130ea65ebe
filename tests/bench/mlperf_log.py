"""What MLPerf LoadGen wrote about a test: the samples of its trace, and the lines of its summary."""

import json

import numpy as np

from tests.bench.measure import BenchError


def samples_of(trace_text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each sample, in the order in which they were scheduled, in ns: when it was scheduled, how late it was issued, and its latency from when it was scheduled.

    Source: `SampleComplete` in LoadGen's loadgen.cc, whose slices "Sample" begin at the scheduled time (µs, three decimals).
    Raises BenchError where there are none.
    """
    found = []
    for line in trace_text.splitlines():
        if line.startswith('{"name":"Sample",') and '"ph":"b"' in line:
            event = json.loads(line.rstrip(","))
            found.append((round(event["ts"] * 1000), event["args"]["issue_start_ns"], event["args"]["complete_ns"]))
    if not found:
        raise BenchError("LoadGen's trace holds no sample")
    scheduled, late, latency = np.array(sorted(found), np.int64).T
    return scheduled, late, latency


def result_of(summary_text: str) -> dict[str, str]:
    """The lines `name : value` of the summary, by name."""
    pairs = (line.partition(":") for line in summary_text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon and value.strip()}
