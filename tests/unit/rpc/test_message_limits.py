"""Limits of the messages of each method."""

from __future__ import annotations

import pytest

from sharebroker_server.rpc.message_limits import MAX_MESSAGE, MAX_READ, UNCOUNTED, message_limits
from sharebroker_server.security.permissions import PERMISSIONS
from tests.testkit.tables import each

MIB = 1 << 20


@each("method", PERMISSIONS)
def test_fields_are_limited_where_clients_may_call(method: str) -> None:
    limits = message_limits(method)
    assert limits.of_clients is not PERMISSIONS[method].internal
    assert UNCOUNTED < limits.max_bytes <= MAX_MESSAGE < MAX_READ


@pytest.mark.parametrize(
    ("method", "size"),
    [
        ("/sharebroker.gateway.v1.ProduceService/Publish", 16 * MIB),
        ("/sharebroker.gateway.v1.ProduceService/ProduceStream", 16 * MIB),
        ("/sharebroker.gateway.v1.ShareService/ShareGroupHeartbeat", MIB),
        ("/sharebroker.gateway.v1.ShareService/Acquire", 4 * MIB),
        ("/grpc.health.v1.Health/Check", MIB),
        ("/externalscaler.ExternalScaler/IsActive", MIB),
        ("/sharebroker.group_coordinator.v1.GroupCoordinatorService/ShareGroupHeartbeat", 16 * MIB),
        ("/sharebroker.share_partition_leader.v1.SharePartitionLeaderService/Produce", 16 * MIB),
    ],
)
def test_size_depends_on_the_method(method: str, size: int) -> None:
    assert message_limits(method).max_bytes == size
