"""The one Sphinx extension of the book: parallel reading, scripts from this disk, a description for every page; `kvfigures` does the figures."""

import os
import re
from pathlib import Path

from kvmodel.report.vendor import write_vendor

SERIAL_ONLY = ("sphinx_multitoc_numbering", "sphinx_jupyterbook_latex")  # declare nothing, and are safe: the site is the same either way
JOBS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start(app, config):
    """Put MathJax and the live charts' script where the pages look for them."""
    write_vendor(Path(config.html_static_path[0] if Path(config.html_static_path[0]).is_absolute() else Path(app.confdir) / config.html_static_path[0]))


def read_in_parallel(app, env, docnames):
    """Let Sphinx read chapters side by side."""
    for name in SERIAL_ONLY:
        if name in app.extensions:
            app.extensions[name].parallel_read_safe = True


def tidy_page(app, pagename, templatename, context, doctree):
    """Drop thebe's scripts (an outside address, and a syntax error on every page); give the page a description for search engines."""
    context["script_files"] = [s for s in context.get("script_files", ()) if "thebe" not in str(getattr(s, "filename", s) or "")]
    context["script_files"] = [s for s in context["script_files"] if "THEBE" not in str(getattr(s, "attributes", {}).get("body", ""))]
    context["css_files"] = [s for s in context.get("css_files", ()) if "thebe" not in str(getattr(s, "filename", s) or "")]
    if doctree is not None:
        text = next((p.astext() for p in doctree.findall(lambda n: n.tagname == "paragraph") if len(p.astext()) > 40), "")
        short = re.sub(r"\s+", " ", text)[:155].replace('"', "'").replace("<", "").replace("&", "and")
        if short:
            context["metatags"] = context.get("metatags", "") + f'\n<meta name="description" content="{short}" />'
        title = re.sub(r"<[^>]+>", "", context.get("title", ""))
        context["metatags"] = context.get("metatags", "") + f'\n<meta name="citation_title" content="{title}" />'


def setup(app):
    """Connect the steps."""
    app.parallel = app.parallel if app.parallel > 1 else JOBS
    app.connect("config-inited", start)
    app.connect("env-before-read-docs", read_in_parallel)
    app.connect("html-page-context", tidy_page, priority=900)
    app.setup_extension("kvfigures")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
