"""What the caller of an RPC may do."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.authorization import GROUP, MAX_CACHED_RIGHTS, TOPIC, Access, Caller, Rights
from sharebroker_server.security.acl import AclOperation, AclResourceType, Requester
from sharebroker_server.security.principal import Principal
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC as FLIGHTS
from tests.unit.gateway.grpc.calls import Context


@pytest.fixture
def table(harness: Harness) -> TableAuthorizer:
    table = harness.gateway.authorizer = TableAuthorizer()
    catalog = harness.gateway.catalog
    catalog.broker = dataclasses.replace(catalog.broker, auto_create_topics_enable=True)
    return table


def access_to(harness: Harness) -> Access:
    return Access(harness.gateway, Context(None))


async def test_without_access_control_the_caller_is_not_determined(harness: Harness) -> None:
    no_context: Any = None
    access = Access(harness.gateway, no_context)
    access.require_read("g", ["flights"])
    assert access.unrestricted
    assert access.allows_any(AclOperation.WRITE, TOPIC)
    assert access.creation_denial("new") is None


async def test_the_first_denied_resource_is_named(harness: Harness, table: TableAuthorizer) -> None:
    table.deny(AclOperation.READ, TOPIC, "b", "c")
    with pytest.raises(KafkaError) as denied:
        access_to(harness).require_read("g", ["a", "b", "c"])
    assert denied.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert denied.value.metadata == {"resource_type": "TOPIC", "resource": "b"}


async def test_the_group_is_checked_before_the_topics(harness: Harness, table: TableAuthorizer) -> None:
    table.deny_all()
    with pytest.raises(KafkaError) as denied:
        access_to(harness).require_read("g", ["a"])
    assert denied.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert table.checked == [(AclOperation.READ, GROUP, "g")]


async def test_an_unknown_id_is_not_denied(harness: Harness, table: TableAuthorizer) -> None:
    table.deny_all()
    assert access_to(harness).id_denial(AclOperation.READ, "unknown") is None
    assert access_to(harness).id_denial(AclOperation.READ, FLIGHTS.topic_id) is not None


@pytest.mark.parametrize(
    ("denied", "topic", "allowed"),
    [
        ([], "new", True),
        ([AclResourceType.CLUSTER], "new", True),
        ([AclResourceType.TOPIC], "new", True),
        ([AclResourceType.CLUSTER, AclResourceType.TOPIC], "new", False),
        ([AclResourceType.CLUSTER, AclResourceType.TOPIC], "flights", True),
    ],
)
async def test_creation_needs_create_on_the_cluster_or_the_topic(
    harness: Harness, table: TableAuthorizer, denied: list[AclResourceType], topic: str, allowed: bool
) -> None:
    for kind in denied:
        table.deny(AclOperation.CREATE, kind)
    assert (access_to(harness).creation_denial(topic) is None) is allowed


async def test_the_authorizer_decides_on_rights_on_any_resource(
    harness: Harness, table: TableAuthorizer
) -> None:
    assert access_to(harness).allows_any(AclOperation.WRITE, TOPIC)
    table.deny(AclOperation.WRITE, TOPIC)
    assert not access_to(harness).allows_any(AclOperation.WRITE, TOPIC)


async def test_work_ends_when_its_check_fails(harness: Harness, table: TableAuthorizer) -> None:
    access, started = access_to(harness), asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(access.run(lambda: access.require_read("g"), work()))
    await started.wait()
    harness.gateway.rechecks.repeat()
    table.deny(AclOperation.READ, GROUP)
    harness.gateway.rechecks.repeat()
    with pytest.raises(KafkaError) as denied:
        await waiting
    assert denied.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not len(harness.gateway.rechecks)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (AclResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
async def test_a_denied_operation_has_the_error_of_its_resource(
    harness: Harness, table: TableAuthorizer, kind: AclResourceType, code: ErrorCode
) -> None:
    table.deny(AclOperation.READ, kind, "a")
    rights = access_to(harness)
    rights.require(AclOperation.READ, kind, "b")
    with pytest.raises(KafkaError) as error:
        rights.require(AclOperation.READ, kind, "a")
    assert error.value.code is code
    assert rights.permitted(AclOperation.READ, kind, ["a", "b"]) == {"b"}


async def test_permission_is_cached_until_the_authorizer_changes(
    harness: Harness, table: TableAuthorizer
) -> None:
    rights = access_to(harness)
    for _ in range(3):
        rights.require_read("g", ["a"])
        assert rights.denial(AclOperation.READ, TOPIC, "a") is None
    assert table.checked == [(AclOperation.READ, GROUP, "g"), (AclOperation.READ, TOPIC, "a")]
    table.deny(AclOperation.READ, TOPIC, "a")
    assert not rights.allows_read("a")
    assert rights.allows_read("b")
    table.allow_all()
    assert rights.allows_read("a")


@pytest.mark.parametrize("operation", AclOperation)
@pytest.mark.parametrize("kind", AclResourceType)
async def test_cached_permission_is_of_one_operation_and_resource(
    harness: Harness, table: TableAuthorizer, operation: AclOperation, kind: AclResourceType
) -> None:
    table.deny_all(except_for=(operation, kind))
    rights = access_to(harness)
    assert rights.allows(operation, kind, "a")
    allowed = [
        (other, resource)
        for other in AclOperation
        for resource in AclResourceType
        if rights.allows(other, resource, "a")
    ]
    assert allowed == [(operation, kind)]


async def test_denial_is_decided_and_logged_each_time(harness: Harness, table: TableAuthorizer) -> None:
    table.deny(AclOperation.READ, TOPIC, "a")
    rights = access_to(harness)
    for _ in range(3):
        assert rights.denial(AclOperation.READ, TOPIC, "a") is not None
    assert table.checked == [(AclOperation.READ, TOPIC, "a")] * 3


async def test_few_permissions_are_cached(harness: Harness, table: TableAuthorizer) -> None:
    rights = access_to(harness)
    for _ in range(2):
        for number in range(MAX_CACHED_RIGHTS + 1):
            rights.require(AclOperation.READ, TOPIC, f"topic-{number}")
    last = (AclOperation.READ, TOPIC, f"topic-{MAX_CACHED_RIGHTS}")
    assert table.checked.count(last) == 2
    assert len(table.checked) == MAX_CACHED_RIGHTS + 2


@pytest.mark.parametrize(
    ("topic_id", "partition", "code"),
    [
        (FLIGHTS.topic_id, 1, None),
        (FLIGHTS.topic_id, 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (FLIGHTS.topic_id, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("absent", 0, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
async def test_only_existing_partitions_may_be_named(
    harness: Harness, topic_id: str, partition: int, code: ErrorCode | None
) -> None:
    caller, part = Caller("connection", Rights(harness.gateway, None)), TopicIdPartition(topic_id, partition)
    assert caller.partition_errors([part], forwards=False) == ({} if code is None else {part: code})


async def test_a_denied_partition_has_the_error_of_its_topic(
    harness: Harness, table: TableAuthorizer
) -> None:
    caller = Caller("connection", access_to(harness), lambda *_: False)
    known, missing = TopicIdPartition(FLIGHTS.topic_id, 0), TopicIdPartition(FLIGHTS.topic_id, 9)
    assert caller.partition_errors([known], forwards=False) == {known: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert caller.partition_errors([known], forwards=True) == {}
    table.deny(AclOperation.READ, TOPIC, FLIGHTS.name)
    table.checked.clear()
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert caller.partition_errors([known, missing], forwards=True) == {known: denied, missing: denied}
    assert table.checked == [(AclOperation.READ, TOPIC, FLIGHTS.name)], "once"
    assert not caller.may_read({FLIGHTS.topic_id})
    assert caller.may_read({"unknown"})
    with pytest.raises(KafkaError) as failure:
        caller.require_read("g", {FLIGHTS.topic_id})
    assert failure.value.code is denied


async def test_access_control_requires_a_requester(harness: Harness, table: TableAuthorizer) -> None:
    with pytest.raises(ValueError, match="requester"):
        Rights(harness.gateway, None)


async def test_rights_of_one_requester_are_equal(harness: Harness) -> None:
    alice, bob = (Requester(Principal(name), "host") for name in ("alice", "bob"))
    assert Rights(harness.gateway, alice) == Rights(harness.gateway, bob), "without access control"
    harness.gateway.authorizer = TableAuthorizer()
    assert Rights(harness.gateway, alice) == Rights(harness.gateway, alice)
    assert Rights(harness.gateway, alice) != Rights(harness.gateway, bob)
    assert len({Rights(harness.gateway, one) for one in (alice, alice, bob)}) == 2


@pytest.mark.parametrize("kind", [TOPIC, AclResourceType.CLUSTER])
async def test_topics_are_created_with_a_right_on_the_topic_or_the_cluster(
    harness: Harness, table: TableAuthorizer, kind: AclResourceType
) -> None:
    table.deny(AclOperation.CREATE, kind)
    access_to(harness).require_creation("new")
    table.deny(AclOperation.CREATE, TOPIC, "new")
    table.deny(AclOperation.CREATE, AclResourceType.CLUSTER)
    with pytest.raises(KafkaError) as failure:
        access_to(harness).require_creation("new")
    assert failure.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
