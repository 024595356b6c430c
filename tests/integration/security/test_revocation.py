"""A permission that is revoked at one process ends the streams of another process within a second."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final

import grpc
import pytest

from sharebroker import Admin
from sharebroker.acls import Acl
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from tests.integration.security.users import SECONDS, Users, serving_users
from tests.support.client import rejection_of
from tests.testkit.brokers import equal_brokers

pytestmark = pytest.mark.servers

LONGEST: Final = float(os.environ.get("LONGEST", "5"))
"""Seconds from the response to the change until the stream has ended; 0.1 on two busy cores.

`make security` permits the documented second. `make test` permits more: other tests use the same cores."""


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    start = partial(equal_brokers, 2, fsync="everysec", settled=False)
    with serving_users(tmp_path_factory.mktemp("revocation"), start) as made:
        yield made


async def to_its_end(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


async def test_a_change_at_another_process_ends_the_stream(users: Users) -> None:
    topic, group = users.work()
    first, last = (process.address for process in users.place.cluster.processes)
    assert first != last == users.place.cluster.address
    async with users.calls("alice") as alice:
        await alice.publish(topic, ["a"])
        subscribe = pb.ConsumeRequest.Subscribe(group_id=group, topics=[topic], decode=True)
        stream = alice.share.Consume(timeout=SECONDS)
        await stream.write(pb.ConsumeRequest(subscribe=subscribe, credit=5))
        held: Sequence[Any] = ()
        while not held:
            message: Any = await stream.read()
            held = message.records
        with Admin(users.place.address(listener=first)) as admin:
            admin.create_acls([Acl("User:alice", "read", "topic", topic, permission_type="deny")])
        changed_at = monotonic()
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await to_its_end(stream)
        assert monotonic() - changed_at < LONGEST
    assert failure.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert rejection_of(failure.value).code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
