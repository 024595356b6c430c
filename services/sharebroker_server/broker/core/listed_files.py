"""Files that a backup or an archive lists, and checks of what such a list states."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file by its relative name, with its size in bytes and its checksum in hexadecimal."""

    name: str
    size: int
    sha256: str


def check_version(fields: Mapping[str, Any], version: int, what: str, error: type[Exception]) -> None:
    """Raises `error` if a list has another version than this release reads; `what` names its kind."""
    if fields["version"] != version:
        raise error(
            f"The {what} has version {fields['version']}, written by release {fields['release']}. "
            f"This release reads version {version}."
        )


def count(value: Any) -> int:
    """Returns a number that is not negative. Raises ValueError."""
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def sha256(value: Any) -> str:
    """Returns a checksum. Raises ValueError, TypeError."""
    if not _SHA256.fullmatch(value):
        raise ValueError(value)
    return str(value)
