"""Runs in the process of the test: for simulated devices, whose time is virtual and which need no isolation; a worker process costs seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.runner.execute import execute
from labkit.runner.job import Frame, Job, Outcome


class InProcess:
    """Stands for `labkit.runner.workers.Workers` where a test runs simulated jobs only."""

    def run(self, job: Job, on_frame: Callable[[Frame], None] | None = None) -> Outcome:
        """Run a simulated job here."""
        assert job.simulated, "a measured run needs a process of its own"
        return execute(job, job.recipe.prepare(job.knobs, job.where))

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: Any) -> None:
        """There is nothing to close."""

    def close(self) -> None:
        """There is nothing to close."""
