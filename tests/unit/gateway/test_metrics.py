"""Metrics of a gateway."""

from __future__ import annotations

from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.metric_values import values
from tests.unit.gateway.share.requests import fetch, records_of


async def test_sessions_and_their_partitions_are_measured(harness: Harness) -> None:
    harness.leader.answer = records_of(0)
    assert (values(harness, "share_sessions"), values(harness, "share_session_partitions")) == ([0], [0])
    await harness.share.ShareFetch(fetch(0, 0, 1))
    assert (values(harness, "share_sessions"), values(harness, "share_session_partitions")) == ([1], [2])


async def test_evictions_fetches_and_streams_are_measured(harness: Harness) -> None:
    gateway = harness.gateway
    gateway.sessions.expired, gateway.sessions.disconnected = 3, 2
    gateway.fetches.in_flight, gateway.fetches.expired = 4, 5
    assert values(harness, "share_session_evictions_total") == [3, 2]
    assert values(harness, "share_fetches_in_purgatory") == [4]
    assert values(harness, "share_fetch_expires_total") == [5]
    with gateway.serving(lambda _: None):
        assert values(harness, "client_streams") == [1]
    assert values(harness, "client_streams") == [0]
