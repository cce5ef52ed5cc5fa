"""Pictures of figures. A run draws them in a process of its own, while its kernels compute: `python -m kvmodel.report.draw FOLDER`, until its stdin ends."""

import json
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select

from kvmodel import __version__
from kvmodel.report import cite, theme
from kvmodel.report.execute import helper
from kvmodel.report.folder import write
from kvmodel.report.publish import write_folder
from kvmodel.report.record import FigureRecord

LEAST = {"data": {"values": [{}]}, "mark": "point"}
PAUSE = 0.05  # seconds between two looks


def foot(record: FigureRecord) -> str:
    """Return the line inside the picture: id, version, parameters, who made the data."""
    return f"{record.id} · v{__version__} · p:{record.parameters_hash} · data: {cite.producers(record)}"


def svg(record: FigureRecord) -> str:
    """Return the static picture, with its foot line."""
    import vl_convert  # only where pictures are drawn

    return theme.plate(vl_convert.vegalite_to_svg(json.dumps(record.spec)), foot(record))


def draw(record: FigureRecord, figures: Path) -> None:
    """Write the folder of a figure below `figures`; where a run draws beside its kernels, leave it to that."""
    todo = figures.parent / "todo"
    if todo.is_dir():
        write(todo / record.id, pickle.dumps(record))
    else:
        save(record, figures)


def save(record: FigureRecord, figures: Path) -> None:
    """Draw a figure and write its folder below `figures`."""
    import vl_convert

    picture = svg(record)
    write_folder(record, picture, vl_convert.svg_to_png(picture, scale=2), figures)


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
    todo, ended, left = figures.parent / "todo", False, True
    while left or not ended:
        ended = ended or bool(select([sys.stdin], [], [], PAUSE)[0])
        left = sorted(path for path in todo.iterdir() if not path.name.startswith("."))
        for path in left:
            save(pickle.loads(path.read_bytes()), figures)
            path.unlink()
    todo.rmdir()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
