"""The port of the authorizer: a denied request gets the error of its resource type."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType, Requester, Resource
from sharebroker_server.security.authorizer import ALLOW_ALL, Authorizer, require
from sharebroker_server.security.principal import ANONYMOUS

REQUESTER = Requester(ANONYMOUS, "127.0.0.1")


class _DenyAll:
    def allows(self, requester: Requester, operation: AclOperation, resource: Resource) -> bool:
        return False

    def allows_any(self, requester: Requester, operation: AclOperation, kind: AclResourceType) -> bool:
        return False


def test_without_access_control_everything_is_allowed() -> None:
    authorizer: Authorizer = ALLOW_ALL
    require(authorizer, REQUESTER, AclOperation.ALTER, CLUSTER)
    assert authorizer.allows_any(REQUESTER, AclOperation.WRITE, AclResourceType.TOPIC)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (AclResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_a_denied_request_gets_the_error_of_its_resource_type(kind: AclResourceType, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as denied:
        require(_DenyAll(), REQUESTER, AclOperation.READ, Resource(kind, "x"))
    assert denied.value.code is code
