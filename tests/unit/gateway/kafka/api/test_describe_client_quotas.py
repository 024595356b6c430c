"""DescribeClientQuotas: there are no quotas."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from tests.unit.gateway.kafka.api.harness import Harness


async def test_there_are_no_quotas(harness: Harness) -> None:
    response = await harness.call(1, DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    assert (response.error_code, response.entries) == (ErrorCode.NONE, [])
