"""The panel's controls on a page of their own, with a model that stands where the kernel would: for tests, and to look at.

    python -m tests.panel.controls_page FOLDER      writes one picture for each state, width and theme
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labkit.device.open import Choice
from labkit.experiments import experiment
from labkit.panel import control_spec
from labkit.panel.control_spec import MachineSlider
from labkit.panel.controls import no_status, no_values
from tests.browser.equipment import CHROMIUM

_PANEL = Path(control_spec.__file__).parent

DEVICES = [
    Choice("cuda", "GPU", False, "this machine has no GPU driver"),
    Choice("cpu", "CPU threads", True),
    Choice("simulated:h200", "simulated H200", True),
    Choice("simulated:t4", "simulated T4", True),
]
SLIDERS = [
    MachineSlider("link_h2d_bytes_per_s", "host link", "GB/s", 1e9, 1, 128, log=True),
    MachineSlider("hbm_bytes_per_s", "HBM", "GB/s", 1e9, 100, 10_000, log=True),
    MachineSlider("gpu_flop_per_s", "16-bit peak", "TFLOP/s", 1e12, 5, 2500, log=True),
    MachineSlider("gpu_fp32_flop_per_s", "fp32 peak", "TFLOP/s", 1e12, 1, 1000, log=True),
    MachineSlider("cores", "CPU cores", "cores", 1, 1, 192, log=True, whole=True),
    MachineSlider("gpu_memory_bytes", "GPU memory", "GB", 1e9, 8, 200, log=True),
    MachineSlider("hbm_share", "HBM share", "", 1, 0, 1, log=False),
]
LINKS = (control_spec.MachinePreset("slow link", {"link_h2d_bytes_per_s": 12e9}, "an example"),)
SPEC = control_spec.control_spec(experiment("pipeline"), DEVICES, machine=SLIDERS, machine_presets=LINKS)

_INERT = {"pinned": "pinned memory cannot act on cpu: host and device memory are the same here"}
_COLD = [knob["name"] for knob in SPEC["knobs"] if knob["cold"]]
_COPY = {
    "CLI": "labkit run pipeline --device cpu --seconds 10 --prefetch 4 --workers 2 --batch-size 16",
    "papermill": "papermill 01_pipelined_training.ipynb out.ipynb -p device cpu -p prefetch 4 -p workers 2",
    "Python": 'labkit.run("pipeline", device="cpu", seconds=10, prefetch=4, workers=2)',
}
VALUES = {
    **no_values(),
    "knobs": {knob["name"]: knob["default"] for knob in SPEC["knobs"]},
    "device": "cpu",
    "inert": _INERT,
    "cold": _COLD,
    "run_for": 10,
}
STATUS = {
    **no_status(),
    "words": "press Run",
    "label": "measured on CPU threads",
    "can": {"run": True, "stop": False, "pin": False, "compare": False, "reset": True},
    "copy": _COPY,
    "stored": [
        {"id": "a1", "words": "03:12 pipeline on cpu: 812 images/s, prefetch=0"},
        {"id": "b2", "words": "03:15 pipeline on cpu: 1240 images/s"},
    ],
}
MONITOR = [
    {"name": "cpu", "label": "CPU", "text": "63 %", "reason": "", "level": "ok"},
    {"name": "ram", "label": "memory", "text": "11.2 GiB", "reason": "", "level": "warning"},
    {"name": "gpu", "label": "GPU", "text": None, "reason": "this machine has no GPU driver", "level": None},
    {"name": "temp", "label": "GPU temp.", "text": "91 °C", "reason": "", "level": "critical"},
    {"name": "power", "label": "GPU power", "text": None, "reason": "NVML is not here", "level": None},
]
_H200 = {
    "link_h2d_bytes_per_s": 55.4e9,
    "hbm_bytes_per_s": 4.8e12,
    "gpu_flop_per_s": 989e12,
    "gpu_fp32_flop_per_s": 494.7e12,
    "cores": 24,
    "gpu_memory_bytes": 141e9,
}
_ON_H200 = {**VALUES, "device": "simulated:h200", "inert": {}, "machine": _H200}
_CAN_ALL = {"run": False, "stop": True, "pin": True, "compare": True, "reset": True}
_A = "prefetch=0, loader=inline: 812 images/s (measured on CPU threads)"

STATES: dict[str, dict[str, Any]] = {
    "idle": {},
    "running": {
        "values": {**VALUES, "knobs": {**VALUES["knobs"], "prefetch": 4, "batch_size": 64}},
        "status": {**STATUS, "phase": "running", "words": "step 1240, 1 180 images/s", "can": _CAN_ALL, "a": _A},
        "monitor": MONITOR,
        "alerts": [{"words": "GPU temperature is 91 °C, more than 85 °C for 10 s", "level": "critical"}],
    },
    "simulated": {
        "values": _ON_H200,
        "status": {**STATUS, "label": "simulated H200", "simulated": True, "words": "predicted again at every change"},
        "guess": {"ratio": 1.6, "bottleneck": "h2d", "committed": True},
    },
    "comparing": {
        "status": {
            **STATUS,
            "phase": "comparing",
            "words": "round 3 of 8",
            "a": _A,
            "share": 0.4,
            "can": {**_CAN_ALL, "pin": False, "compare": False, "reset": False},
            "message": {"level": "info", "words": "A and B are measured in turns.", "what_to_do": ""},
        },
    },
    "error": {
        "status": {
            **STATUS,
            "message": {
                "level": "error",
                "words": "The worker died: it was killed by signal 9 while it loaded data=/home/someone/photos/holiday-2024.",
                "what_to_do": "Lower batch_size (now 4096) or image_size, then press Run.",
            },
        },
    },
}

_THEMES = {
    "light": ("true", {"layout-color1": "#fff", "ui-font-color1": "rgba(0, 0, 0, 0.87)"}),
    "dark": ("false", {"layout-color1": "#111", "ui-font-color1": "rgba(255, 255, 255, 0.87)"}),
    "none": ("", {}),
}

_MODEL = """
const state = TRAITS, handlers = {};
window.sent = [];
window.sentAt = [];
const model = {
  get: (name) => state[name],
  on: (event, handler) => (handlers[event] ??= new Set()).add(handler),
  off: (event, handler) => handlers[event].delete(handler),
  send: (message) => { window.sent.push(message); window.sentAt.push(performance.now()); },
};
window.set = (name, value) => { state[name] = value; handlers[`change:${name}`]?.forEach((handler) => handler()); };
window.tell = (message) => handlers["msg:custom"]?.forEach((handler) => handler(message, []));
window.listeners = () => Object.values(handlers).reduce((sum, set) => sum + set.size, 0);
const source = new Blob([SCRIPT], { type: "text/javascript" });
const widget = (await import(URL.createObjectURL(source))).default;
window.close_view = widget.render({ model, el: document.querySelector("#panel") });
window.again = (el) => widget.render({ model, el });
window.ready = true;
"""


def traits(state: str) -> dict[str, Any]:
    """The traits of the widget in one of the states."""
    return {"spec": SPEC, "values": VALUES, "status": STATUS, "monitor": [], "alerts": [], "guess": None, **STATES[state]}


def page_html(shown: Mapping[str, Any], width: int = 320, theme: str = "light") -> str:
    """A page that shows the controls `width` pixels wide."""
    light, colours = _THEMES[theme]
    variables = "".join(f"--jp-{name}: {colour};" for name, colour in colours.items())
    model = _MODEL.replace("TRAITS", _as_script(shown)).replace("SCRIPT", _as_script(_read("controls.js")))
    return f"""<!doctype html><meta charset="utf-8"><title>controls</title>
