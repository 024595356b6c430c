"""DescribeClientQuotas (48): the quotas of the entities that a filter selects."""

from __future__ import annotations

from sharebroker_server.catalog.quotas import QuotaFilterComponent, select_quotas
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.kafka_wire.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from sharebroker_server.security.acl import AclOperation

_Entry = DescribeClientQuotasResponse.EntryData
_Part = DescribeClientQuotasResponse.EntityData
_Value = DescribeClientQuotasResponse.ValueData


async def handle(call: Call[DescribeClientQuotasRequest]) -> DescribeClientQuotasResponse:
    """Returns the entities with their quotas. Raises INVALID_REQUEST, UNSUPPORTED_VERSION."""
    call.rights.require_on_cluster(AclOperation.DESCRIBE_CONFIGS)
    request = call.request
    components = [
        QuotaFilterComponent(one.entity_type, one.match_type, one.match) for one in request.components
    ]
    quotas = call.gateway.catalog.catalog.quotas
    return DescribeClientQuotasResponse(
        entries=[
            _Entry(
                entity=[_Part(entity_type=kind, entity_name=name) for kind, name in entity.parts.items()],
                values=[_Value(key=key.value, value=value) for key, value in values.items()],
            )
            for entity, values in select_quotas(quotas, components, strict=request.strict)
        ]
    )


API = Api(48, (0, 1), handle, Refusal(DescribeClientQuotasResponse, entries=None))
