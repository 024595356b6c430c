"""The port of the authorizer: a denied request gets the error of its resource type."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType, Requester, Resource
from sharebroker_server.security.authorizer import ALLOW_ALL, Authorizer, Rechecks, denial
from sharebroker_server.security.principal import ANONYMOUS

REQUESTER = Requester(ANONYMOUS, "127.0.0.1")


def test_without_access_control_everything_is_allowed() -> None:
    authorizer: Authorizer = ALLOW_ALL
    assert authorizer.allows(REQUESTER, AclOperation.ALTER, CLUSTER)
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
    error = denial(REQUESTER, AclOperation.READ, Resource(kind, "x"))
    assert error.code is code
    assert error.metadata == {"resource_type": kind.name, "resource": "x"}


def _refuse() -> None:
    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_only_streams_whose_check_fails_are_ended() -> None:
    rechecks, ended = Rechecks(), list[BaseException]()
    with rechecks.during(lambda: None, ended.append), rechecks.during(_refuse, ended.append):
        rechecks.repeat()
    assert [error.code for error in ended if isinstance(error, KafkaError)] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ]
    rechecks.repeat()
    assert len(ended) == 1, "a stream that ended is not checked"


async def test_work_that_completes_returns_its_result() -> None:
    async def work() -> int:
        return 7

    assert await Rechecks().run(_refuse, work()) == 7


async def test_cancelled_work_is_cancelled_and_not_denied() -> None:
    rechecks, started, ended = Rechecks(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(rechecks.run(_refuse, work()))
    await started.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(ended.wait(), 10)
    assert not len(rechecks)


async def test_denied_work_is_cancelled() -> None:
    rechecks, started = Rechecks(), asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(rechecks.run(_refuse, work()))
    await started.wait()
    rechecks.repeat()
    with pytest.raises(KafkaError) as denied:
        await waiting
    assert denied.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_denied_work_may_have_a_result() -> None:
    rechecks, started = Rechecks(), asyncio.Event()

    async def work() -> ErrorCode:
        started.set()
        await asyncio.Event().wait()
        return ErrorCode.NONE

    waiting = asyncio.create_task(rechecks.run(_refuse, work(), lambda error: error.code))
    await started.wait()
    rechecks.repeat()
    assert await waiting is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_denied_work_that_is_cancelled_too_is_cancelled() -> None:
    rechecks, started = Rechecks(), asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(rechecks.run(_refuse, work()))
    await started.wait()
    rechecks.repeat()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_the_caller_of_denied_work_continues() -> None:
    rechecks, started = Rechecks(), asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    async def call() -> str:
        with pytest.raises(KafkaError):
            await rechecks.run(_refuse, work())
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
        return "continued"

    waiting = asyncio.create_task(call())
    await started.wait()
    rechecks.repeat()
    rechecks.repeat()
    assert await waiting == "continued"
    assert not waiting.cancelling()
