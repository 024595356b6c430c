"""DescribeClientQuotas (48): returns none; `kafka-configs.sh --describe` of users needs it."""

from __future__ import annotations

from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.kafka_wire.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse


async def handle(_: Call[DescribeClientQuotasRequest]) -> DescribeClientQuotasResponse:
    """Returns no quotas."""
    return DescribeClientQuotasResponse(entries=[])


API = Api(48, (0, 1), handle, Refusal(DescribeClientQuotasResponse))
