"""What the caller of an RPC may do."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.authorization import GROUP, TOPIC, Access
from sharebroker_server.security.acl import AclOperation, AclResourceType
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
