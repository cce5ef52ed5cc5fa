"""How charts look: one theme, the palettes, and the picture with its title above and its foot line below."""

import re
from html import escape
from typing import Any

TIER_COLOURS = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187")  # near to far, one order everywhere
CATEGORY_COLOURS = ("#26703d", "#c4018f", "#3586ff", "#be7c8a", "#7d9a0e")
INK, QUIET, GRID = "#1a1a1a", "#595959", "#e3e3e3"
FONT = "DejaVu Sans, Verdana, sans-serif"
WIDTH = 480  # of a whole picture: 14 px labels are still 10 px on a phone
FOOT_SIZE, FOOT_LINE = 10.5, 14
_LETTER = 0.56  # mean width of a letter of this font, in font sizes; bold is 10 % wider


def config() -> dict[str, Any]:
    """Return the Vega-Lite configuration of every chart: white plate, named font, labels of 14 px, quiet grid, tooltips in the live view."""
    text = {"labelFontSize": 14, "titleFontSize": 14, "labelColor": INK, "titleColor": INK, "labelFont": FONT, "titleFont": FONT, "titleFontWeight": "normal"}
    return {
        "background": "#ffffff",
        "padding": 8,
        "font": FONT,
        "view": {"stroke": None, "continuousWidth": 340, "continuousHeight": 260},
        "axis": text | {"gridColor": GRID, "domainColor": QUIET, "tickColor": QUIET, "labelLimit": 260, "titlePadding": 8},
        "legend": text | {"labelLimit": 320, "symbolSize": 110, "orient": "bottom", "columns": 2},
        "header": text,
        "title": {"fontSize": 16, "font": FONT, "color": INK, "anchor": "start", "frame": "bounds", "offset": 12},
        "text": {"fontSize": 14, "font": FONT, "color": INK},
        "point": {"size": 80, "filled": True},
        "line": {"strokeWidth": 2.5},
        "mark": {"tooltip": True},
        "range": {"category": list(CATEGORY_COLOURS)},
    }  # fmt: skip


def wrap(text: str, pixels: float, size: float, *, bold: bool = False) -> list[str]:
    """Return the text in lines of at most `pixels`, by the mean width of a letter.

    Examples
    --------
    >>> wrap("one request outgrows a node", 120, 14)
    ['one request', 'outgrows a node']
    """
    room = max(8, int(pixels / (size * _LETTER * (1.1 if bold else 1.0))))
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def plate(svg: str, foot: str) -> str:
    """Return the picture on a white plate with the foot line below it: what a picture says of itself when it is pasted into a slide."""
    start, body = svg.index("<svg"), svg.index(">", svg.index("<svg")) + 1
    width, height = (float(re.findall(rf'\s{side}="([\d.]+)', svg[start:body])[0]) for side in ("width", "height"))
    lines = wrap(foot, width - 16, FOOT_SIZE)
    whole = height + len(lines) * FOOT_LINE + 4
    style = f'font-family="{FONT}" font-size="{FOOT_SIZE}" fill="{QUIET}"'
    texts = "".join(f'<text x="8" y="{height + (n + 0.7) * FOOT_LINE:g}" {style}>{escape(line)}</text>' for n, line in enumerate(lines))
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head = f'<svg {spaces} width="{width:g}" height="{whole:g}" viewBox="0 0 {width:g} {whole:g}">'
    inside = svg[body : svg.rindex("</svg>")]  # no picture in a picture: it would take twice as long to draw
    return f'{head}<rect width="{width:g}" height="{whole:g}" fill="#ffffff"/>{inside}{texts}</svg>'
