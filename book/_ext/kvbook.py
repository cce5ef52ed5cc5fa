"""The Sphinx extension of the book: fresh and parallel execution, scripts from this disk, tidy page heads; `kvfigures`, which it loads, does the figures."""

import os
import re
import shutil
from html import escape, unescape
from pathlib import Path

from docutils import nodes
from sphinx import builders
from sphinx.util.parallel import make_chunks

from kvmodel import __version__
from kvmodel.report.cells import executed_notebooks
from kvmodel.report.chapters import GATHER
from kvmodel.report.execute import cores
from kvmodel.report.front import write_headlines
from kvmodel.report.record import AUTHORS
from kvmodel.report.vendor import write_vendor

SERIAL_ONLY = ("sphinx_multitoc_numbering", "sphinx_jupyterbook_latex")  # declare nothing, and are safe: the site is the same either way
THEBE = re.compile(r'<script type="text/x-thebe-config">.*?</script>\s*<script>kernelName = .*?</script>', re.DOTALL)
PLAIN = {  # what screen readers and small fonts know
    '<th class="head': '<th scope="col" class="head',
    'role="doc-biblioentry"': 'role="listitem"',
    ' role="doc-backlink"': "",
    "<p>✅</p>": "<p>done</p>",
    "<p>❌</p>": "<p>failed</p>",
}


def start(app, config):
    """Make what pages load; where chapters are executed, let nothing of an earlier build stand: package or data may have changed."""
    write_vendor(Path(app.confdir, config.html_static_path[0]))
    figures = Path(app.srcdir, "_figures")
    if config.nb_execution_mode != "off" and "KVMODEL_RUN" not in os.environ:  # a run brings executed chapters and their figures
        os.environ |= {"KVMODEL_BUILD": str(app.srcdir), "KVMODEL_EXECUTED": str(Path(app.outdir).parent / "jupyter_execute")}
        shutil.rmtree(figures, ignore_errors=True)
        Path(app.doctreedir, "environment.pickle").unlink(missing_ok=True)
    (figures / "figures").mkdir(parents=True, exist_ok=True)


def read_in_order(app, env, docnames):
    """Let Sphinx read chapters side by side, and those that gather after all others."""
    for name in SERIAL_ONLY:
        if name in app.extensions:
            app.extensions[name].parallel_read_safe = True
    late = [f"book/{name}" for name in GATHER if f"book/{name}" in docnames]
    docnames[:] = [name for name in docnames if name not in late] + late
    side_by_side = app.builder._read_parallel

    def read(names, nproc):
        free = [name for name in names if name not in late]
        notebooks = {name for name in free if str(env.doc2path(name)).endswith(".ipynb")}
        builders.make_chunks = _one_each
        try:
            side_by_side(sorted(free, key=lambda name: name not in notebooks), nproc)
        finally:
            builders.make_chunks = make_chunks
        app.builder._read_serial(late)

    app.builder._read_parallel = read


def _one_each(names, nproc, maxbatch=10):
    """Chapters take from one second to ten: whoever is free takes the next, and no batch of long ones waits for a core."""
    return [[name] for name in names]


def tidy_page(app, pagename, templatename, context, doctree):
    """Drop thebe (an outside address, and a syntax error on every page); say what the page is; put in plain roles and words."""
    for kind in ("script_files", "css_files"):
        context[kind] = [f for f in context.get(kind, ()) if "thebe" not in f"{getattr(f, 'filename', f)} {getattr(f, 'attributes', '')}".lower()]
    if doctree is None:
        return
    body = THEBE.sub("", context["body"])
    for old, new in PLAIN.items():
        body = body.replace(old, new)
    context["body"] = body
    year, month, _ = __version__.split(".")
    facts = {
        "description": _first_words(doctree),
        "citation_title": unescape(re.sub(r"<[^>]+>|^[\d.]+ ", "", context.get("title", ""))),
        "citation_author": AUTHORS,
        "citation_publication_date": f"{year}/{int(month):02}",
        "citation_fulltext_html_url": f"{app.config.html_baseurl.rstrip('/')}/{pagename}.html" if app.config.html_baseurl else "",
    }
    tags = (f'<meta name="{name}" content="{escape(content)}" />' for name, content in facts.items() if content)
    context["metatags"] = "\n".join([context.get("metatags", ""), *tags])


def publish_headlines(app, exception):
    """Put `headlines.json` beside the first page of a whole book: the numbers of its executed chapters, for machines."""
    if exception is None and app.builder.format == "html" and "book/index" in app.env.found_docs:
        folder = executed_notebooks() if app.config.nb_execution_mode != "off" else Path(app.srcdir, "book")
        write_headlines(Path(app.outdir), folder)


def _first_words(doctree):
    """The first sentences of a page, as far as a search engine shows them."""
    texts = (" ".join(p.astext().split()) for p in doctree.findall(nodes.paragraph))
    text = next((t for t in texts if len(t) > 40), "")
    return text if len(text) <= 160 else text[:160].rsplit(" ", 1)[0] + " …"


def setup(app):
    """Connect the steps."""
    app.parallel = max(app.parallel, cores())  # Jupyter Book has no option for it
    app.connect("config-inited", start)
    app.connect("env-before-read-docs", read_in_order)
    app.connect("html-page-context", tidy_page, priority=900)
    app.connect("build-finished", publish_headlines)
    app.setup_extension("kvapi")
    app.setup_extension("kvfigures")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
