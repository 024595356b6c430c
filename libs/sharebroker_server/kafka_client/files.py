"""Small text files: properties, secrets and certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Final

LARGEST_FILE: Final = 1 << 20
"""Bytes of a property file or PEM file."""


def file_text(path: Path) -> str:
    """Returns the text of a file. Raises ValueError with the reason."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        text = content.decode()
    except OSError as failure:
        raise ValueError(failure.strerror or "it cannot be read") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if len(content) > LARGEST_FILE:
        raise ValueError(f"it has more than {LARGEST_FILE} bytes")
    return text
