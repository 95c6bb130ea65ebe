"""Records of shown runs, with text in them that a page must not obey."""

from labkit.figures import Shown
from labkit.runner.record import RunRecord, Verdict

HOSTILE = "<script>alert(1)</script>"


def record_of(run: Shown, grade: str = "VALID", reasons: tuple[str, ...] = (), **knobs: object) -> RunRecord:
    """The record of a shown run."""
    figures = {"hbm_bytes_per_s": {"value": 4.8e12, "source": f"data sheet {HOSTILE}"}}
    machine = None if run.measured else {"name": "h200", "label": "H200", "kind": "cuda", "figures": figures}
    return RunRecord(
        id=f"20261130-231502-pipeline-{run.label.lower()}{run.kind[:3]}",
        experiment="pipeline",
        status="ok",
        reason="",
        knobs={"pinned": True, "prefetch": 0 if run.label == "A" else 4, **knobs},
        device="cpu" if run.measured else "simulated:h200",
        device_label=run.device_label,
        measured=run.measured,
        budget={"steps": 40, "seconds": None, "warmup": 4},
        started_at="2026-11-30T23:15:02+00:00",
        wall_s=1.2345,
        metrics=run.summary.as_dict(),
        verdict=Verdict(grade, reasons),
        machine=machine,
        monitor={"gpu": {"power_w": None, "reason": "no GPU here"}},
        provenance={"python": "3.11.9", "host": {"name": "bench-7"}},
        notes=("pinned cannot act on cpu",),
    )
