"""Quotas of clients: as the catalog has them, and changes through the owner of the catalog."""

from __future__ import annotations

from collections.abc import Iterable

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.quotas import (
    QuotaEntity,
    QuotaFilterComponent,
    QuotaKey,
    entity_of,
    select_quotas,
)
from sharebroker_server.gateway.admin.visibility import await_visible
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.security import audit

_Entry = admin.DescribeClientQuotasResponse.Entry
_Value = admin.DescribeClientQuotasResponse.Value


def describe_quotas(
    gateway: Gateway, request: admin.DescribeClientQuotasRequest
) -> admin.DescribeClientQuotasResponse:
    """Returns the entities that the filter of the request selects, with their quotas.

    Raises INVALID_REQUEST, UNSUPPORTED_VERSION.
    """
    components = [
        QuotaFilterComponent(one.entity_type, one.match_type, one.match if one.HasField("match") else None)
        for one in request.components
    ]
    selected = select_quotas(gateway.catalog.catalog.quotas, components, strict=request.strict)
    return admin.DescribeClientQuotasResponse(
        entries=[
            _Entry(
                entity=[
                    pb.QuotaEntityPart(entity_type=kind, entity_name=name)
                    for kind, name in entity.parts.items()
                ],
                values=[_Value(key=key.value, value=value) for key, value in values.items()],
            )
            for entity, values in selected
        ]
    )


async def alter_quotas(
    gateway: Gateway, request: pb.AlterClientQuotasRequest, deadline: Deadline
) -> pb.AlterClientQuotasResponse:
    """Changes quotas; returns when the metadata cache has the changes. Raises KafkaError."""
    with audit.changing("AlterClientQuotas", "QUOTA", (_named(entry.entity) for entry in request.entries)):
        response = await gateway.coordinators.of_catalog(
            lambda stub, left: stub.AlterClientQuotas(request, timeout=left), deadline
        )
    if request.validate_only:
        return response
    expected: list[tuple[QuotaEntity, str, float | None]] = []
    for entry, result in zip(request.entries, response.entries, strict=True):
        changes = {op.key: op.value if op.HasField("value") else None for op in entry.ops}
        audit.change("AlterClientQuotas", "QUOTA", _named(entry.entity), result.error_code, quotas=changes)
        if not result.error_code:
            entity = entity_of(quota_parts(entry.entity))
            expected += ((entity, key, value) for key, value in changes.items())

    def visible(catalog: TopicCatalog) -> bool:
        return all(catalog.quotas.of(entity).get(QuotaKey(key)) == value for entity, key, value in expected)

    await await_visible(gateway, visible, deadline)
    return response


def quota_parts(entity: Iterable[pb.QuotaEntityPart]) -> list[tuple[str, str | None]]:
    """Returns the types and names of an entity's parts; a name None is the default."""
    return [(part.entity_type, part.entity_name if part.HasField("entity_name") else None) for part in entity]


def _named(entity: Iterable[pb.QuotaEntityPart]) -> str:
    """Returns an entity as `user=alice, client-id=<default>`."""
    return ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in quota_parts(entity))
