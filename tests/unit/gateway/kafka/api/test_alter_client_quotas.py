"""AlterClientQuotas: the owner of the catalog decides; each entity has its own result."""

from __future__ import annotations

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import AlterClientQuotasRequest, AlterClientQuotasResponse
from sharebroker_server.rpc.errors import wire
from tests.unit.gateway.kafka.api.harness import Harness

_Part, _Op = AlterClientQuotasRequest.EntityData, AlterClientQuotasRequest.OpData
REQUEST = AlterClientQuotasRequest(
    entries=[
        AlterClientQuotasRequest.EntryData(
            entity=[_Part(entity_type="user", entity_name=None)],
            ops=[
                _Op(key="producer_byte_rate", value=1.0, remove=False),
                _Op(key="consumer_byte_rate", value=0.0, remove=True),
            ],
        )
    ],
    validate_only=True,
)


async def test_each_entity_has_its_own_result(harness: Harness) -> None:
    error = pb.AlterClientQuotasResponse.Entry(error_code=wire(ErrorCode.INVALID_REQUEST), error_message="no")
    harness.services.reply("AlterClientQuotas", pb.AlterClientQuotasResponse(entries=[error]))
    response = await harness.call(1, REQUEST, AlterClientQuotasResponse)
    (entry,) = response.entries
    assert (entry.error_code, entry.error_message) == (ErrorCode.INVALID_REQUEST, "no")
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("user", None)]
    sent = harness.services.only("AlterClientQuotas")
    assert sent.validate_only
    (sent_entry,) = sent.entries
    assert [(part.entity_type, part.HasField("entity_name")) for part in sent_entry.entity] == [
        ("user", False)
    ]
    assert [(op.key, op.HasField("value"), op.value) for op in sent_entry.ops] == [
        ("producer_byte_rate", True, 1.0),
        ("consumer_byte_rate", False, 0.0),
    ]


async def test_a_failure_has_an_error_for_each_entity(harness: Harness) -> None:
    harness.services.fail("AlterClientQuotas", ErrorCode.INVALID_REQUEST)
    response = await harness.call(1, REQUEST, AlterClientQuotasResponse)
    (entry,) = response.entries
    assert entry.error_code == ErrorCode.INVALID_REQUEST
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("user", None)]
