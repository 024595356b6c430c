"""The file of `--ready-file`, which exists while the server serves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson

from sharebroker_server.broker.settings import invalid


class ReadyFile:
    """A JSON file with the addresses of a server; call `prepare`, `write` once it serves, then `remove`.

    Without a path nothing is written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def prepare(self) -> None:
        """Removes the file of a dead process. Raises INVALID_CONFIG if the file is not writable."""
        if self._path is None:
            return
        fresh = _fresh(self._path)
        try:
            self._path.unlink(missing_ok=True)
            fresh.write_bytes(b"")
            fresh.unlink()
        except OSError as failure:
            raise invalid(f"The ready file {self._path} cannot be written: {failure.strerror}.") from failure

    def write(self, facts: Mapping[str, object]) -> None:
        """Writes the file atomically. Raises OSError."""
        if self._path is not None:
            fresh = _fresh(self._path)
            fresh.write_bytes(orjson.dumps(dict(facts)))
            fresh.replace(self._path)

    def remove(self) -> None:
        """Removes the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _fresh(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")
