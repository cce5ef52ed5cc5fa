"""Figures: what they refuse, what they show, what they write."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest

from kvmodel.report import cells, checks
from kvmodel.report.cells import chapter
from kvmodel.report.figure import ROWS_SHOWN, Figure, csv_bytes
from kvmodel.report.record import MIME
from kvmodel.units import KvError

SOURCES = ["amd-rocm-gpu-specs", "aiwiki-mi355x"]
DATA = pd.DataFrame({"tokens": [1, 1000, 10**6], "kv_bytes": [327680, 327680000, 327680000000], "name": ["a <b>", 'c "d"', "e & f"]})
COLUMNS = {"tokens": ("tokens", "context"), "kv_bytes": ("bytes", "KV cache"), "name": ("", "model")}
GOOD: dict[str, Any] = {"title": "A finding", "alt": "Dots of KV cache over context.", "caption": "What is drawn.", "columns": COLUMNS, "sources": SOURCES}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    chapter("kv-size", users=1)
    yield
    cells.current.begin("", {}, {})


def dots(data: pd.DataFrame = DATA, **scale: Any) -> alt.Chart:
    return alt.Chart(data).mark_point().encode(x=alt.X("tokens:Q", title="Tokens"), y=alt.Y("kv_bytes:Q", title="Bytes", scale=alt.Scale(**scale)))


def figure(id: str = "some-figure", chart: Any = None, data: pd.DataFrame = DATA, **changed: Any) -> Figure:
    return Figure(id, dots(data) if chart is None else chart, data, **(GOOD | changed))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"id": "No-Capitals"}, "figure id: 'No-Capitals'"),
        ({"id": "ab"}, "3 to 41"),
        ({"id": "a" * 42}, "3 to 41"),
        ({"id": "1-first"}, "a letter first"),
        ({"alt": ""}, "alt of 0 characters"),
        ({"alt": "  \n "}, "alt of 0 characters"),
        ({"alt": "x" * 251}, "alt of 251 characters"),
        ({"alt": "a FINDING."}, "repeats the title"),
        ({"title": " "}, "empty title"),
        ({"caption": ""}, "empty title or caption"),
        ({"sources": []}, "at least one"),
        ({"sources": "amd-rocm-gpu-specs"}, "a list"),
        ({"sources": ["amd-rocm-gpu-spec"]}, "nearest: 'amd-rocm-gpu-specs'"),
        ({"columns": {k: v for k, v in COLUMNS.items() if k != "name"}}, "of every column"),
        ({"columns": COLUMNS | {"more": ("", "m")}}, "of every column"),
        ({"columns": COLUMNS | {"tokens": ("", "context")}}, "column tokens"),
        ({"columns": COLUMNS | {"name": ("", "")}}, "column name"),
        ({"columns": COLUMNS | {"name": "model"}}, "column name"),
        ({"data": DATA.head(0)}, "no rows"),
        ({"processing": "some"}, "processing"),
        ({"chart": dots().properties(title="own")}, "title"),
        ({"chart": dots().configure_axis(labelFontSize=3)}, "configuration of its own"),
    ],
)
def test_is_refused_with_the_reason(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(KvError) as caught:
        figure(**changed)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not cells.current.figures, "a refused figure leaves its id free"


def test_an_id_is_used_once_and_free_again_in_the_next_chapter() -> None:
    figure()
    with pytest.raises(KvError, match="used already"):
        figure()
    chapter("serving")
    figure()


X, XLOG, Y, YLOG = "tokens:Q", alt.X("tokens:Q", scale=alt.Scale(type="log")), "kv_bytes:Q", alt.Y("kv_bytes:Q", scale=alt.Scale(type="log"))
BASE = alt.Chart(DATA)
LOGDOTS = BASE.mark_point().encode(y=YLOG, x=X)


@pytest.mark.parametrize(
    "chart",
    [
        BASE.mark_bar().encode(x="name:N", y=YLOG),
        BASE.mark_bar().encode(y="name:N", x=XLOG),
        BASE.mark_area().encode(x=X, y=YLOG),
        BASE.mark_area().encode(x=XLOG, y=YLOG),
        BASE.mark_bar(orient="horizontal").encode(x=XLOG, y=Y),
        BASE.mark_bar().encode(x=alt.X("tokens:Q", bin=True), y=YLOG),
        BASE.mark_bar().encode(x="name:N", y=alt.Y("sum(kv_bytes):Q", scale=alt.Scale(type="log", domain=[1, 1e12]))),
        alt.layer(LOGDOTS, BASE.mark_bar().encode(x="name:N", y=Y)),  # layers share the scale
        alt.layer(BASE.mark_bar(), BASE.mark_text()).encode(x="name:N", y=YLOG),
        alt.vconcat(dots(), BASE.mark_bar().encode(x="name:N", y=YLOG)),
        alt.hconcat(dots(), alt.layer(LOGDOTS, BASE.mark_area().encode(x=X, y=Y))),
        BASE.mark_bar().encode(x="name:N", y=YLOG).facet("name:N"),
    ],
)
def test_a_bar_that_would_be_invisible_is_refused(chart: Any) -> None:
    with pytest.raises(KvError, match="without a baseline"):
        figure(chart=chart)


@pytest.mark.parametrize(
    "chart",
    [
        BASE.mark_bar().encode(x="name:N", y=YLOG, y2=alt.datum(1)),
        BASE.mark_bar().encode(y="name:N", x=XLOG, x2="kv_bytes"),
        BASE.mark_bar().encode(x="name:N", y=Y),
        BASE.mark_bar().encode(x=XLOG, y=Y),  # its length is linear
        BASE.mark_area().encode(x=XLOG, y=Y),
        BASE.mark_line().encode(x=XLOG, y=YLOG),
        BASE.mark_rule().encode(x="name:N", y=YLOG, y2="tokens"),
        BASE.mark_bar().encode(x="name:N", y=alt.Y("kv_bytes:Q", scale=alt.Scale(type="symlog"))),
        alt.layer(LOGDOTS, BASE.mark_bar().encode(x="name:N", y=Y)).resolve_scale(y="independent"),
        alt.hconcat(LOGDOTS, BASE.mark_bar().encode(x="name:N", y=Y)),
    ],
)
def test_other_marks_and_scales_are_drawn(chart: Any) -> None:
    assert figure(chart=chart).markdown()


def test_characters_without_a_font_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "cjk_font", lambda: False)
    for changed in ({"title": "近内存 is small"}, {"chart": dots().encode(x=alt.X("tokens:Q", title="词元"))}):
        with pytest.raises(KvError, match="font"):
            figure(**changed)
    named = DATA.assign(name=["近", "b", "c"])
    with pytest.raises(KvError, match="font"):
        figure(data=named, chart=dots(named).encode(text="name:N"))
    figure(data=named)  # not drawn
    monkeypatch.setattr(checks, "cjk_font", lambda: True)
    figure("other-figure", title="近内存 is small")


def test_output_is_one_directive_with_live_alt_caption_bar_and_table() -> None:
    made = figure(title="A & B <c>", alt='Dots: "y" # x \\ {z}.', caption="Two\nlines with $x_1$.")
    data, _ = made._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/markdown", MIME}
    assert data["text/plain"] == f"<Figure some-figure p:{cells.current.hash}>"
    text = data["text/markdown"]
    assert text.startswith(":::{figure} ../_figures/figures/some-figure/some-figure.*\n:name: fig-some-figure\n")
    assert text.endswith("\n:::")
    assert 'alt: "Dots: \\"y\\" # x \\\\ {z}."\n' in text
    assert "Two lines with $x_1$.\n" in text
    assert [word for word in ("SVG", "PNG", "CSV", "Spec", "Cite", "Source") if f">{word}<span" in text] == ["SVG", "PNG", "CSV", "Spec", "Cite", "Source"]
    assert "default parameters" in text
    assert "<td>a &lt;b&gt;</td>" in text
    assert text.count("<th scope=") == len(COLUMNS)
    assert "A &amp; B &lt;c&gt;" in text
    assert data[MIME]["data_sha256"] == made.record.data_sha256
    json.dumps(data)


def test_a_long_table_is_cut_and_says_so() -> None:
    long = pd.concat([DATA] * 40, ignore_index=True)
    text = figure(data=long, chart=dots(long)).markdown()
    assert text.count("<tr><td") == ROWS_SHOWN
    assert f"the first {ROWS_SHOWN} of 120 rows" in text


def test_changed_parameters_are_named() -> None:
    chapter("kv-size", model="llama-3.3-70b", context_tokens=2_000_000, users=1, kv_dtype="bf16")
    made = figure()
    assert "context_tokens = 2,000,000" in made.markdown()
    assert made.record.parameters["context_tokens"].default == 100_000


def test_csv_is_the_same_on_every_machine() -> None:
    dates = pd.to_datetime(["2024-06-30", None, "2024-01-01T12", "2020-02-29"], format="ISO8601")
    odd = pd.DataFrame({
        "n": np.array([1, 2**53 + 1, -3, 4]), "x": [0.1 + 0.2, -0.0, np.nan, 1e300], "f": np.array([0.5, np.nan, 1, 2], "float32"),
        "b": [True, False, True, False], "t": ["a,b", 'q"q', "line\nend", None], "d": dates,
    })  # fmt: skip
    assert csv_bytes(odd).decode() == (
        "n,x,f,b,t,d\n"
        '1,0.3,0.5,true,"a,b",2024-06-30\n'
        '9007199254740993,0,,false,"q""q",\n'
        '-3,,1,true,"line\nend",2024-01-01T12:00:00\n'
        "4,1e+300,2,false,,2020-02-29\n"
    )


SCRIPT = """
import sys; sys.path.insert(0, {here!r})
import test_figure as t
t.chapter("kv-size", users=1)
t.figure()._repr_mimebundle_()
"""


def test_files_are_the_same_bytes_from_run_to_run(tmp_path: Path) -> None:
    seen = []
    for n in range(2):
        environment = os.environ | {"KVMODEL_BUILD": str(tmp_path / str(n)), "PYTHONHASHSEED": str(n)}
        script = SCRIPT.format(here=str(Path(__file__).parent))
        subprocess.run([sys.executable, "-c", script], env=environment, check=True)
        files = sorted(p for p in (tmp_path / str(n)).rglob("*") if p.is_file())
        seen.append({p.relative_to(tmp_path / str(n)).as_posix(): p.read_bytes() for p in files})
    assert seen[0] == seen[1]
    names = ["figure.json", *(f"some-figure.{suffix}" for suffix in ("svg", "png", "csv", "vl.json"))]
    assert set(seen[0]) == {f"_figures/figures/some-figure/{name}" for name in names} | {"_figures/live/some-figure.js"}
    svg, png = (seen[0][f"_figures/figures/some-figure/some-figure.{s}"] for s in ("svg", "png"))
    assert b' role="img"' in svg[:500]
    assert b"<title>A finding</title><desc>Dots of KV cache over context.</desc><metadata>" in svg
    assert b"some-figure \xc2\xb7 v2026" in svg, "the foot line names id and version"
    assert b"data: AMD (2026), AI Wiki (2025)" in svg
    width, height = struct.unpack(">II", png[16:24])
    assert 900 < width < 1060
    assert height > 300
    assert b"iTXtTitle" in png


def test_an_open_notebook_shows_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvmodel.report.figure.interactive", lambda: True)
    data, _ = figure()._repr_mimebundle_()
    assert data["text/html"].startswith('<figure><img alt="Dots of KV cache over context." src="data:image/svg+xml;base64,')
    figure()  # a person may run a cell again
