"""A sweep: one job after another, each in a warm worker; what is done already is skipped.

One at a time on purpose: trials that share the cores measure each other.
"""

from collections.abc import Callable, Iterable, Iterator

from labkit.runner.asked import give_up_if_asked
from labkit.runner.job import Frame, Job, Outcome
from labkit.runner.workers import Workers


def sweep(
    jobs: Iterable[Job], done: set[str], workers: Workers, on_frame: Callable[[Job, Frame], None] | None = None
) -> Iterator[tuple[Job, Outcome]]:
    """Run the jobs whose key is not in `done`, sorted by set-up so that workers stay warm; each with its outcome."""
    waiting = [job for job in jobs if job.key not in done]
    for job in sorted(waiting, key=lambda job: job.set_up):
        give_up_if_asked()
        tell = None if on_frame is None else _tell(on_frame, job)
        yield job, workers.run(job, tell)


def _tell(on_frame: Callable[[Job, Frame], None], job: Job) -> Callable[[Frame], None]:
    return lambda frame: on_frame(job, frame)
