"""What a gateway tells of its clients (Kafka: ShareSessionCache)."""

from __future__ import annotations

from collections.abc import Iterable

from libs.telemetry.metrics import Family, gauge
from services.gateway.service.gateway import Gateway


def gateway_families(gateway: Gateway) -> Iterable[Family]:
    """See Collector."""
    yield gauge("sharebroker_share_sessions", "Share sessions.", [((), len(gateway.sessions))])
    yield gauge(
        "sharebroker_share_session_partitions",
        "Partitions of all share sessions together.",
        [((), gateway.sessions.partitions)],
    )
    yield gauge(
        "sharebroker_client_streams", "Streams of gRPC clients that are open.", [((), gateway.streams)]
    )
