"""The palettes, measured: contrast on white and least distance for every kind of colour vision; and the plate of a picture."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from colorspacious import cspace_convert, deltaE

from kvmodel.report import theme
from kvmodel.report.theme import CATEGORY_COLOURS, FOOT_SIZE, TIER_COLOURS, plate, wrap

VISION = [None, "deuteranomaly", "protanomaly", "tritanomaly"]


def rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)])


def luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb(colour)]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def seen(colour: str, vision: str | None) -> np.ndarray:
    if vision is None:
        return rgb(colour)
    return np.clip(cspace_convert(rgb(colour), {"name": "sRGB1+CVD", "cvd_type": vision, "severity": 100}, "sRGB1"), 0, 1)


@pytest.mark.parametrize("colour", [*TIER_COLOURS, *CATEGORY_COLOURS])
def test_marks_stand_out_from_the_plate(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 3


@pytest.mark.parametrize("colour", [theme.INK, theme.QUIET])
def test_text_can_be_read(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 4.5


@pytest.mark.parametrize("vision", VISION)
def test_categories_differ_for_everyone(vision: str | None) -> None:
    least = min(deltaE(seen(a, vision), seen(b, vision), input_space="sRGB1") for a, b in combinations(CATEGORY_COLOURS, 2))
    assert least >= 20


@pytest.mark.parametrize("vision", VISION)
def test_neighbouring_tiers_differ_for_everyone_and_in_grey(vision: str | None) -> None:
    assert min(deltaE(seen(a, vision), seen(b, vision), input_space="sRGB1") for a, b in pairwise(TIER_COLOURS)) >= 10
    lightness = [cspace_convert(rgb(c), "sRGB1", "CAM02-UCS")[0] for c in TIER_COLOURS]
    assert lightness == sorted(lightness), "near to far is dark to light"


def test_the_plate_holds_the_picture_and_its_foot_line() -> None:
    picture = '<svg width="400" height="100" viewBox="0 0 400 100"><g id="chart"/></svg>'
    foot = "id · v1 · data: " + "a long producer & co, " * 8
    drawn = plate(picture, foot)
    lines = wrap(foot, 400 - 16, FOOT_SIZE)
    assert len(lines) > 1
    assert drawn.count("<text") == len(lines)
    assert "&amp; co" in drawn
    assert drawn.count("<svg") == drawn.count("</svg>") == 1
    assert '<g id="chart"/>' in drawn
    assert 'width="400"' in drawn[:200]


def test_labels_are_large_enough_for_a_phone() -> None:
    config = theme.config()
    assert config["axis"]["labelFontSize"] == config["legend"]["labelFontSize"] == config["text"]["fontSize"] == 14
    assert config["background"] == "#ffffff"
