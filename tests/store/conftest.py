"""A run to store: two steps, weak, with a toggle in its trace."""

import pytest

from labkit.runner.record import RunRecord, Verdict
from labkit.trace import KIND_OP, Recorder, Trace

ID = "20261130-231502-pipeline-3f2a"


@pytest.fixture
def record() -> RunRecord:
    return RunRecord(
        id=ID,
        experiment="pipeline",
        status="ok",
        reason="",
        knobs={"prefetch": 2, "pinned": True, "dtype": "bf16", "limit": None},
        device="cpu",
        device_label="CPU threads",
        measured=True,
        budget={"steps": 2, "seconds": None, "warmup": 0},
        started_at="2026-11-30T23:15:02+00:00",
        wall_s=1.5,
        metrics={"throughput": {"value": 64.0}},
        verdict=Verdict("WEAK", ("n = 2 steps",)),
        notes=("pinned cannot act on cpu",),
    )


@pytest.fixture
def trace() -> Trace:
    recorder = Recorder()
    recorder.open_unit("compute", 0, 0)
    for step in range(2):
        start = 1000 * step
        recorder.append(
            (
                step,
                KIND_OP,
                "train",
                "compute",
                0,
                step,
                32,
                start,
                start + 1,
                start,
                start + 900,
                7,
                8,
                -1,
                1,
                (),
            )
        )
    recorder.mark(500, 1, "prefetch", 0, 2)
    recorder.meta["measured"] = True
    return recorder.finish(2000)
