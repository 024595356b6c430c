"""Where a Redis Cluster keeps a key: its slot, and who serves that."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sharebroker_server.redis_link.topology.redis_url import Target

SLOTS: Final = 16384


def slot_of(key: bytes | str) -> int:
    """The slot of a key: of what stands between its first braces, if anything does (Redis Cluster's rule)."""
    name = key.encode() if isinstance(key, str) else key
    _, opened, rest = name.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return crc_hqx(tag if opened and closed and tag else name, 0) % SLOTS


@dataclass(frozen=True, slots=True)
class Run:
    """Slots `first` to `last` with the primary that serves them, and its replicas."""

    first: int
    last: int
    primary: Target
    replicas: tuple[Target, ...]


def read_slots(reply: Sequence[Any], asked: Target) -> Iterator[Run]:
    """The answer of CLUSTER SLOTS; a node without an address of its own is the one that was asked."""
    for first, last, primary, *replicas in reply:
        yield Run(first, last, _target(primary, asked), tuple(_target(node, asked) for node in replicas))


def _target(node: Sequence[Any], asked: Target) -> Target:
    host = node[0].decode() if node[0] else ""
    return asked.at(host if host not in ("", "?") else asked.host, node[1])
