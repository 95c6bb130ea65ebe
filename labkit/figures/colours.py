"""Colours: one for each lane role, the same in every figure, and one for each run.

The lane colours differ by at least 18 ΔE (CIE 1976) from one another for normal sight and for the three
kinds of dichromacy (simulated after Machado, Oliveira and Fernandes, 2009), and stand at least 2.7 : 1
against white and 3 : 1 against a dark page; the tests check both.
"""

from labkit.schedule import ROLES

LANE_COLOURS = {
    "host": "#9C986F",
    "workers": "#E38019",
    "disk": "#CB1424",
    "net": "#6A3FF0",
    "h2d": "#2F9FF5",
    "compute": "#0B7A6F",
    "d2h": "#D17EBE",
}

RUN_COLOURS = ("#8E99AC", "#3F78D0", "#7F8F35", "#A0683F", "#4E8C95", "#9A5FB0", "#B0862F", "#6E7681")
"""A muted, B saturated, then those of a third and later run."""

GRADE_COLOURS = {"VALID": "#2E8B57", "WEAK": "#C08A1E", "INVALID": "#CB1424", "PREDICTED": "#6B7280"}

_SHADES = (0.0, 0.35, 0.6, 0.18, 0.75, 0.48)
_DARK_INK, _LIGHT_INK = "#16191D", "#FFFFFF"
_FLOW = ("host", "disk", "net", "workers", "h2d", "compute", "d2h")


def role_of(lane: str) -> str:
    """The role of a lane: `compute1` is of the role `compute`. A lane of no known role counts as the host's."""
    role = lane if lane in ROLES else lane.rstrip("0123456789")
    return role if role in LANE_COLOURS else "host"


def lane_colour(lane: str) -> str:
    """The colour of a lane, `#rrggbb`."""
    return LANE_COLOURS[role_of(lane)]


def lane_order(lane: str) -> tuple[int, str]:
    """Sort key: the host first, then in the order in which a batch passes through the machine."""
    return _FLOW.index(role_of(lane)), lane


def run_colour(slot: int) -> str:
    """The colour of the run in a slot: 0 is A, 1 is B."""
    return RUN_COLOURS[slot % len(RUN_COLOURS)]


def shade(colour: str, index: int) -> str:
    """The colour itself for index 0, then lighter ones of the same hue (darker ones would vanish on a dark page)."""
    amount = _SHADES[index % len(_SHADES)]
    parts = [round(part + (255 - part) * amount) for part in _parts(colour)]
    return "#{:02X}{:02X}{:02X}".format(*parts)


def with_alpha(colour: str, alpha: float) -> str:
    """The colour as `rgba(…)`: it lets the page shine through, so it suits a light page and a dark one."""
    red, green, blue = _parts(colour)
    return f"rgba({red},{green},{blue},{alpha:g})"


def ink_on(colour: str) -> str:
    """The ink, dark or white, that is easier to read on a colour."""
    luminance = relative_luminance(colour)
    return _DARK_INK if (luminance + 0.05) / 0.06 > 1.05 / (luminance + 0.05) else _LIGHT_INK


def relative_luminance(colour: str) -> float:
    """Relative luminance, 0 black to 1 white (WCAG 2.1, from IEC 61966-2-1)."""
    linear = [_linear(part / 255) for part in _parts(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _parts(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
