"""From a click to the change on the screen: how long a toggle of a live run takes in a browser, and whether that stays so.

One run on the cpu device, toggled again and again; then a hundred short runs, each with its figures. The clock is the page's: from the event that
the control gives to the drawing of the strip, which the screen shows with its next refresh.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from tests.bench.live_panel import LivePanel, Message, Paint, Seen, notebook_page
from tests.bench.measure import BenchError, Line, progress
from tests.browser.page import NotebookPage

NAME = "toggle"
TARGET_MS = 300.0
LEAST_UPDATES_PER_S = 8.0
ECHO_GROWTH, AGE_GROWTH_MS, MEMORY_GROWTH = 1.5, 100.0, 0.15
PREFETCH = 2  # the default
STEPS_BEFORE = PREFETCH + 2
"""So many steps may be on their way when a knob is turned: those that are loaded, one that is trained, one that waits for it."""

WATCHED = """import labkit
labkit.Panel("pipeline", device="cpu")"""
SHORT = """import labkit
panel = labkit.Panel("pipeline", device="simulated:t4", image_size=32, batch_size=4)
panel.session.run_for(0.5)
panel"""


@dataclass(frozen=True)
class Plan:
    """How much is done.

    lasts_s    the long run: a look at its beginning and at its end of `look_s` each, `toggles` every `pause_s`, and from then on one every `later_s`
    runs       short runs; memory is read after the first `settled` of them and after all
    """

    lasts_s: float
    look_s: float
    toggles: int
    pause_s: float
    later_s: float
    runs: int
    settled: int


FULL = Plan(lasts_s=300.0, look_s=10.0, toggles=20, pause_s=3.0, later_s=10.0, runs=100, settled=20)
QUICK = Plan(lasts_s=10.0, look_s=2.0, toggles=2, pause_s=1.5, later_s=1.5, runs=2, settled=1)


@dataclass(frozen=True)
class Delay:
    """One toggle: from the click until its mark was drawn, and until a step that it had changed was drawn."""

    mark_ms: float
    change_ms: float


@dataclass(frozen=True)
class LongRun:
    """The run that was toggled.

    clicks      the page's times of the toggles, in ms
    first, last  what was seen in the looks at its beginning and its end
    """

    clicks: tuple[float, ...]
    seen: Seen
    first: Seen
    last: Seen
    step_ms: float


@dataclass(frozen=True)
class Memory:
    """What the page's JavaScript and the kernel hold, in bytes."""

    page: int
    kernel: int


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    plan = QUICK if quick else FULL
    with notebook_page() as page:
        long = long_run(page, plan)
        settled, after_all = short_runs(page, plan)
    return _line(long, settled, after_all, plan)


# ---- one long run -----------------------------------------------------------------------------------------


def long_run(page: NotebookPage, plan: Plan) -> LongRun:
    """Run, look, toggle, look, stop."""
    panel = LivePanel(page, "toggle.ipynb", WATCHED)
    panel.until_quiet()
    panel.take()
    panel.panel.runs()
    panel.wait(1.0)
    first = _look(panel, plan.look_s)
    seen, clicks = first, []
    left_s = plan.lasts_s - 2 * plan.look_s
    while left_s > 0:
        pause_s = plan.pause_s if len(clicks) < plan.toggles else plan.later_s
        progress(f"toggle {len(clicks) + 1}; {left_s:.0f} s left")
        clicks.append(panel.turn())
        panel.wait(pause_s)
        left_s -= pause_s
        seen += panel.take()
    last = _look(panel, plan.look_s)
    panel.panel.stops()
    seen += last
    step_ns = panel.last_run().record.metrics["step_interval"]["p50"]["value"]
    panel.close()
    return LongRun(tuple(clicks), seen, first, last, step_ns / 1e6)


def _look(panel: LivePanel, seconds: float) -> Seen:
    """What is seen in these seconds, with five pings in each of them."""
    for _ in range(round(seconds * 5)):
        panel.ping()
        panel.wait(0.2)
    return panel.take()


def delays(seen: Seen, clicks: Sequence[float], lead_s: float) -> list[Delay]:
    """The delay of each click. A change is there when the strip shows a time `lead_s` after the toggle's mark: by then a step that it changed
    is among the points. Raises BenchError for a click whose change was never drawn."""
    mark_of = {message.now_s: message.mark_s for message in seen.messages if message.kind == "strip"}
    return [_delay(seen.paints, mark_of, click_ms, lead_s) for click_ms in clicks]


def _delay(paints: Sequence[Paint], mark_of: dict[float | None, float | None], click_ms: float, lead_s: float) -> Delay:
    before = max((mark_of.get(paint.now_s) or 0.0 for paint in paints if paint.at_ms <= click_ms), default=0.0)
    after = [paint for paint in paints if paint.at_ms > click_ms]
    marked = next((paint for paint in after if (mark_of.get(paint.now_s) or 0.0) > before), None)
    mark_s = mark_of[marked.now_s] if marked is not None else None
    changed = next((paint for paint in after if mark_s is not None and paint.now_s >= mark_s + lead_s), None)
    if marked is None or changed is None:
        raise BenchError(f"the strip never showed the toggle at {click_ms / 1000:.1f} s")
    return Delay(marked.at_ms - click_ms, changed.at_ms - click_ms)


def echoes_ms(messages: Sequence[Message]) -> list[float]:
    """For each command, how long it took until the page had values that have heard of it."""
    heard = [message for message in messages if "values" in message.kind and message.number is not None]
    found = []
    for command in (message for message in messages if message.kind == "command" and message.number is not None):
        answers = (each.at_ms for each in heard if each.at_ms >= command.at_ms and each.number >= command.number)
        if (at_ms := next(answers, None)) is not None:
            found.append(at_ms - command.at_ms)
    return found


