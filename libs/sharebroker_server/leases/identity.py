"""Identity of a broker: a node id that survives restarts, and an incarnation that increases with each start.

The incarnation distinguishes a restarted broker from its former process, whose leases it claims at once.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

import orjson

from sharebroker_server.redis_link.data_folder import replace_file

HIGHEST_NODE_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """A node id (a non-negative int32, Kafka's broker id) and its incarnation."""

    node_id: int
    incarnation: int

    @property
    def owner(self) -> str:
        """The owner name in leases."""
        return f"{self.node_id}/{self.incarnation}"


def temporary(node_id: int | None = None) -> NodeIdentity:
    """Returns an identity that is not persisted, with a random node id unless given.

    The incarnation is the wall clock in milliseconds.
    """
    chosen = secrets.randbelow(HIGHEST_NODE_ID) + 1 if node_id is None else node_id
    return NodeIdentity(chosen, _milliseconds())


def at_address(address: str) -> NodeIdentity:
    """Returns an identity derived from an address: a process that restarts there is its successor."""
    number = int.from_bytes(blake2b(address.encode(), digest_size=8).digest(), "big")
    return temporary(number % HIGHEST_NODE_ID + 1)


def persistent(path: Path, node_id: int | None = None, cluster_id: str = "") -> NodeIdentity:
    """Returns the identity of a file with the next incarnation; creates the file if it is missing.

    `node_id` overrides the node id of the file. Raises OSError, and ValueError for a file without an identity
    or with an identity of another cluster.
    """
    former = _load(path, cluster_id) if path.exists() else temporary(node_id)
    incarnation = max(former.incarnation + 1, _milliseconds())
    identity = NodeIdentity(former.node_id if node_id is None else node_id, incarnation)
    _save(path, identity, cluster_id)
    return identity


def _load(path: Path, cluster_id: str) -> NodeIdentity:
    try:
        fields = orjson.loads(path.read_bytes())
        identity = NodeIdentity(int(fields["node_id"]), int(fields["incarnation"]))
        its_cluster = str(fields.get("cluster_id", ""))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} holds no node identity; remove it to get a new one") from error
    if its_cluster != cluster_id:
        raise ValueError(
            f"{path.parent} belongs to the cluster {its_cluster!r}, but cluster.id is {cluster_id!r}"
        )
    return identity


def _save(path: Path, identity: NodeIdentity, cluster_id: str) -> None:
    """Stores the identity durably, before it is used."""
    replace_file(path, orjson.dumps({**asdict(identity), "cluster_id": cluster_id}))


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
