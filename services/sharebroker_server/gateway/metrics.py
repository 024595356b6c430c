"""What a gateway tells of its clients (Kafka: ShareSessionCache, DelayedShareFetchMetrics)."""

from __future__ import annotations

from collections.abc import Iterable

from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.fetch_metrics import FetchCounts
from sharebroker_server.telemetry.metrics import Family, counter, gauge, seconds_of


def gateway_families(gateway: Gateway) -> Iterable[Family]:
    """See Collector."""
    yield gauge("sharebroker_share_sessions", "Share sessions.", [((), len(gateway.sessions))])
    yield gauge(
        "sharebroker_share_session_partitions",
        "Partitions of all share sessions together.",
        [((), gateway.sessions.partitions)],
    )
    yield counter(
        "sharebroker_share_session_evictions_total",
        "Share sessions that no client ended: nobody used them, or their connection went.",
        [
            (("reason", "idle"), gateway.sessions.expired),
            (("reason", "disconnected"), gateway.sessions.disconnected),
        ],
    )
    yield from _fetches(gateway.fetches)
    yield gauge(
        "sharebroker_client_streams", "Streams of gRPC clients that are open.", [((), gateway.streams)]
    )


def _fetches(counts: FetchCounts) -> Iterable[Family]:
    yield gauge(
        "sharebroker_share_fetches_under_way",
        "ShareFetch requests that are served, nearly all of which wait for records.",
        [((), counts.under_way)],
    )
    yield counter(
        "sharebroker_share_fetch_expires_total",
        "ShareFetch requests that were served and whose wait ran out without records.",
        [((), counts.expired)],
    )
    yield seconds_of(
        "sharebroker_share_fetch_acquire_seconds",
        "Time that a ShareFetch which got records was served, its wait for them included.",
        "",
        {"": counts.seconds},
    )
