"""A book of two chapters and a front page, for tests of runs: quick, and independent of the real chapters."""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

CONFIG = """
title: Small book
author: nobody
copyright: "2026"
only_build_toc_files: true
execute: {execute_notebooks: force}
html: {use_repository_button: false}
sphinx:
  recursive_update: true
  config: {project: small, html_extra_path: [_figures]}
"""
TOC = "format: jb-book\nroot: book/index\nparts:\n- caption: All\n  chapters:\n  - file: book/sizes\n  - file: book/words\n  - file: book/notes\n"
HEADLINE = """
from IPython.display import display
def headline(id, value, unit, text):
    record = {"id": id, "value": value, "unit": unit, "text": text}
    display({"text/plain": text, "text/markdown": text, "application/vnd.kvmodel.headline+json": record}, raw=True)
"""
SIZES = [
    new_markdown_cell("# How big is it?"),
    new_code_cell("context_tokens: int = 100_000  # tokens of one request [tokens]\nusers: int = 1  # sessions [users]", metadata={"tags": ["parameters"]}),
    new_code_cell(HEADLINE),
    new_code_cell(
        'import os, time\nif users == 13:\n    raise ValueError("unlucky\\nnumber")\nif users == 66:\n    os._exit(9)\n'
        'if users == 77:\n    open("asleep", "w").close()\n    time.sleep(600)'
    ),
    new_code_cell('headline("bytes-all", 2 * context_tokens * users, "bytes", f"{2 * context_tokens * users:,} bytes")'),
]
WORDS = [
    new_markdown_cell("# How many words?"),
    new_code_cell('text: str = "one two"  # sample [text]', metadata={"tags": ["parameters"]}),
    new_code_cell(HEADLINE),
    new_code_cell('headline("words", len(text.split()), "words", f"{len(text.split())} words")\nheadline("length", len(text), "characters", ascii(text))'),
]
INDEX = [new_markdown_cell("# The answers"), new_code_cell("import os\nos.environ.get('KVMODEL_RUN', 'read alone') and 'front page'")]


def make(root: Path) -> Path:
    """Return the folder of a new book."""
    (root / "book").mkdir(parents=True)
    (root / "scenarios").mkdir()
    (root / "_config.yml").write_text(CONFIG)
    (root / "_toc.yml").write_text(TOC)
    (root / "book/notes.md").write_text("# Notes\n\nSee [the sizes](sizes.ipynb).\n")
    (root / "scenarios/published.toml").write_text('title = "As published"\n')
    (root / "scenarios/busy.toml").write_text('title = "Busy"\nwhy = "A test."\nusers = 500\n')
    for slug, cells in (("index", INDEX), ("sizes", SIZES), ("words", WORDS)):
        notebook = new_notebook(cells=[nbformat.from_dict(dict(c) | {"id": f"{slug}-{n}"}) for n, c in enumerate(cells)])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, root / "book" / f"{slug}.ipynb")
    return root
