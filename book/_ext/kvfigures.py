"""What the book does with its figures: the list of all of them (directive `kvfigures`), and their landing pages and citations once the site is there."""

import json
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

from kvmodel.report.landing import listing
from kvmodel.report.publish import finish
from kvmodel.report.record import edition_here

HERE = Path(__file__).resolve().parents[2]  # the checkout; `kvmodel run` builds from another folder, with links into this one


class figure_list(nodes.General, nodes.Element):
    """Where the list of figures will stand: only after all chapters are read is it known."""


class FigureList(Directive):
    """`kvfigures`: every figure of this build, in reading order."""

    def run(self):
        """Return the place of the list."""
        env = self.state.document.settings.env
        env.metadata[env.docname]["kvfigures"] = "here"
        return [figure_list()]


def fill(app, doctree, docname):
    """Put the list in its place, from the folders that this build's notebooks wrote."""
    for place in list(doctree.findall(figure_list)):
        place.replace_self(nodes.raw("", listing(_rows(app, docname)), format="html"))


def _rows(app, docname):
    up = "../" * docname.count("/")
    labels = app.env.get_domain("std").anonlabels
    order = {name: n for n, name in enumerate(_reading_order(app.env, app.config.root_doc))}
    rows = []
    for path in Path(app.srcdir).glob("_figures/figures/*/figure.json"):
        facts = json.loads(path.read_text("utf-8"))
        figure, label = facts["id"], f"fig-{facts['id']}"
        if label not in labels:  # left by an earlier build
            continue
        page, anchor = labels[label]
        number = app.env.toc_fignumbers.get(page, {}).get("figure", {}).get(anchor, ())
        row = {key: facts[key] for key in ("id", "title", "alt", "parameters_hash")} | {
            "order": order.get(page, len(order)),
            "chapter": app.env.titles[page].astext(),
            "number": ".".join(map(str, number)),
            "page": f"{up}figures/{figure}/index.html",
            "picture": f"{up}figures/{figure}/{figure}.svg",
            "anchor": f"{up}{page}.html#{anchor}",
        }
        rows.append(((row["order"], number, figure), row))
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def _reading_order(env, root):
    yield root
    for page in env.toctree_includes.get(root, ()):
        yield from _reading_order(env, page)


def renew(app, env):
    """Return the pages with the list: they are written again in every build, since any chapter may have changed."""
    return [name for name, facts in env.metadata.items() if "kvfigures" in facts]


def publish(app, exception):
    """Write landing pages and citations into the finished site."""
    if exception is None and app.builder.format == "html":
        recomputed = Path(app.srcdir).resolve() != HERE
        edition = edition_here(HERE, app.config.html_baseurl or "", recomputed=recomputed)
        finish(Path(app.outdir), HERE, edition)


def setup(app):
    """Register the directive and its steps."""
    app.add_node(figure_list)
    app.add_directive("kvfigures", FigureList)
    app.connect("doctree-resolved", fill)
    app.connect("env-updated", renew)
    app.connect("build-finished", publish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
