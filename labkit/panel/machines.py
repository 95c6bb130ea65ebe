"""What-if: the figures of a simulated machine that the panel lets people turn, and the machine that comes of it.

The sliders are drawn from `SLIDERS`; what was turned arrives as {figure: value}, in the figure's own unit, and `apply` makes the
machine to simulate. Its label names what was changed, so that no figure or record takes it for the real one.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite

from labkit.device.machine import Machine
from labkit.errors import MachineError
from labkit.panel.control_spec import MachinePreset, MachineSlider
from labkit.units import significant

SOURCE = "what-if: set in the panel"

_LINK, _BACK, _PAGEABLE = "link_h2d_bytes_per_s", "link_d2h_bytes_per_s", "link_pageable_bytes_per_s"
_STAGED_SHARE = 0.5
"""Of the pinned rate, what a copy from pageable memory reaches at most: the driver stages it (as in the shipped machines)."""

_G, _T = 1e9, 1e12

TWO_COPY_ENGINES = 2.0
"""What the simulator takes where a machine does not give their number: each direction has its own."""

SLIDERS: tuple[MachineSlider, ...] = (
    MachineSlider(_LINK, "link", "GB/s", _G, 10, 450, log=True),  # PCIe 3.0 x16 … NVLink-C2C
    MachineSlider("copy_engines", "copy engines", "", 1, 1, 2, log=False, whole=True),
    MachineSlider("cores", "cores", "", 1, 1, 128, log=True, whole=True),
    MachineSlider("gpu_flop_per_s", "16-bit peak", "TFLOP/s", _T, 20, 2500, log=True),  # T4 65 … Blackwell
    MachineSlider("gpu_fp32_flop_per_s", "fp32 peak", "TFLOP/s", _T, 4, 1250, log=True),
    MachineSlider("hbm_bytes_per_s", "GPU memory rate", "TB/s", _T, 0.2, 10, log=True),  # L4 0.3 … HBM3e 8
    MachineSlider("gpu_memory_bytes", "GPU memory", "GB", _G, 0.5, 300, log=True),
)
"""Figures that a prediction depends on. GPU memory is where a prediction ends: an op that does not fit fails."""

_BY_FIGURE = {slider.figure: slider for slider in SLIDERS}
_OF_ANY_KIND = {_LINK, "copy_engines", "cores"}
"""What acts where compute is threads of the host, too."""


PRESETS: tuple[MachinePreset, ...] = (
    MachinePreset("PCIe 3 ×16", {_LINK: 12.2e9}, "gearshifft pull request 82: pinned copies on a P100"),
    MachinePreset("PCIe 4 ×16", {_LINK: 26.0e9}, "nvbandwidth README, sample output: pinned copies on an A100"),
    MachinePreset("PCIe 5 ×16", {_LINK: 55.4e9}, "DeepSpeed pull request 8283: pinned copies on an H200"),
    MachinePreset(
        "NVLink-C2C",
        {_LINK: 375.0e9, _BACK: 297.0e9},
        "Schieffer et al., Harnessing Integrated CPU-GPU System Memory for HPC, 2024 (arXiv 2407.07850): copies on a GH200",
    ),
    MachinePreset("one copy engine", {"copy_engines": 1}, "a what-if: no GPU in particular"),
)


def preset_of(name: str) -> MachinePreset:
    """The preset of this name. Raises MachineError with the names that there are."""
    found = next((preset for preset in PRESETS if preset.name == name), None)
    if found is None:
        raise MachineError(f"there is no machine preset {name!r}; there are: {', '.join(preset.name for preset in PRESETS)}")
    return found


def sliders_of(machine: Machine) -> tuple[MachineSlider, ...]:
    """The sliders that act on a machine: where compute is threads, figures of a GPU do not."""
    return tuple(slider for slider in SLIDERS if machine.kind == "cuda" or slider.figure in _OF_ANY_KIND)


def values_on(machine: Machine) -> dict[str, float]:
    """Where each slider that acts on the machine stands: figure → its value, or what the simulator takes where there is none."""
    values = {slider.figure: machine.get(slider.figure) for slider in sliders_of(machine)}
    values["copy_engines"] = values["copy_engines"] or TWO_COPY_ENGINES
    return {figure: value for figure, value in values.items() if value is not None}


def apply(machine: Machine, changes: Mapping[str, float]) -> Machine:
    """The machine with these figures changed. Its label names them: `H200 (changed: link 32 GB/s)`.

    changes  figure → value in the figure's own unit; a value that the machine has already is no change

    Raises MachineError: which figure, which value, what is allowed.
    """
    figures = figures_set(machine, changes)
    if not figures:
        return machine
    changed = machine.with_figures(SOURCE, **figures)
    return replace(changed, label=f"{machine.label} (changed: {_list(machine, changes)})")


def together(before: Mapping[str, float], figures: Mapping[str, float]) -> dict[str, float]:
    """Changes with further ones: the link's slider sets both directions, so a rate of the way back from before goes."""
    kept = {figure: value for figure, value in before.items() if not (figure == _BACK and _LINK in figures)}
    return {**kept, **figures}


