"""ACLs: as the catalog has them, and changes through the owner of the catalog. Kafka: `AclApis`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import text_format

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_server.catalog.acl_messages import created_acl, deleted_acl, filter_of
from sharebroker_server.gateway.admin.visibility import await_visible
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.security import audit

_Resource = admin.DescribeAclsResponse.Resource
_Acl = admin.DescribeAclsResponse.AclDescription
_PATTERN: Final = ("resource_type", "resource_name", "pattern_type")
"""The first fields of an ACL: what is protected."""

_PORTION: Final = 100
"""ACLs that are described, or logged as changed, in one turn of the event loop."""


async def describe_acls(
    gateway: Gateway, request: admin.DescribeAclsRequest, _: Deadline
) -> admin.DescribeAclsResponse:
    """Returns the ACLs that the filter of the request selects, by resource.

    Raises SECURITY_DISABLED, INVALID_REQUEST.
    """
    _check_enabled(gateway, "No Authorizer is configured on the broker")
    resources: dict[tuple[Any, ...], _Resource] = {}
    selected = list(gateway.catalog.catalog.acls.select(filter_of(request)))
    async for portion in gateway.turns.portions(selected, _PORTION):
        for acl in portion:
            fields = acl._asdict()
            pattern = {name: fields.pop(name) for name in _PATTERN}
            resource = resources.setdefault(acl[: len(_PATTERN)], _Resource(**pattern))
            resource.acls.append(_Acl(**fields))
    return admin.DescribeAclsResponse(resources=resources.values())


async def create_acls(
    gateway: Gateway, request: pb.CreateAclsRequest, deadline: Deadline
) -> pb.CreateAclsResponse:
    """Creates ACLs; returns when the metadata cache has them.

    Raises SECURITY_DISABLED, and errors of the call as a whole.
    """
    _check_enabled(gateway, "No Authorizer is configured.")
    with audit.changing("CreateAcls", "ACL", (one.resource_name for one in request.creations)):
        response = await gateway.coordinators.of_catalog(
            lambda stub, left: stub.CreateAcls(request, timeout=left), deadline
        )
    created = []
    pairs = zip(request.creations, response.results, strict=True)
    async for portion in gateway.turns.portions(pairs, _PORTION):
        for creation, result in portion:
            name = creation.resource_name
            audit.change("CreateAcls", "ACL", name, result.error_code, acl=_text(creation))
            if not result.error_code:
                created.append(created_acl(creation))
    await await_visible(gateway, lambda catalog: all(acl in catalog.acls for acl in created), deadline)
    return response


async def delete_acls(
    gateway: Gateway, request: pb.DeleteAclsRequest, deadline: Deadline
) -> pb.DeleteAclsResponse:
    """Deletes ACLs; returns when the metadata cache no longer has them.

    Raises SECURITY_DISABLED, and errors of the call as a whole.
    """
    _check_enabled(gateway, "No Authorizer is configured.")
    with audit.changing("DeleteAcls", "ACL", (one.resource_name_filter for one in request.filters)):
        response = await gateway.coordinators.of_catalog(
            lambda stub, left: stub.DeleteAcls(request, timeout=left), deadline
        )
    deleted = []
    async for portion in gateway.turns.portions(_outcomes(request, response), _PORTION):
        for outcome in portion:
            if isinstance(outcome, pb.DeleteAclsResponse.MatchingAcl):
                audit.change("DeleteAcls", "ACL", outcome.resource_name, acl=_text(outcome))
                deleted.append(deleted_acl(outcome))
            else:
                audit.change("DeleteAcls", "ACL", *outcome)
    await await_visible(gateway, lambda catalog: not any(acl in catalog.acls for acl in deleted), deadline)
    return response


def _outcomes(
    request: pb.DeleteAclsRequest, response: pb.DeleteAclsResponse
) -> Iterator[pb.DeleteAclsResponse.MatchingAcl | tuple[str, int]]:
    """Yields the resource and the error of each filter that failed, and the deleted ACLs."""
    for selector, result in zip(request.filters, response.filter_results, strict=True):
        if result.error_code:
            yield selector.resource_name_filter, result.error_code
        yield from result.matching_acls


def _text(acl: Any) -> str:
    """Returns the fields of an ACL in one line, each as `name: value`."""
    return text_format.MessageToString(acl, as_one_line=True)


def _check_enabled(gateway: Gateway, message: str) -> None:
    if gateway.unrestricted:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, message)
