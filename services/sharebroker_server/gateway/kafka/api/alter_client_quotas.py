"""AlterClientQuotas (49): sets and removes quotas of clients."""

from __future__ import annotations

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_server.gateway.admin.quotas import alter_quotas
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.kafka_wire.messages import AlterClientQuotasRequest, AlterClientQuotasResponse
from sharebroker_server.security.acl import AclOperation

_Entry = AlterClientQuotasResponse.EntryData
_Part = AlterClientQuotasResponse.EntityData


async def handle(call: Call[AlterClientQuotasRequest]) -> AlterClientQuotasResponse:
    """Returns one result per entity."""
    call.rights.require_on_cluster(AclOperation.ALTER_CONFIGS)
    request = pb.AlterClientQuotasRequest(validate_only=call.request.validate_only)
    for entry in call.request.entries:
        added = request.entries.add()
        for part in entry.entity:
            added.entity.add(entity_type=part.entity_type, entity_name=part.entity_name)
        for op in entry.ops:
            added.ops.add(key=op.key, value=None if op.remove else op.value)
    response = await alter_quotas(call.gateway, request, call.deadline())
    return AlterClientQuotasResponse(
        entries=[
            _Entry(
                error_code=result.error_code,
                error_message=result.error_message or None,
                entity=[
                    _Part(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
                ],
            )
            for entry, result in zip(call.request.entries, response.entries, strict=True)
        ]
    )


_refuse = Refusal(AlterClientQuotasResponse, {"entries": "entries", "entries.entity": "entity"})
API = Api(49, (0, 1), handle, _refuse)
