"""DescribeClientQuotas: the entities that a filter selects, with their quotas."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.quotas import QuotaEntity, QuotaKey, QuotaRecord
from sharebroker_server.kafka_wire.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from tests.unit.gateway.kafka.api.harness import Harness


def request(match_type: int, match: str | None) -> DescribeClientQuotasRequest:
    component = DescribeClientQuotasRequest.ComponentData(
        entity_type="user", match_type=match_type, match=match
    )
    return DescribeClientQuotasRequest(components=[component], strict=False)


async def test_selected_entities_have_their_quotas(harness: Harness) -> None:
    catalog = harness.gateway.catalog.catalog
    catalog.quotas.apply(QuotaRecord(QuotaEntity("alice", ""), QuotaKey.PRODUCER_BYTE_RATE, 5.0))
    catalog.quotas.apply(QuotaRecord(QuotaEntity("bob"), QuotaKey.PRODUCER_BYTE_RATE, 6.0))
    response = await harness.call(1, request(0, "alice"), DescribeClientQuotasResponse)
    (entry,) = response.entries or ()
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [
        ("user", "alice"),
        ("client-id", None),
    ]
    assert [(one.key, one.value) for one in entry.values] == [("producer_byte_rate", 5.0)]


async def test_an_invalid_filter_has_an_error(harness: Harness) -> None:
    response = await harness.call(1, request(0, None), DescribeClientQuotasResponse)
    assert (response.error_code, response.entries) == (ErrorCode.INVALID_REQUEST, None)
