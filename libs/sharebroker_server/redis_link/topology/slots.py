"""Slots of a Redis Cluster: which slot a key belongs to, and which node serves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sharebroker_server.redis_link.topology.redis_url import Target

SLOTS: Final = 16384


def slot_of(key: bytes | str) -> int:
    """Returns the slot of a key; keys with the same hash tag have the same slot."""
    from redis.crc import key_slot  # imports OpenTelemetry

    return key_slot(key.encode() if isinstance(key, str) else key)


@dataclass(frozen=True, slots=True)
class SlotRange:
    """Slots `first` to `last`, with the primary that serves them and its replicas."""

    first: int
    last: int
    primary: Target
    replicas: tuple[Target, ...]


def read_slots(reply: Sequence[Any], queried: Target) -> Iterator[SlotRange]:
    """Reads the response to CLUSTER SLOTS. A node without an address of its own is `queried`."""
    for first, last, primary, *replicas in reply:
        yield SlotRange(
            first, last, _target(primary, queried), tuple(_target(node, queried) for node in replicas)
        )


def _target(node: Sequence[Any], queried: Target) -> Target:
    host = node[0].decode() if node[0] else ""
    return queried.at(host if host not in ("", "?") else queried.host, node[1])
