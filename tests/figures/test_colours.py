"""One colour a lane, that people with any colour sight can tell apart on a light page and on a dark one."""

from itertools import combinations

import numpy as np
import pytest

from labkit.figures.colours import (
    LANE_COLOURS,
    ink_on,
    lane_colour,
    lane_order,
    relative_luminance,
    role_of,
    shade,
    with_alpha,
)
from labkit.schedule import ROLES

DARK_PAGE = "#111111"

# Machado, Oliveira, Fernandes: "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009; severity 1.
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(a: str, b: str) -> float:
    lighter, darker = sorted((relative_luminance(a), relative_luminance(b)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_every_role_has_a_colour():
    assert set(LANE_COLOURS) == set(ROLES)


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_lanes_can_be_told_apart_with(sight: str):
    seen = {role: lab(SIGHTS[sight] @ linear(colour)) for role, colour in LANE_COLOURS.items()}
    nearest = min(combinations(seen, 2), key=lambda pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]))
    assert np.linalg.norm(seen[nearest[0]] - seen[nearest[1]]) >= 18, nearest


@pytest.mark.parametrize("role", LANE_COLOURS)
def test_a_lane_stands_out_from_a_light_page_and_from_a_dark_one(role: str):
    assert contrast(LANE_COLOURS[role], "#FFFFFF") >= 2.7
    assert contrast(LANE_COLOURS[role], DARK_PAGE) >= 3.0


def test_luminance_is_that_of_the_standard():
    assert relative_luminance("#FFFFFF") == pytest.approx(1.0)
    assert relative_luminance("#000000") == 0.0
    assert relative_luminance("#808080") == pytest.approx(0.2159, abs=1e-4)


@pytest.mark.parametrize("colour", [*LANE_COLOURS.values(), "#FFFFFF", "#000000"])
def test_ink_on_a_colour_can_be_read(colour: str):
    assert contrast(ink_on(colour), colour) >= 4.5


def test_a_second_lane_of_a_role_has_the_colour_of_its_role():
    assert role_of("compute1") == "compute"
    assert lane_colour("compute1") == lane_colour("compute") == "#0B7A6F"


def test_lanes_stand_in_the_order_of_a_batchs_way():
    lanes = ["compute", "d2h", "h2d", "host", "workers", "compute1", "disk"]
    assert sorted(lanes, key=lane_order) == ["host", "disk", "workers", "h2d", "compute", "compute1", "d2h"]


def test_the_shades_of_a_lane_differ_and_begin_with_its_own_colour():
    shades = [shade("#0B7A6F", index) for index in range(6)]
    assert shades[0] == "#0B7A6F"
    assert len(set(shades)) == 6


def test_alpha_keeps_the_colour():
    assert with_alpha("#0B7A6F", 0.5) == "rgba(11,122,111,0.5)"
