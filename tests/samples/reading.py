"""Reads sample data: its description, its data folder, and the commands that fill a Redis with it."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import redis

SAMPLES: Final = sorted(path.parent for path in Path(__file__).parent.glob("*/contents.json"))
"""The folder of each sample."""


def contents(sample: Path) -> dict[str, Any]:
    """Returns the description of a sample."""
    read: dict[str, Any] = orjson.loads((sample / "contents.json").read_bytes())
    return read


def unpack(sample: Path, data: Path) -> None:
    """Copies the data folder of a sample to `data`."""
    with tarfile.open(sample / "data.tar.xz") as archive:
        archive.extractall(data, filter="data")


def load(url: str, data: Path) -> None:
    """Executes the commands of a data folder's append-only file in a Redis."""
    with redis.Redis.from_url(url) as client:
        for file in sorted((data / "valkey" / "appendonlydir").glob("*.incr.aof")):
            for command in commands(file.read_bytes()):
                if command[0].upper() not in (b"MULTI", b"EXEC"):
                    client.execute_command(*command)


def commands(data: bytes) -> Iterator[list[bytes]]:
    """Returns the commands of an append-only file: arrays of strings in Redis's protocol."""
    at = 0

    def number(kind: bytes) -> int:
        nonlocal at
        end = data.index(b"\r\n", at)
        assert data[at : at + 1] == kind
        value, at = int(data[at + 1 : end]), end + 2
        return value

    while at < len(data):
        command = []
        for _ in range(number(b"*")):
            size = number(b"$")
            command.append(data[at : at + size])
            at += size + 2
        yield command
