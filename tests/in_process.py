"""Runs in the process of the test: for simulated devices, whose time is virtual and which need no isolation; a worker process costs seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.errors import LabkitError
from labkit.runner.execute import execute
from labkit.runner.job import Frame, Job, Outcome
from labkit.runner.workers import Workers


class InProcess(Workers):
    """Workers that run simulated jobs here, and measured ones as ever in a process of their own."""

    def run(self, job: Job, on_frame: Callable[[Frame], None] | None = None) -> Outcome:
        """Run a job."""
        if not job.simulated or job.live:
            return super().run(job, on_frame)
        try:
            workload: Any = job.recipe.prepare(job.knobs, job.where)
        except LabkitError as error:
            return Outcome("failed", str(error), None, 0.0)
        return execute(job, workload)
