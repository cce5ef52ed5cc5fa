"""What chapters use: parameters, sentences, headline numbers, tables, figures. Imported on first use, since most commands need none of it."""

from importlib import import_module
from typing import Any

_HOMES = {"Figure": "figure", "chapter": "cells", "headline": "cells", "md": "cells", "table": "cells"}
__all__ = ["Figure", "chapter", "headline", "md", "table"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"kvmodel.report.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'kvmodel.report' has no attribute {name!r}")
