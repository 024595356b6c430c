"""The identity of a broker, and the host at which others reach it."""

from __future__ import annotations

import socket
from typing import Final, NamedTuple

from sharebroker_server.broker.redis import NODE_FILE
from sharebroker_server.broker.settings import ServeSettings, invalid
from sharebroker_server.leases.identity import NodeIdentity, at_address, persistent, temporary

WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "[::]", "::"})
"""Hosts of listeners that accept connections on every address of the machine."""


class PeerListener(NamedTuple):
    """A listener for peers on a free port: the host that it binds, and the host that peers connect to."""

    bound: str
    advertised: str


def advertised(settings: ServeSettings, port: int) -> str:
    """Returns the address of the gRPC listener for others; `port` is the port that it has.

    A wildcard host names no machine, so that brokers with a common Redis use the name of this one.
    """
    host = settings.grpc.rpartition(":")[0]
    wildcard = settings.redis and host in WILDCARD_HOSTS
    return settings.advertise or f"{socket.gethostname() if wildcard else host}:{port}"


def node_identity(settings: ServeSettings, address: str) -> NodeIdentity:
    """Returns the identity by `node.id`, else that of the data folder, else one derived from the address.

    In each case a restarted broker claims the leases of its former process at once. Raises INVALID_CONFIG.
    """
    node_id = settings.config.node_id if settings.config.node_id >= 0 else None
    if settings.redis is not None:
        return at_address(address) if node_id is None else temporary(node_id)
    try:
        return persistent(settings.data / NODE_FILE, node_id, settings.config.cluster_id)
    except (OSError, ValueError) as error:
        raise invalid(str(error)) from error
