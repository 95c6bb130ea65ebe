"""`python -m tests.bench.watching_profile [SECONDS]`: where the cost of watching goes, of one watched run. It judges nothing.

Busy cores by process, the kernel's by thread; the messages between page and kernel by kind; and what a frame costs, part by part: made in the
worker, taken in by the kernel.
"""

import ast
import sys
from collections import Counter
from time import monotonic, perf_counter, thread_time_ns

from labkit.experiments import experiment
from labkit.monitor.strip import strip
from labkit.panel.setting import Setting
from labkit.panel.strip import Flow
from labkit.panel.watch import Watch
from labkit.runner.job import Frame
from labkit.runner.workers import Workers
from labkit.schedule import Budget
from labkit.units import NS_PER_MS, NS_PER_S
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
    print(_frame_costs(recorded_frames(min(seconds, 5.0))))
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


def recorded_frames(seconds: float) -> list[Frame]:
    """The frames of a live run that nobody shows."""
    frames: list[Frame] = []
    with Workers() as workers:
        workers.run(timed_job(seconds, live=True), frames.append)
    return [frame for frame in frames if frame.live is not None]


def _frame_costs(frames: list[Frame]) -> str:
    """CPU time of each part of a frame's way, in ms: the kernel's parts are done again, here."""
    used_ns = {"made in the worker": NS_PER_S * frames[-1].live.watching_s}
    setting = panel_setting()
    watch, flow = Watch(setting.job(Budget(seconds=1.0), live=True), setting, monotonic), Flow(lambda header, buffers: None)
    for number, frame in enumerate(frames, start=1):
        began_ns = [thread_time_ns()]
        drawn = watch.take(frame)
        began_ns.append(thread_time_ns())
        flow.push(drawn)
        flow.hear({"ack": number})
        began_ns.append(thread_time_ns())
        strip(frame.live.monitor, setting.device)
        began_ns.append(thread_time_ns())
        for part, start_ns, end_ns in zip(("reckoned", "put into a message", "dials"), began_ns, began_ns[1:], strict=False):
            used_ns[part] = used_ns.get(part, 0) + end_ns - start_ns
    return table(["part of a frame", "CPU ms"], [[part, f"{ns / len(frames) / NS_PER_MS:.2f}"] for part, ns in used_ns.items()])


def panel_setting() -> Setting:
    """What the panel of the benchmark runs."""
    catalogued = experiment("pipeline")
    return Setting(catalogued, catalogued.knobs(), "cpu")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
