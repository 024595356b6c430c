"""What handlers ask the authorizer, and the authorized operations in responses."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.authorization import (
    authorized,
    authorized_operations,
    cluster_operations,
    is_unrestricted,
    may_describe_topic_configs,
    require,
    require_creation,
    require_on_cluster,
)
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType, Requester, Resource
from sharebroker_server.security.principal import ANONYMOUS
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.kafka.api.harness import Harness

READ, TOPIC = AclOperation.READ, AclResourceType.TOPIC
ON = {
    AclResourceType.TOPIC: {3, 4, 5, 6, 7, 8, 10, 11},
    AclResourceType.GROUP: {3, 6, 8, 10, 11},
    AclResourceType.CLUSTER: {5, 7, 8, 9, 10, 11, 12},
}


@pytest.fixture
def authorizer(api_harness: Harness) -> TableAuthorizer:
    authorizer = api_harness.gateway.authorizer = TableAuthorizer()
    return authorizer


def operations(bits: int) -> set[int]:
    return {number for number in range(16) if bits >> number & 1}


def test_without_access_control_everything_is_allowed(call: Call) -> None:
    require_on_cluster(call, AclOperation.ALTER)
    assert is_unrestricted(call)
    assert authorized(call, READ, TOPIC, ["a", "b", "a"]) == {"a", "b"}
    for kind, numbers in ON.items():
        assert operations(authorized_operations(call, Resource(kind, "x"), requested=True)) == numbers


def test_the_authorizer_receives_the_client_and_its_host(call: Call, authorizer: TableAuthorizer) -> None:
    require(call, READ, TOPIC, "a")
    assert authorizer.requesters == [Requester(ANONYMOUS, "10.0.0.1")]
    assert authorizer.checked == [(READ, TOPIC, "a")]
    assert not is_unrestricted(call)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (AclResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_a_denied_operation_has_the_error_of_its_resource(
    call: Call, authorizer: TableAuthorizer, kind: AclResourceType, code: ErrorCode
) -> None:
    authorizer.deny(READ, kind, "a")
    require(call, READ, kind, "b")
    with pytest.raises(KafkaError) as error:
        require(call, READ, kind, "a")
    assert error.value.code is code
    assert authorized(call, READ, kind, ["a", "b"]) == {"b"}


@pytest.mark.parametrize(
    ("denied", "allowed"),
    [
        ([], True),
        ([AclResourceType.TOPIC], True),
        ([AclResourceType.CLUSTER], True),
        ([AclResourceType.TOPIC, AclResourceType.CLUSTER], False),
    ],
)
def test_a_topic_is_created_with_the_permission_on_the_cluster_or_the_topic(
    call: Call, authorizer: TableAuthorizer, denied: list[AclResourceType], allowed: bool
) -> None:
    for kind in denied:
        authorizer.deny(AclOperation.CREATE, kind)
    if allowed:
        require_creation(call, "a")
        return
    with pytest.raises(KafkaError) as error:
        require_creation(call, "a")
    assert error.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_configs_of_a_topic_require_describe_configs(call: Call, authorizer: TableAuthorizer) -> None:
    authorizer.deny(AclOperation.DESCRIBE_CONFIGS, TOPIC, "a")
    assert [may_describe_topic_configs(call, name) for name in ("a", "b")] == [False, True]


def test_authorized_operations_exclude_the_denied_ones(call: Call, authorizer: TableAuthorizer) -> None:
    authorizer.deny(READ, TOPIC, "a")
    of_a = authorized_operations(call, Resource(TOPIC, "a"), requested=True)
    of_b = authorized_operations(call, Resource(TOPIC, "b"), requested=True)
    assert operations(of_a) == ON[TOPIC] - {READ}
    assert operations(of_b) == ON[TOPIC]
    assert authorized_operations(call, Resource(TOPIC, "a"), requested=False) == -(1 << 31)


def test_operations_on_the_cluster_require_describe(call: Call, authorizer: TableAuthorizer) -> None:
    assert operations(cluster_operations(call, requested=True)) == ON[CLUSTER.type]
    authorizer.deny(AclOperation.DESCRIBE, CLUSTER.type)
    assert cluster_operations(call, requested=True) == 0
    assert cluster_operations(call, requested=False) == -(1 << 31)
