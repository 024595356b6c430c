"""Who a process is: a node that stays the same over restarts, and an incarnation that rises with each.

A restarted process is told from its earlier self, and takes that one's leases over at once.
"""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

import orjson

HIGHEST_NODE_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Identity:
    """A node id (int32, not negative: Kafka's broker id) and an incarnation of it."""

    node_id: int
    incarnation: int

    @property
    def owner(self) -> str:
        """The name leases are held under."""
        return f"{self.node_id}/{self.incarnation}"


def temporary(node_id: int | None = None) -> Identity:
    """An identity nothing remembers, of a random node unless given; incarnations rise with the wall clock."""
    chosen = secrets.randbelow(HIGHEST_NODE_ID) + 1 if node_id is None else node_id
    return Identity(chosen, _milliseconds())


def at_address(address: str) -> Identity:
    """The identity of whoever is reached at `address`: a process that starts there again is its heir."""
    number = int.from_bytes(blake2b(address.encode(), digest_size=8).digest(), "big")
    return temporary(number % HIGHEST_NODE_ID + 1)


def persistent(path: Path, node_id: int | None = None, cluster_id: str = "") -> Identity:
    """The identity kept in a file, one incarnation later; the file is made when missing.

    `node_id` wins over the file's. Raises ValueError when the file holds no identity, or one of a node of
    another cluster, OSError.
    """
    earlier = _load(path, cluster_id) if path.exists() else temporary(node_id)
    incarnation = max(earlier.incarnation + 1, _milliseconds())
    identity = Identity(earlier.node_id if node_id is None else node_id, incarnation)
    _save(path, identity, cluster_id)
    return identity


def _load(path: Path, cluster_id: str) -> Identity:
    try:
        facts = orjson.loads(path.read_bytes())
        identity = Identity(int(facts["node_id"]), int(facts["incarnation"]))
        its_cluster = str(facts.get("cluster_id", ""))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} holds no node identity; remove it to get a new one") from error
    if its_cluster != cluster_id:
        raise ValueError(
            f"{path.parent} is of a node of the cluster {its_cluster!r}, and cluster.id is {cluster_id!r}"
        )
    return identity


def _save(path: Path, identity: Identity, cluster_id: str) -> None:
    """Replace the file in one step, durable before the identity is used."""
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(orjson.dumps({**asdict(identity), "cluster_id": cluster_id}))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
