"""ACLs: as the catalog has them, and changes through the owner of the catalog. Kafka: `AclApis`."""

from __future__ import annotations

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


def describe_acls(gateway: Gateway, request: admin.DescribeAclsRequest) -> admin.DescribeAclsResponse:
    """Returns the ACLs that the filter of the request selects, by resource.

    Raises SECURITY_DISABLED, INVALID_REQUEST.
    """
    _check_enabled(gateway, "No Authorizer is configured on the broker")
    resources: dict[tuple[Any, ...], _Resource] = {}
    for acl in gateway.catalog.catalog.acls.select(filter_of(request)):
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
    for creation, result in zip(request.creations, response.results, strict=True):
        name = creation.resource_name
        audit.change("CreateAcls", "ACL", name, result.error_code, acl=_text(creation))
    pairs = zip(request.creations, response.results, strict=True)
    created = [created_acl(creation) for creation, result in pairs if not result.error_code]
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
    for selector, result in zip(request.filters, response.filter_results, strict=True):
        if result.error_code:
            audit.change("DeleteAcls", "ACL", selector.resource_name_filter, result.error_code)
        for acl in result.matching_acls:
            audit.change("DeleteAcls", "ACL", acl.resource_name, acl=_text(acl))
    deleted = [deleted_acl(acl) for result in response.filter_results for acl in result.matching_acls]
    await await_visible(gateway, lambda catalog: not any(acl in catalog.acls for acl in deleted), deadline)
    return response


def _text(acl: Any) -> str:
    """Returns the fields of an ACL in one line, each as `name: value`."""
    return text_format.MessageToString(acl, as_one_line=True)


def _check_enabled(gateway: Gateway, message: str) -> None:
    if gateway.unrestricted:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, message)