def _echo_ms(seen: Seen) -> float:
    if not (found := echoes_ms(seen.messages)):
        raise BenchError("no command was ever heard of by the page's values")
    return median(found)


def age_ms(seen: Seen) -> float:
    """How old the newest frame was when it was drawn, up to a constant: the clocks of page and strip began at different times."""
    return median(paint.at_ms - 1000 * paint.now_s for paint in seen.paints)


def unpainted(seen: Seen) -> int:
    """Messages to the strip that had arrived at the end and had not been drawn."""
    last_s = seen.paints[-1].now_s if seen.paints else 0.0
    return sum(each.kind == "strip" and (each.now_s or 0.0) > last_s for each in seen.messages)


# ---- many short runs --------------------------------------------------------------------------------------


def short_runs(page: NotebookPage, plan: Plan) -> tuple[Memory, Memory]:
    """Run again and again, each time until the figures are drawn: memory after the first few runs, and after all."""
    panel = LivePanel(page, "runs.ipynb", SHORT)
    found = []
    for number in range(1, plan.runs + 1):
        progress(f"short run {number} of {plan.runs}")
        before = _newest_stored(page)
        panel.run()
        page.until(lambda before=before: _newest_stored(page) != before, "the figures of a short run")
        if number in (plan.settled, plan.runs):
            panel.until_quiet()
            panel.take()
            found.append(Memory(page.js_heap_bytes(), panel.kernel.memory_info().rss))
    panel.close()
    return found[0], found[1]


def _newest_stored(page: NotebookPage) -> str | None:
    """The newest run that the panel offers as A: it is there when all that is to be shown of it has been sent."""
    return page.page.evaluate("seen.controls.querySelector('select[name=stored] option')?.value ?? null")


# ---- what came of it --------------------------------------------------------------------------------------


def _line(long: LongRun, settled: Memory, after_all: Memory, plan: Plan) -> Line:
    lead_ms = STEPS_BEFORE * long.step_ms
    found = delays(long.seen, long.clicks, lead_ms / 1000)
    beyond = [delay.change_ms - lead_ms for delay in found]
    p90 = quantiles(beyond, n=10, method="inclusive")[-1]
    echo = [_echo_ms(seen) for seen in (long.first, long.last)]
    age_growth_ms = age_ms(long.last) - age_ms(long.first)
    growth = {"page": after_all.page / settled.page - 1, "kernel": after_all.kernel / settled.kernel - 1}
    holds = {
        f"p90 of click to painted change <= {TARGET_MS:.0f} ms beyond {STEPS_BEFORE} steps": p90 <= TARGET_MS,
        f">= {LEAST_UPDATES_PER_S:.0f} updates a second": long.seen.updates_per_s >= LEAST_UPDATES_PER_S,
        f"echo of a command at the end <= {ECHO_GROWTH} times that at the beginning": echo[1] <= ECHO_GROWTH * echo[0],
        f"a frame is at most {AGE_GROWTH_MS:.0f} ms older when painted at the end": age_growth_ms <= AGE_GROWTH_MS,
        "at most 1 message waits to be painted": unpainted(long.seen) <= 1,
        f"page and kernel grow by < {MEMORY_GROWTH:.0%} from run {plan.settled} to run {plan.runs}": max(growth.values()) < MEMORY_GROWTH,
    }
    print(f"  click to painted change, beyond {STEPS_BEFORE} steps of {long.step_ms:.1f} ms: median {median(beyond):.0f} ms, p90 {p90:.0f}, most {max(beyond):.0f}, of {len(beyond)}")
    print(f"  click to painted mark: median {median(delay.mark_ms for delay in found):.0f} ms; {long.seen.updates_per_s:.1f} updates a second over {plan.lasts_s:.0f} s")
    print(f"  a command's echo after {echo[0]:.0f} ms at the beginning, {echo[1]:.0f} ms at the end; a frame's age when painted grew by {age_growth_ms:.0f} ms")
    print(f"  memory at run {plan.settled} and {plan.runs}: page {_mb(settled.page)} and {_mb(after_all.page)} MB, kernel {_mb(settled.kernel)} and {_mb(after_all.kernel)} MB")
    for bound, kept in holds.items():
        if not kept:
            print(f"  does not hold: {bound}")
    return Line(
        name=NAME,
        ours=median(beyond),
        peer=None,
        unit=f"ms beyond {STEPS_BEFORE} steps",
        ratio=None,
        low=None,
        high=None,
        aa_ratio=None,
        rounds=len(beyond),
        passed=all(holds.values()),
        bound="; ".join(holds),
        details={
            "beyond_p90_ms": p90,
            "beyond_max_ms": max(beyond),
            "mark_median_ms": median(delay.mark_ms for delay in found),
            "mark_max_ms": max(delay.mark_ms for delay in found),
            "step_ms": long.step_ms,
            "updates_per_s": long.seen.updates_per_s,
            "echo_ms": echo,
            "age_growth_ms": age_growth_ms,
            "unpainted": unpainted(long.seen),
            "page_mb": [_mb(settled.page), _mb(after_all.page)],
            "kernel_mb": [_mb(settled.kernel), _mb(after_all.kernel)],
            "does_not_hold": [bound for bound, kept in holds.items() if not kept],
        },
    )


def _mb(count: int) -> float:
    return round(count / 1e6, 1)
