"""Where the observed data lie: inside an installed package, or in the checkout that this package stands in."""

from pathlib import Path

PACKAGE = Path(__file__).parent
PACKED = PACKAGE / "_data"  # the wheel's copy of `data/`
DATA = PACKED if PACKED.is_dir() else PACKAGE.parent / "data"
