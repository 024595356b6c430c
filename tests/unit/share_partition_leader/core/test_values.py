"""Limits that derive from others."""

from __future__ import annotations

import pytest

from sharebroker_server.share_partition_leader.core.values import SharePartitionSettings


@pytest.mark.parametrize(("limit", "throttled_from"), [(2, 2), (3, 2), (5, 3), (10, 5)])
def test_throttling_starts_at_half_the_delivery_limit(limit: int, throttled_from: int) -> None:
    assert SharePartitionSettings(delivery_count_limit=limit).throttle_limit == throttled_from
