"""Docstrings of the package as the reference page shows them: numpydoc sections, where what stands after a name is a sentence and not a type."""

import re


def show_sections(app, what, name, obj, options, lines):
    """Turn each section (a heading over dashes) into a bold heading, and its `name : text` entries into a list."""
    new, section = [], ""
    for n, line in enumerate(lines):
        rule = lines[n + 1] if n + 1 < len(lines) else ""
        if line and re.fullmatch("-{3,}", rule):
            section = line
            new += [f"**{line}**", ""]
        elif re.fullmatch("-{3,}", line):
            continue
        elif section in ("Parameters", "Raises", "Attributes") and (entry := re.fullmatch(r"(\S.*?) : (.*)", line)):
            new.append(f"- ``{entry[1]}``: {entry[2]}")
        elif section in ("Parameters", "Raises", "Attributes") and line.startswith("    "):
            new.append(f"  {line.strip()}")
        else:
            new.append(line)
    lines[:] = new


def setup(app):
    """Connect the step."""
    app.connect("autodoc-process-docstring", show_sections)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