def changes_between(machine: Machine, figures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The changes that `apply` would need to make the machine have these figures (as in its record), as far as sliders can."""
    changes = {}
    for figure in (*(slider.figure for slider in sliders_of(machine)), _BACK):
        value = figures[figure]["value"] if figure in figures else None
        if value is not None and value != machine.get(figure):
            changes[figure] = value
    if changes.get(_BACK) == changes.get(_LINK):
        changes.pop(_BACK, None)  # the link's slider sets both
    return changes


def changed_words(machine: Machine, changes: Mapping[str, float]) -> str:
    """`H200 with link 32 GB/s, cores 8`; the label alone where nothing is changed. Raises MachineError as `apply` does."""
    words = _list(machine, changes)
    return f"{machine.label} with {words}" if words else machine.label


def figures_set(machine: Machine, changes: Mapping[str, float]) -> dict[str, float]:
    """Every figure that `apply` sets, in its own unit. Raises MachineError as `apply` does.

    The rate of the link counts for both directions unless that of the way back is given, and copies from pageable memory are
    held to what the link leaves them.
    """
    figures = _checked(machine, changes)
    if _LINK in figures:
        figures.setdefault(_BACK, figures[_LINK])
        figures |= _pageable(machine, figures[_LINK])
    return figures


def _checked(machine: Machine, changes: Mapping[str, float]) -> dict[str, float]:
    """What differs from the machine, each value looked at."""
    acting = {slider.figure for slider in sliders_of(machine)}
    for figure, value in changes.items():
        slider = _BY_FIGURE[_LINK] if figure == _BACK else _BY_FIGURE.get(figure)
        if slider is None:
            raise MachineError(f"the panel changes no figure '{figure}'; it changes: {', '.join((*_BY_FIGURE, _BACK))}")
        if slider.figure not in acting:
            raise MachineError(f"'{figure}' cannot act on {machine.label}: there, threads of the host compute; leave it out")
        _check_value(figure, value, slider)
    return {figure: float(value) for figure, value in changes.items() if value != machine.get(figure)}


def _check_value(figure: str, value: float, slider: MachineSlider) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    shown = value / slider.scale if number else 0.0
    inside = number and slider.low * (1 - 1e-9) <= shown <= slider.high * (1 + 1e-9)
    if not inside or (slider.whole and not float(shown).is_integer()):
        kind = "whole number, " if slider.whole else ""
        low, high = f"{slider.low * slider.scale:g}", f"{slider.high * slider.scale:g}"
        raise MachineError(f"{figure}={value!r} is not allowed; allowed: {kind}{low} to {high}")


def _pageable(machine: Machine, rate: float) -> dict[str, float]:
    """What a new link leaves to copies from pageable memory: never more than now, and never more of the link than now, or half."""
    now, pinned = machine.get(_PAGEABLE), machine.get(_LINK)
    if now is None:
        return {}
    share = max(_STAGED_SHARE, now / pinned if pinned else 0.0)
    return {_PAGEABLE: rate * share} if rate * share < now else {}


def _list(machine: Machine, changes: Mapping[str, float]) -> str:
    """`link 32 GB/s, cores 8`, in the order of the sliders."""
    figures = _checked(machine, changes)
    return ", ".join(_words(slider, figures) for slider in SLIDERS if slider.figure in figures or _back_alone(slider, figures))


def _words(slider: MachineSlider, figures: Mapping[str, float]) -> str:
    forth = figures.get(slider.figure)
    words = "" if forth is None else f"{slider.label} {significant(forth / slider.scale)} {slider.unit}".strip()
    back = figures.get(_BACK) if slider.figure == _LINK else None
    if back is None or back == forth:
        return words
    return f"{words or slider.label} (back {significant(back / slider.scale)} {slider.unit})"


def _back_alone(slider: MachineSlider, figures: Mapping[str, float]) -> bool:
    return slider.figure == _LINK and _BACK in figures
