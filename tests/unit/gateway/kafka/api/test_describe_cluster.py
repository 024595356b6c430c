"""DescribeCluster: brokers, cluster id and authorized operations."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import DescribeClusterRequest, DescribeClusterResponse
from tests.unit.gateway.kafka.api.harness import Harness


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_brokers_are_described(harness: Harness, version: int) -> None:
    response = await harness.call(version, DescribeClusterRequest(), DescribeClusterResponse)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, "the cluster", 1)
    assert [(one.broker_id, one.host, one.port) for one in response.brokers] == [(1, "127.0.0.1", 9092)]
    assert response.cluster_authorized_operations == -(1 << 31), "not requested"


async def test_authorized_operations_are_returned_on_request(harness: Harness) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = await harness.call(1, request, DescribeClusterResponse)
    assert response.cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("kind", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_endpoints_other_than_brokers_are_errors(harness: Harness, kind: int, code: ErrorCode) -> None:
    response = await harness.call(1, DescribeClusterRequest(endpoint_type=kind), DescribeClusterResponse)
    assert response.error_code == code
    assert response.error_message
    assert response.brokers == []