<style>:root {{{variables}}} body {{ margin: 0; background: var(--jp-layout-color1) }}</style><style>{_read("controls.css")}</style>
<body {f'data-jp-theme-light="{light}"' if light else ""}><div id="panel" style="width: {width}px"></div>
<script type="module">{model}</script>"""


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"])
        try:
            yield chromium
        finally:
            chromium.close()


def show(page: Any, shown: Mapping[str, Any], width: int = 320, theme: str = "light") -> None:
    """Put the controls on a page of the browser, and wait until they are there."""
    page.set_content(page_html(shown, width, theme))
    page.wait_for_function("window.ready === true")


def put(page: Any, trait: str, value: Any) -> None:
    """Set a trait, as the kernel does."""
    page.evaluate("([trait, value]) => window.set(trait, value)", [trait, value])


def sent(page: Any) -> list[dict[str, Any]]:
    """The commands so far, without their numbers; all that waits is sent by then."""
    page.wait_for_timeout(120)
    commands = page.evaluate("window.sent")
    assert [command["seq"] for command in commands] == sorted({command["seq"] for command in commands})
    return [{name: value for name, value in command.items() if name != "seq"} for command in commands]


def with_knobs(seq: int, **knobs: Any) -> dict[str, Any]:
    """Values with some knobs turned, which have heard of the commands up to `seq`."""
    return {**VALUES, "seq": seq, "knobs": {**VALUES["knobs"], **knobs}}


def take_pictures(folder: Path) -> None:
    """One PNG for each state, width and theme."""
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        page = chromium.new_page(device_scale_factor=1.5)
        for state in STATES:
            for width in (320, 480, 1000):
                for theme in ("light", "dark"):
                    page.set_viewport_size({"width": width, "height": 400})
                    show(page, traits(state), width, theme)
                    page.screenshot(path=folder / f"{state}-{width}-{theme}.png", full_page=True)


def _read(name: str) -> str:
    return (_PANEL / name).read_text(encoding="utf-8")


def _as_script(value: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value).replace("<", "\\u003c")


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
