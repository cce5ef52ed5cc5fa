"""Scripts that pages load from this disk: MathJax and the bundle of the live charts, made from installed packages, never committed."""

import shutil
from importlib.metadata import files
from pathlib import Path

MATHJAX = "django-static-mathjax"
SNIPPET = "window.vegaEmbed = vegaEmbed;"


def write_vendor(assets: Path) -> None:
    """Put MathJax and the live charts' bundle below `assets/vendor`, once.

    The bundle is wrapped into a function of its own: as a plain script it would declare names that Sphinx's scripts declare too.
    """
    vendor = assets / "vendor"
    bundle = vendor / "vega.js"
    if not bundle.is_file():
        import vl_convert

        vendor.mkdir(parents=True, exist_ok=True)
        _replace(bundle, f"(function () {{\n{vl_convert.javascript_bundle(SNIPPET)}\n}})();\n")
    if not (vendor / "mathjax").is_dir():
        part = vendor / ".mathjax"
        for file in files(MATHJAX) or ():
            text = file.as_posix()
            if "/es5/" in text and ("tex-mml-chtml.js" in text or "/output/chtml/fonts/" in text):
                target = part / text.split("/es5/")[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), target)
        part.rename(vendor / "mathjax")


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, "utf-8")
    part.replace(path)
