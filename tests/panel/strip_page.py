"""The live strip on a page of its own, with a model that stands where the kernel would: for tests, and to look at.

    python -m tests.panel.strip_page FOLDER      writes one picture for each state, width and theme

The frames are made up, and take the same way to the page as those of a run: through `Flow`.
"""

import base64
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from labkit.figures.colours import LANE_COLOURS
from labkit.panel import strip
from labkit.panel.frame import StripFrame, StripMark
from labkit.panel.strip import Flow
from tests.panel.controls_page import browser

_PANEL = Path(strip.__file__).parent
LANES = ("host", "workers", "h2d", "compute", "d2h")
ROWS = ("host", "workers 0", "workers 1", "workers 2", "h2d", "compute", "d2h")
NAMES = ("load", "copy", "train", "read back", "wait")
MARKS = (
    StripMark(8.0, "prefetch 0 → 4", "+31 % (+27 to +35)"),
    StripMark(14.2, "workers 1 → 3", "+62 % (+58 to +66)"),
    StripMark(16.9, "pinned off → on", "no change shown (−2 to +3 %)"),
    StripMark(27.5, "batch_size 16 → 64", "…"),
)
_RATES = (
    (8.0, 310.0, 52.0, 0.42),
    (14.2, 406.0, 39.0, 0.55),
    (16.9, 655.0, 24.0, 0.9),
    (27.5, 660.0, 24.0, 0.91),
    (99.0, 745.0, 86.0, 0.94),
)


def slices_of_a_second(interval_s: float) -> np.ndarray:
    """A second of a pipeline with a step each `interval_s`, in the rows of `ROWS`."""
    steps = np.arange(-1.0, 0.0, interval_s)
    train = [(5, start, start + 0.86 * interval_s, 2) for start in steps]
    copies = [(4, start - 0.1 * interval_s, start, 1) for start in steps]
    back = [(6, start + 0.86 * interval_s, start + 0.9 * interval_s, 3) for start in steps]
    loads = [
        (1 + k % 3, start - 2.4 * interval_s, start + 0.3 * interval_s, 0) for k, start in enumerate(steps)
    ]
    waits = [(0, start + 0.05 * interval_s, start + 0.8 * interval_s, 4) for start in steps]
    every = np.array([*train, *copies, *back, *loads, *waits], np.float32)
    every[:, 1:3] = np.clip(every[:, 1:3], -1, 0)
    return every


def frames(seconds: float = 30.0, per_s: int = 10, slices: np.ndarray | None = None) -> Iterator[StripFrame]:
    """A run that is toggled four times, frame by frame."""
    chance = np.random.default_rng(7)
    for number in range(1, round(seconds * per_s) + 1):
        now_s = number / per_s
        rate, interval_ms, busy = next(each[1:] for each in _RATES if now_s < each[0])
        noise = chance.normal(0, 0.025, 8)
        stall = 9.0 if number % 97 == 0 else 1.0
        known = not 20.0 < now_s < 20.7
        point = [
            now_s,
            rate * (1 + noise[0]) if known else math.nan,
            interval_ms * (1 + 2 * noise[1]) * stall,
        ]
        shares = np.clip(
            [0.2 + noise[2], 1.3 - busy + noise[3], 0.12 + noise[4], busy + noise[5], 0.05 + noise[6] / 3],
            0,
            1,
        )
        yield StripFrame(
            now_s=now_s,
            points=np.array([[*point, *shares]], np.float32),
            lanes=LANES,
            rows=ROWS,
            slices=slices_of_a_second(interval_ms / 1000) if slices is None else slices,
            names=NAMES,
            marks=tuple(mark for mark in MARKS if mark.t_s <= now_s),
            label="measured on CPU threads",
            tiles=(
                ("throughput", f"{rate:.0f} items/s"),
                ("step interval", f"{interval_ms:.0f} ms"),
                ("busiest lane", f"compute {100 * busy:.0f} %"),
            ),
        )


def run_of(state: str) -> list[StripFrame]:
    """The frames that lead to a state of the strip."""
    if state == "empty":
        return []
    run = list(frames(3.0 if state == "begun" else 30.0))
    if state == "simulated":
        run = [replace(frame, label="simulated H200: a prediction", simulated=True) for frame in run]
    if state == "stopped":
        run.append(replace(run[-1], points=run[-1].points[:0], running=False))
    if state == "crowded":
        marks = tuple(
            StripMark(4.0 + 1.7 * k, f"workers {k} → {k + 1}, loader inline → pool", "+3.1 % (+2.7 to +3.5)")
            for k in range(16)
        )
        rows = (*(f"workers {unit}" for unit in range(24)), "h2d", "compute", "d2h")
        chance = np.random.default_rng(1)
        start = chance.uniform(-1, 0, 5000)
        slices = np.stack(
            [chance.integers(0, 27, 5000), start, start + 0.003, chance.integers(0, 4, 5000)], axis=1
        )
        run = [replace(frame, marks=marks, rows=rows, slices=slices.astype(np.float32)) for frame in run]
    return run


