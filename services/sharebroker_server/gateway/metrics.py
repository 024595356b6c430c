"""The metrics of a gateway (Kafka: ShareSessionCache, DelayedShareFetchMetrics)."""

from __future__ import annotations

from collections.abc import Iterable

from sharebroker_server.gateway.context import FetchCounts, Gateway
from sharebroker_server.telemetry.metrics import Family, counter, gauge, seconds_of


def gateway_families(gateway: Gateway) -> Iterable[Family]:
    """Yields the metric families of share sessions, share fetches and streams."""
    yield gauge("sharebroker_share_sessions", "Share sessions.", [((), len(gateway.sessions))])
    yield gauge(
        "sharebroker_share_session_partitions",
        "Partitions in all share sessions.",
        [((), gateway.sessions.partitions)],
    )
    yield counter(
        "sharebroker_share_session_evictions_total",
        "Share sessions that were evicted: idle, or their connection closed.",
        [
            (("reason", "idle"), gateway.sessions.expired),
            (("reason", "disconnected"), gateway.sessions.disconnected),
        ],
    )
    yield from _fetches(gateway.fetches)
    yield counter(
        "sharebroker_client_throttle_seconds_total",
        "Time that requests of clients over their quotas had to wait, by the quota that was exceeded most.",
        [(("quota", key.value), seconds) for key, seconds in gateway.quotas.throttled.items()],
    )
    yield gauge("sharebroker_client_streams", "Open streams of gRPC clients.", [((), gateway.streams)])


def _fetches(counts: FetchCounts) -> Iterable[Family]:
    yield gauge(
        "sharebroker_share_fetches_in_purgatory",
        "ShareFetch requests in flight; nearly all of them wait for records.",
        [((), counts.in_flight)],
    )
    yield counter(
        "sharebroker_share_fetch_expires_total",
        "ShareFetch requests whose wait ended without records.",
        [((), counts.expired)],
    )
    yield seconds_of(
        "sharebroker_share_fetch_acquire_seconds",
        "Time of a ShareFetch that returned records, including its wait.",
        "",
        {"": counts.seconds},
    )
