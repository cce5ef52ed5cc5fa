"""What all commands share: the output, and a model from an id or a path."""

import argparse
import sys
from collections.abc import Iterable
from typing import Any


def emit(args: argparse.Namespace, document: Any, lines: Iterable[str]) -> None:
    """Print one JSON document when `--json` was given, else the lines."""
    if args.json:
        import json  # start-up counts

        plain = str(getattr(sys.stdout, "encoding", "")).lower().replace("-", "") != "utf8"
        print(json.dumps(document, indent=1, ensure_ascii=plain, allow_nan=False))
    else:
        print("\n".join(lines))


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the `--json` option."""
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def columns(rows: list[list[str]], right: Iterable[int] = ()) -> list[str]:
    """Return rows of text as lines with aligned columns; columns whose number is in `right` align to the right."""
    if not rows:
        return []
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    right = set(right)
    return ["  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(r, widths))).rstrip() for r in rows]