STATES = ("running", "simulated", "stopped", "empty", "begun", "crowded")


def messages(run: list[StripFrame]) -> list[dict[str, Any]]:
    """What a page is sent that paints when all of the frames have come, as `window.tell` takes it."""
    sent: list[dict[str, Any]] = []
    flow = Flow(lambda header, buffers: sent.append(as_json(header, buffers)))
    for frame in run:
        flow.push(frame)
    flow.hear({"hello": True})
    return sent


def as_json(header: dict[str, Any], buffers: list[bytes]) -> dict[str, Any]:
    """A message for `window.tell`."""
    return {"header": header, "buffers": [base64.b64encode(each).decode() for each in buffers]}


_THEMES = {
    "light": (
        "true",
        {"layout-color1": "#fff", "ui-font-color1": "rgba(0, 0, 0, 0.87)", "border-color2": "#e0e0e0"},
    ),
    "dark": (
        "false",
        {"layout-color1": "#111", "ui-font-color1": "rgba(255, 255, 255, 0.87)", "border-color2": "#616161"},
    ),
    "none": ("", {}),
}

_MODEL = """
const handlers = {};
window.sent = [];
const model = () => {
  const own = [];
  return {
    get: (name) => ({ colours: COLOURS })[name],
    on: (event, handler) => (handlers[event] ??= new Set()).add(handler),
    off: (event, handler) => handlers[event].delete(handler),
    send: (message) => window.sent.push(message),
  };
};
// a buffer begins somewhere in what was received, as it does in JupyterLab
const buffer = (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const received = new Uint8Array(bytes.length + 3);
  received.set(bytes, 3);
  return new DataView(received.buffer, 3);
};
window.decode = ({ header, buffers }) => [header, buffers.map(buffer)];
window.tellRaw = (message) => handlers["msg:custom"].forEach((handler) => handler(...message));
window.tell = (message) => window.tellRaw(window.decode(message));
const widget = (await import(URL.createObjectURL(new Blob([SCRIPT], { type: "text/javascript" })))).default();
window.end = widget.initialize({ model: model() });
window.open_view = (place) => widget.render({ model: model(), el: document.querySelector(place) });
window.close_view = window.open_view("#strip");
window.listeners = () => Object.values(handlers).reduce((sum, set) => sum + set.size, 0);
MESSAGES.forEach(window.tell);
window.ready = true;
"""


def page_html(run: list[StripFrame], width: int, theme: str = "light") -> str:
    """A page that shows the strip `width` pixels wide after these frames. `window.tell` gives it more."""
    light, colours = _THEMES[theme]
    variables = "".join(f"--jp-{name}: {colour};" for name, colour in colours.items())
    model = _MODEL
    for name, value in (
        ("COLOURS", LANE_COLOURS),
        ("SCRIPT", _read("strip.js")),
        ("MESSAGES", messages(run)),
    ):
        model = model.replace(name, json.dumps(value).replace("<", "\\u003c"))
    return f"""<!doctype html><meta charset="utf-8"><title>strip</title>
<style>:root {{{variables}}} body {{ margin: 0; background: var(--jp-layout-color1) }}</style><style>{_read("strip.css")}</style>
<body {f'data-jp-theme-light="{light}"' if light else ""}><div id="strip" style="width: {width}px"></div><div id="second"></div>
<script type="module">{model}</script>"""


def show(page: Any, run: list[StripFrame], width: int = 900, theme: str = "light") -> None:
    """Put the strip on a page of the browser, and wait until it has painted."""
    page.set_content(page_html(run, width, theme))
    page.wait_for_function("window.ready && document.querySelector('.labkit-strip')?.dataset.painted")


def show_held(page: Any, run: list[StripFrame]) -> None:
    """Show it under a clock that goes on by `page.clock.run_for` alone, however busy the machine is."""
    page.clock.install(time=0)
    page.clock.pause_at(1)
    page.set_content(page_html(run, 900))
    deadline_s = monotonic() + 30
    while not page.evaluate("Boolean(window.ready && document.querySelector('.labkit-strip')?.dataset.painted)"):
        assert monotonic() < deadline_s, "the strip was never painted"
        page.clock.run_for(20)


def take_pictures(folder: Path) -> None:
    """One PNG for each state, width and theme."""
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        page = chromium.new_page(device_scale_factor=1.5)
        for state in STATES:
            for width in (420, 900, 1280):
                for theme in ("light", "dark"):
                    page.set_viewport_size({"width": width, "height": 400})
                    show(page, run_of(state), width, theme)
                    page.screenshot(path=folder / f"{state}-{width}-{theme}.png", full_page=True)


def _read(name: str) -> str:
    return (_PANEL / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
