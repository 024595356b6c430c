"""Folders of the checkout from which processes under test import the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE_ROOTS: Final = (
    ROOT,
    ROOT / "services",
    ROOT / "libs",
    ROOT / "libs" / "protocol",
    ROOT / "libs" / "python_client",
)


def python_path() -> str:
    """`PYTHONPATH` with this checkout's source roots before what is set already."""
    paths = [*map(str, SOURCE_ROOTS), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(path for path in paths if path)
