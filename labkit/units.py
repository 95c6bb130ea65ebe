"""Units: integers of nanoseconds and bytes inside, one formatter at the edge. Imports nothing of labkit.

Inside labkit a time is an integer number of nanoseconds and its name ends in `_ns`; a size is an integer
number of bytes. People read the output of the functions below, and of nothing else.
"""

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

ABSENT = "–"

_TIMES = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs"), (1, "ns"))
_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_SI = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def seconds_to_ns(seconds: float) -> int:
    """Seconds as integer nanoseconds, rounded to the nearest."""
    return round(seconds * NS_PER_S)


def format_time(ns: float | None, digits: int = 3) -> str:
    """A time for people, `1.23 ms`, with `digits` significant digits; `–` where it is absent."""
    if ns is None:
        return ABSENT
    scale, unit = next(((s, u) for s, u in _TIMES if abs(ns) >= s), (1, "ns"))
    return f"{significant(ns / scale, digits)} {unit}"


def format_bytes(size: float | None, digits: int = 3) -> str:
    """A size for people in binary units, `1.5 GiB`; `–` where it is absent."""
    if size is None:
        return ABSENT
    scale, unit = next(((s, u) for s, u in _BYTES if abs(size) >= s), (1, "B"))
    return f"{significant(size / scale, digits)} {unit}"


def format_rate(value: float | None, unit: str, digits: int = 3) -> str:
    """A quantity for people with an SI prefix, `12.3 Gflop/s`; `–` where it is absent."""
    if value is None:
        return ABSENT
    scale, prefix = next(((s, p) for s, p in _SI if abs(value) >= s), (1.0, ""))
    return f"{significant(value / scale, digits)} {prefix}{unit}"


def format_percent(share: float | None) -> str:
    """A share (0 to 1) as whole percent; `–` where it is absent, one decimal below 10 %."""
    if share is None:
        return ABSENT
    percent = 100 * share
    return f"{percent:.1f} %" if abs(percent) < 9.95 else f"{percent:.0f} %"


def significant(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits and no exponent for ordinary magnitudes."""
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    return f"{value:.0f}" if abs(value) >= 1 else text
