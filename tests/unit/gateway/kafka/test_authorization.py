"""The rights of a Kafka client, and the authorized operations in responses."""

from __future__ import annotations

import pytest

from sharebroker_server.gateway.kafka.authorization import (
    authorized_operations,
    cluster_operations,
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
    call.rights.require_on_cluster(AclOperation.ALTER)
    for kind, numbers in ON.items():
        assert operations(authorized_operations(call, Resource(kind, "x"), requested=True)) == numbers


def test_the_authorizer_receives_the_client_and_its_host(call: Call, authorizer: TableAuthorizer) -> None:
    call.rights.require(READ, TOPIC, "a")
    assert authorizer.requesters == [Requester(ANONYMOUS, "10.0.0.1")]
    assert authorizer.checked == [(READ, TOPIC, "a")]
    assert not call.gateway.unrestricted


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
