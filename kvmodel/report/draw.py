"""Pictures of figures. A run draws them in a process of its own, while its kernels compute: `python -m kvmodel.report.draw FOLDER`, until its stdin ends."""

import json
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any

from kvmodel import __version__
from kvmodel.report import cite, theme
from kvmodel.report.execute import helper
from kvmodel.report.folder import write
from kvmodel.report.publish import write_folder
from kvmodel.report.record import FigureRecord

LEAST = {"data": {"values": [{}]}, "mark": "point"}
PAUSE = 0.02  # seconds between two looks


def foot(record: FigureRecord) -> str:
    """Return the line inside the picture: id, version, parameters, who made the data."""
    return f"{record.id} · v{__version__} · p:{record.parameters_hash} · data: {cite.producers(record)}"


def svg(record: FigureRecord) -> str:
    """Return the static picture, with its foot line."""
    import vl_convert  # only where pictures are drawn

    return theme.plate(vl_convert.vegalite_to_svg(json.dumps(record.spec)), foot(record))


def draw(record: FigureRecord, figures: Path) -> None:
    """Write the folder of a figure below `figures`, and the script of its live chart beside it; where a run draws beside its kernels, leave it to that."""
    todo = figures.parent / "todo"
    if todo.is_dir():
        write(todo / record.id, pickle.dumps(record))
    else:
        save(record, figures)


def save(record: FigureRecord, figures: Path) -> None:
    """Draw a figure and write its files, now."""
    import vl_convert

    picture = svg(record)
    write_folder(record, picture, vl_convert.svg_to_png(picture, scale=2), figures)
    scripts = figures.parent / "live"
    scripts.mkdir(exist_ok=True)
    spec = json.dumps(live(record.spec), ensure_ascii=False, sort_keys=True)
    (scripts / f"{record.id}.js").write_text(f"kvFigure({json.dumps(record.id)}, {spec});\n", "utf-8")


def live(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification as a reader explores it: with zoom and pan, where it is one view with two continuous axes."""
    spec = dict(spec)
    marks: list[dict[str, Any]] = list(spec.get("layer", [spec] if "mark" in spec else []))
    drawn = [spec.get("encoding", {}) | mark.get("encoding", {}) for mark in marks]
    first = next((n for n, mark in enumerate(marks) if "mark" in mark), None)
    if first is None or not all(any(e.get(side, {}).get("type") == "quantitative" for e in drawn) for side in ("x", "y")):
        return spec
    zoom = {"params": [{"name": "zoom", "select": {"type": "interval", "encodings": ["x", "y"]}, "bind": "scales"}, *marks[first].get("params", [])]}
    return spec | {"layer": [*marks[:first], marks[first] | zoom, *marks[first + 1 :]]} if "layer" in spec else spec | zoom


@contextmanager
def beside(figures: Path) -> Iterator[None]:
    """Draw all figures that are left in `figures` while the context lasts, in another process.

    Raises
    ------
    RunError : a figure could not be drawn
    """
    (figures.parent / "todo").mkdir(parents=True)
    with helper("draw", str(figures)) as finish:
        yield
        finish("")


def main(figures: Path) -> None:
    """Draw what comes into the folder `todo` beside `figures`, until stdin ends."""
    import vl_convert

    vl_convert.vegalite_to_svg(json.dumps(LEAST))  # half a second, the first time
    todo, ended = figures.parent / "todo", False
    left: list[Path] = []
    while left or not ended:
        ended = ended or bool(select([sys.stdin], [], [], PAUSE)[0])
        left = sorted(path for path in todo.iterdir() if not path.name.startswith("."))
        for path in left:
            save(pickle.loads(path.read_bytes()), figures)
            path.unlink()
    todo.rmdir()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
