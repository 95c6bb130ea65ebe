"""Quantities of the monitor: what a unit measures, the units that people write limits in, and a value as text.

`rule.py` compares in a metric's own unit, `alerts.py` speaks in the unit of the rule, `strip.py` shows readings.
"""

from labkit.units import format_bytes, format_rate, format_time, significant

SHARE = "share"

WRITTEN: dict[str, tuple[str, float]] = {
    "%": (SHARE, 0.01),
    "share": (SHARE, 1.0),
    "ns": ("ns", 1.0),
    "us": ("ns", 1e3),
    "µs": ("ns", 1e3),
    "ms": ("ns", 1e6),
    "s": ("ns", 1e9),
    "items/s": ("items/s", 1.0),
    "bytes": ("bytes", 1.0),
    "kB": ("bytes", 1e3),
    "MB": ("bytes", 1e6),
    "GB": ("bytes", 1e9),
    "KiB": ("bytes", 2.0**10),
    "MiB": ("bytes", 2.0**20),
    "GiB": ("bytes", 2.0**30),
    "bytes/s": ("bytes/s", 1.0),
    "kB/s": ("bytes/s", 1e3),
    "MB/s": ("bytes/s", 1e6),
    "GB/s": ("bytes/s", 1e9),
    "W": ("W", 1.0),
    "J": ("J", 1.0),
    "kJ": ("J", 1e3),
    "Hz": ("Hz", 1.0),
    "MHz": ("Hz", 1e6),
    "GHz": ("Hz", 1e9),
    "°C": ("°C", 1.0),
    "C": ("°C", 1.0),
}
"""A unit that may be written → the unit that it scales to, and how many of those it is."""


def plain_unit(unit: str) -> str:
    """A sensor's unit without its explanation: "share" for "share of all cores"; a flag over time is a share of it."""
    return SHARE if unit.startswith((SHARE, "1 while")) else unit


def written_units(unit: str) -> tuple[str, ...]:
    """The units that a person may write for a plain unit: "%" and "share" for "share"."""
    return tuple(written for written, (plain, _) in WRITTEN.items() if plain == unit)


def quantity_text(value: float, unit: str, digits: int = 3, written: str | None = None) -> str:
    """A value of a plain unit for people, with `digits` significant digits: in the unit `written`, or in one that reads well."""
    if written is not None:
        return f"{significant(value / WRITTEN[written][1], digits)} {written}"
    if unit == SHARE:
        return f"{significant(100 * value, digits)} %"
    if unit == "ns":
        return format_time(value, digits)
    if unit == "bytes":
        return format_bytes(value, digits)
    if unit == "bytes/s":
        return format_rate(value, "B/s", digits)
    if unit == "Hz":
        return format_rate(value, unit, digits)
    return f"{significant(value, digits)} {unit}"
