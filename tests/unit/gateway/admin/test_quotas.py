"""Changes of quotas: visible before the response, and audited without waiting for failed ones."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_server.catalog.quotas import QuotaEntity, QuotaKey, QuotaRecord
from sharebroker_server.gateway.admin.quotas import alter_quotas, describe_quotas, quota_parts
from sharebroker_server.rpc.errors import wire
from tests.unit.gateway.kafka.api.harness import Harness

USER = pb.QuotaEntityPart(entity_type="user", entity_name="alice")
DEFAULT_CLIENT = pb.QuotaEntityPart(entity_type="client-id")


def entry(*parts: pb.QuotaEntityPart) -> pb.AlterClientQuotasRequest.Entry:
    op = pb.AlterClientQuotasRequest.Op(key="producer_byte_rate", value=5.0)
    return pb.AlterClientQuotasRequest.Entry(entity=parts, ops=[op])


async def test_each_change_is_audited_with_its_outcome() -> None:
    harness = Harness()
    results = [
        pb.AlterClientQuotasResponse.Entry(),
        pb.AlterClientQuotasResponse.Entry(error_code=wire(ErrorCode.INVALID_REQUEST)),
    ]
    harness.services.reply("AlterClientQuotas", pb.AlterClientQuotasResponse(entries=results))
    quota = QuotaRecord(QuotaEntity("alice", ""), QuotaKey.PRODUCER_BYTE_RATE, 5.0)
    harness.gateway.catalog.catalog.quotas.apply(quota)
    request = pb.AlterClientQuotasRequest(entries=[entry(USER, DEFAULT_CLIENT), entry(USER)])
    with capture_logs() as lines:
        await alter_quotas(harness.gateway, request, Deadline(5.0))
    await harness.close()
    assert [(line["resource"], line["outcome"]) for line in lines] == [
        ("user=alice, client-id=<default>", "success"),
        ("user=alice", "INVALID_REQUEST"),
    ]
    assert lines[0]["quotas"] == {"producer_byte_rate": 5.0}


async def test_the_entities_that_a_filter_selects_are_described() -> None:
    harness = Harness()
    for entity in (QuotaEntity("alice", ""), QuotaEntity("alice"), QuotaEntity("bob")):
        harness.gateway.catalog.catalog.quotas.apply(QuotaRecord(entity, QuotaKey.PRODUCER_BYTE_RATE, 5.0))
    request = admin.DescribeClientQuotasRequest()
    request.components.add(entity_type="user", match="alice")
    response = describe_quotas(harness.gateway, request)
    assert [list(entry.entity) for entry in response.entries] == [[USER, DEFAULT_CLIENT], [USER]]
    assert [(one.key, one.value) for one in response.entries[0].values] == [("producer_byte_rate", 5.0)]
    request.strict = True
    assert len(describe_quotas(harness.gateway, request).entries) == 1
    request.components[0].match_type = admin.QUOTA_MATCH_TYPE_DEFAULT
    with pytest.raises(KafkaError, match="also specified a match string"):
        describe_quotas(harness.gateway, request)
    await harness.close()


def test_an_absent_name_is_the_default() -> None:
    assert quota_parts([USER, DEFAULT_CLIENT]) == [("user", "alice"), ("client-id", None)]
