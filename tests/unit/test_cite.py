"""Citations: the texts, and that BibTeX and CSL-JSON mean the same to the tools that read them."""

import json
import re
import shlex
from dataclasses import replace

import pytest
from citeproc import Citation, CitationItem, CitationStylesBibliography, CitationStylesStyle, formatter
from citeproc.source.json import CiteProcJSON
from pybtex.database import parse_string

from kvmodel.report import cite
from kvmodel.report.parameters import parameters_hash
from kvmodel.report.record import BOOK, Edition, FigureRecord, Parameter, Source, from_meta
from kvmodel.units import KvError

HERE = Edition("2026.12.0", "0a1b2c3d4e5f")
PUBLIC = replace(HERE, base="https://kv.example.org/book/")
AGAIN = replace(PUBLIC, recomputed=True)
MICRON = Source("Micron 9650 SSD product brief", "Micron", "https://example.org/9650", "2026-02-03", "2026-11-01", "all rights reserved")
JEDEC = Source("HBM4 standard JESD270-4", "JEDEC", published="2025-04")
HARD = r"50% of #1 & co: {µ × 2} ~ x^2_i costs $3 \ 'a' <b>"
CSV = b'tier,bytes\nnear,1\n"far, away\nlake",2\n'


def figure(**changes: object) -> FigureRecord:
    parameters = {"model": Parameter("llama-3.3-70b", "llama-3.3-70b"), "context_tokens": Parameter(100_000, 100_000, "tokens", "context")}
    parameters |= changes.pop("parameters", {})
    digest = parameters_hash({name: p.value for name, p in parameters.items()})
    base = FigureRecord("tier-capacity", "One request outgrows a node", "kv-size", digest, "A caption.", "Dot plot.", {"bytes": ("bytes", "size")},
                        {"micron": MICRON, "jedec": JEDEC}, parameters, csv=CSV)  # fmt: skip
    return replace(base, **changes)


MORE = {"context_tokens": Parameter(2_000_000, 100_000, "tokens", "context")}


def test_inline_is_the_agreed_text() -> None:
    assert cite.inline(figure(), HERE) == f"{BOOK} (2026), fig. tier-capacity, v2026.12.0; data: Micron (2026), JEDEC (2025) – with major processing."


def test_full_is_the_agreed_text_and_carries_the_whole_data_hash_where_there_is_no_address() -> None:
    f = figure()
    based = 'Based on: Micron, "Micron 9650 SSD product brief", 2026; JEDEC, "HBM4 standard JESD270-4", 2025 – with major processing. Licence CC BY 4.0.'
    head = f'kvmodel contributors (2026). "One request outgrows a node" [figure tier-capacity, parameters p:{f.parameters_hash}, data sha256:'
    assert cite.full(f, HERE) == f"{head}{f.data_sha256}]. In: {BOOK}, version 2026.12.0. {based}"
    address = "https://kv.example.org/book/v/2026.12.0/figures/tier-capacity/"
    assert cite.full(f, PUBLIC) == f"{head}{f.data_sha256[:12]}]. In: {BOOK}, version 2026.12.0. {address} {based}"


@pytest.mark.parametrize("edition", [HERE, Edition("2026.12.0"), AGAIN])
def test_without_an_address_nothing_is_invented(edition: Edition) -> None:
    f = figure(parameters=MORE if edition.recomputed else {})
    texts = [cite.inline(f, edition), cite.full(f, edition), cite.bibtex(f, edition), cite.csl_text(f, edition)]
    assert not any(word in text for text in texts for word in ("http", "doi", "DOI", "URL", "None", "unknown", "commit ;"))


def test_recomputed_figures_say_so_and_never_borrow_the_published_address() -> None:
    f = figure(parameters=MORE)
    command = "kvmodel run kv-size -p context_tokens=2000000"
    start = f"Recomputed from {BOOK} v2026.12.0, fig. tier-capacity, with context_tokens = 2,000,000 (p:{f.parameters_hash}); command: {command}"
    assert cite.inline(f, AGAIN).startswith(start)
    assert cite.full(f, AGAIN).startswith(start)
    assert "Micron" in cite.inline(f, AGAIN)
    assert cite.key(f, AGAIN) != cite.key(f, PUBLIC)
    assert "Recomputed from" in parse_string(cite.bibtex(f, AGAIN), "bibtex").entries[cite.key(f, AGAIN)].fields["howpublished"]
    assert "with default parameters (p:" in cite.inline(figure(), AGAIN)


def test_producers_are_named_once_with_their_years_and_at_most_three() -> None:
    four = {n: Source(f"T {n}", n, published=y) for n, y in [("A", "2024"), ("B", ""), ("C", "soon"), ("D", "2023-01-01")]}
    assert "data: A (2024) and other sources – with minor processing." in cite.inline(figure(sources=four, processing="minor"), HERE)
    assert "data: A (2024), B (n.d.), C (n.d.)." in cite.inline(figure(sources=dict(list(four.items())[:3]), processing="none"), HERE)
    assert all(f'{n}, "T {n}"' in cite.full(figure(sources=four), HERE) for n in "ABCD")
    many = {str(n): Source(f"T {n}", f"P{n % 5}", published=str(2020 + n % 2)) for n in range(9)}
    assert "Based on 9 sources: P0 (2020, 2021), P1 (2020, 2021), P2 (2020, 2021), P3 (2020, 2021), P4 (2020) – with" in cite.full(figure(sources=many), HERE)
    twice = {"x": replace(MICRON, published="2025"), "y": MICRON, "z": replace(MICRON, title="Third", published="")}
    assert "data: Micron (2025, 2026) –" in cite.inline(figure(sources=twice), HERE)
    nameless = {"x": Source("Config of a model", published="2024")}
    assert "data: Config of a model (2024)" in cite.inline(figure(sources=nameless), HERE)
    assert 'Based on: "Config of a model", 2024' in cite.full(figure(sources=nameless), HERE)


