"""`python -m tests.bench.watching_profile [SECONDS]`: where the cost of watching goes, of one watched run. It judges nothing.

Busy cores by process, the kernel's by thread; the messages between page and kernel by kind; and what making frames costs the worker.
"""

import ast
import sys
from collections import Counter
from time import perf_counter

from labkit.panel.watch import watching_share
from labkit.runner.job import Live
from labkit.runner.workers import Workers
from tests.bench.live_panel import LivePanel, Seen, notebook_page
from tests.bench.measure import table
from tests.bench.watching import CELL, CoreWatch, timed_job

SECONDS = 20.0
THREADS = "import threading\nprint({thread.native_id: thread.name for thread in threading.enumerate()})"


def main(arguments: list[str]) -> int:
    """Watch one run, and print what it cost."""
    seconds = float(arguments[0]) if arguments else SECONDS
    with notebook_page() as page:
        panel = LivePanel(page, "profile.ipynb", CELL.format(seconds=seconds), THREADS)
        panel.run()  # the first one loads what later ones find
        panel.until_quiet()
        page.page.evaluate("seen.sizes = true")
        watch, threads_s, began_s = CoreWatch(panel), _threads_s(panel), perf_counter()
        seen = panel.run()
        wall_s = perf_counter() - began_s
        cores, after_s = watch.cores(), _threads_s(panel)
        page.run(1)
        names: dict[int, str] = ast.literal_eval(page.text(1).strip())
        threads = {names.get(number, "others"): used_s - threads_s.get(number, 0.0) for number, used_s in after_s.items()}
        panel.close()
    print(f"{wall_s:.1f} s from Run to rest, the strip drawn {seen.updates_per_s:.1f} times a second")
    print(_shares("process", {role: share * wall_s for role, share in cores.items()}, wall_s))
    print(_shares("thread of the kernel", threads, wall_s))
    print(_messages(seen, wall_s))
    print(f"making frames: {100 * _frames_share(min(seconds, 5.0)):.1f} % of a core in the worker")
    return 0


def _threads_s(panel: LivePanel) -> dict[int, float]:
    """CPU time of each of the kernel's threads so far."""
    return {thread.id: thread.user_time + thread.system_time for thread in panel.kernel.threads()}


def _shares(what: str, used_s: dict[str, float], wall_s: float) -> str:
    ordered = sorted(used_s.items(), key=lambda pair: -pair[1])
    return table([what, "CPU s", "of a core"], [[name, f"{s:.2f}", f"{100 * s / wall_s:.1f} %"] for name, s in ordered if s > 0])


def _messages(seen: Seen, wall_s: float) -> str:
    counts, sizes = Counter(each.kind for each in seen.messages), Counter[str]()
    for each in seen.messages:
        sizes[each.kind] += each.bytes
    rows = [
        [kind, f"{count / wall_s:.1f}", f"{sizes[kind] / count:,.0f}", f"{sizes[kind] / wall_s:,.0f}"]
        for kind, count in counts.most_common()
    ]
    return table(["message", "a second", "bytes each", "bytes/s"], rows)


def _frames_share(seconds: float) -> float:
    """CPU time of the thread that makes frames ÷ time, of a live run."""
    frames: list[Live] = []
    with Workers() as workers:
        workers.run(timed_job(seconds, live=True), lambda frame: frames.append(frame.live) if frame.live is not None else None)
    return watching_share(frames[-1]) or 0.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