PRINTS = {"textbackslash": "\\", "textbraceleft": "{", "textbraceright": "}", "textasciitilde": "~", "textasciicircum": "^"}


def printed(latex: str) -> str:
    """What LaTeX prints for this text; a special character that is not escaped fails."""
    tokens = re.findall(r"\\([a-z]+)\{\}|\\([&%_#$])|([^\\{}&%_#$~^])|(.)", latex.removeprefix("{").removesuffix("}"), re.DOTALL)
    assert not any(bad for _, _, _, bad in tokens), f"unescaped in {latex!r}"
    return "".join(PRINTS.get(name, "") or sign or plain for name, sign, plain, _ in tokens)


@pytest.mark.parametrize("title", ["One request outgrows a node", HARD, "} {", r"\textbf{no} \\", '"GB" and "GiB"', "a line\nand another", "近内存", "a%b%%"])
@pytest.mark.parametrize("edition", [HERE, PUBLIC, AGAIN])
def test_bibtex_reads_back_as_the_same_text(title: str, edition: Edition) -> None:
    f = figure(title=title, sources={"s": replace(MICRON, producer=f"{HARD} Inc.")}, parameters=MORE if edition.recomputed else {})
    entry = parse_string(cite.bibtex(f, edition), "bibtex").entries[cite.key(f, edition)]
    assert entry.type == "misc"
    assert printed(entry.fields["title"]) == " ".join(title.split())
    assert printed(str(entry.persons["author"][0])) == "kvmodel contributors"
    assert entry.fields["year"] == "2026"
    assert entry.fields["month"] == "December"  # the macro `dec`
    assert ("url" in entry.fields) == (edition is PUBLIC)
    note = printed(entry.fields["note"])
    assert f.data_sha256 in note
    assert f"p:{f.parameters_hash}" in note
    assert "commit 0a1b2c3d4e5f" in note
    assert "50% of #1 & co: {µ × 2} ~ x^2_i" in note


def test_bibtex_key_takes_dots_and_dashes() -> None:
    assert list(parse_string(cite.bibtex(figure(), HERE), "bibtex").entries) == ["kvbook-fig-tier-capacity-2026.12.0"]


@pytest.mark.parametrize("title", ["One request outgrows a node", HARD, '"GB" & "GiB"'])
@pytest.mark.parametrize("edition", [HERE, PUBLIC, AGAIN])
def test_csl_json_renders(title: str, edition: Edition) -> None:
    f = figure(title=title, parameters=MORE if edition.recomputed else {})
    items = json.loads(cite.csl_text(f, edition))
    assert items == cite.csl(f, edition)
    assert {"id", "type", "title", "author", "issued", "container-title", "version", "note"} <= items[0].keys()
    assert items[0]["type"] == "graphic"
    assert items[0]["title"] == title
    assert items[0].get("URL") == (PUBLIC.address(f.id) if edition is PUBLIC else None)
    shelf = CitationStylesBibliography(CitationStylesStyle("harvard-cite-them-right", validate=False), CiteProcJSON(items), formatter.plain)
    shelf.register(Citation([CitationItem(items[0]["id"])]))
    rendered = str(shelf.bibliography()[0])
    assert "kvmodel contributors" in rendered
    assert "2026" in rendered
    assert title.split()[0].strip('"') in rendered


def test_the_command_gives_the_values_back_through_a_shell() -> None:
    odd = 'it\'s $HOME; `ls` "x"\nnew line'
    f = figure(parameters={"text": Parameter(odd, "a"), "users": Parameter(2, 1), "flag": Parameter(True, False)})
    assert shlex.split(cite.command(f)) == ["kvmodel", "run", "kv-size", "-p", f"text={odd}", "-p", "users=2", "-p", "flag=true"]
    assert cite.command(figure()) == "kvmodel run kv-size"


def test_uncommitted_changes_are_said() -> None:
    assert "commit 0a1b2c3d4e5f with uncommitted changes" in cite.bibtex(figure(), replace(HERE, dirty=True))


def test_the_record_survives_its_metadata() -> None:
    f = figure(parameters=MORE)
    meta = json.loads(json.dumps(f.meta()))
    again = from_meta(meta | {"columns": {"bytes": {"unit": "bytes", "meaning": "size"}}}, {"micron": MICRON, "jedec": JEDEC})
    assert again.meta() == f.meta()
    assert cite.full(again, HERE) == cite.full(f, HERE)
    assert f.rows == 2  # a quoted cell may hold a line end


@pytest.mark.parametrize("bad", ["", "a", "Tier", "2-tier", "tier_capacity", "tier capacity", "a" * 42, "../x", "llama-3.3"])
def test_ids_that_cannot_be_addresses_are_refused(bad: str) -> None:
    with pytest.raises(KvError, match="figure id"):
        figure(id=bad)


def test_unknown_processing_is_refused() -> None:
    with pytest.raises(KvError, match="nearest: 'minor'"):
        figure(processing="mino")
