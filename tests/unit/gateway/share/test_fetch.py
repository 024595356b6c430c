"""ShareFetch: sessions over the wire, the calls that leaders receive, and fetches from several leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.authorization import Caller, Rights
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.share.fetch import MOVED_WAIT, FetchedPartition, ShareFetch, share_fetch
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckResult,
    AcquireCall,
    AcquireResult,
    ReconcileCall,
    ReconcileResult,
)
from sharebroker_server.leader_calls.watches import BaseWatch
from sharebroker_server.security.acl import AclOperation, AclResourceType, Requester
from sharebroker_server.security.principal import Principal
from tests.testkit.authorizer import TableAuthorizer
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC, refusing
from tests.unit.gateway.share.requests import ACCEPT, RENEW, acknowledge, answered, fetch, records_of, refused


async def test_share_session_from_open_to_close(harness: Harness) -> None:
    harness.leader.answer = records_of(1)
    first = await harness.share.ShareFetch(fetch(0, 0, 1, batch_size=100))
    parts = answered(first)
    assert first.acquisition_lock_timeout_ms == 30_000
    assert (parts[0].records, parts[1].records) == (b"", b"batch")
    assert [(run.first_offset, run.last_offset) for run in parts[1].acquired_records] == [(0, 9)]
    (call,) = harness.leader.of(leader.AcquireRecordsRequest)
    assert (call.group_id, call.member_id, call.max_records, call.batch_size) == ("group", "me", 500, 100)
    assert [part.partition for part in call.partitions] == [0, 1]

    second = await harness.share.ShareFetch(fetch(1, 1, acks={1: [(0, 9, [ACCEPT])]}))
    assert list(answered(second)) == [1]
    assert answered(second)[1].acknowledge_error_code == 0
    (applied,) = harness.leader.of(leader.AcknowledgeRecordsRequest)
    assert (applied.partitions[0].batches[0].last_offset, applied.renew_allowed) == (9, False)

    ended = await harness.share.ShareFetch(fetch(-1, 1, acks={1: [(10, 10, [ACCEPT])]}))
    assert answered(ended)[1].records == b""
    assert len(harness.leader.of(leader.AcquireRecordsRequest)) == 2  # the last request fetches nothing
    await eventually(lambda: harness.leader.of(leader.ReleaseMemberRequest))
    (release,) = harness.leader.of(leader.ReleaseMemberRequest)
    assert (release.member_id, len(release.partitions)) == ("me", 2)
    assert (await refused(harness.share.ShareFetch(fetch(2)))).code is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_forgotten_partition_is_not_fetched(harness: Harness) -> None:
    await harness.share.ShareFetch(fetch(0, 0, 1))
    forgotten = pb.ShareFetchRequest.ForgottenTopic(topic_id=TOPIC.topic_id, partitions=[0])
    await harness.share.ShareFetch(fetch(1, forgotten_topics_data=[forgotten]))
    requests = harness.leader.of(leader.AcquireRecordsRequest)
    assert [[part.partition for part in request.partitions] for request in requests] == [[0, 1], [1]]


async def test_session_beyond_the_limit_is_rejected_until_one_closes(harness: Harness) -> None:
    for name in ("one", "two"):
        await harness.share.ShareFetch(fetch(0, 0, member_id=name))
    error = await refused(harness.share.ShareFetch(fetch(0, 0, max_wait_ms=10)))
    assert error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    await harness.share.ShareFetch(fetch(-1, member_id="one"))
    assert answered(await harness.share.ShareFetch(fetch(0, 0)))


async def test_closed_connection_frees_its_session(harness: Harness) -> None:
    for name in ("one", "two"):
        await harness.share.ShareFetch(fetch(0, 0, member_id=name))
    (connection,) = {session.connection for session in harness.gateway.sessions.expire(float("inf"))}
    assert connection.startswith("ipv4:")
    assert answered(await harness.share.ShareFetch(fetch(0, 0)))


async def test_unknown_partitions_have_their_error(harness: Harness) -> None:
    parts = answered(await harness.share.ShareFetch(fetch(0, 0, 9)))
    assert {index: part.error_code for index, part in parts.items()} == {0: 0, 9: 3}
    parts = answered(await harness.share.ShareAcknowledge(acknowledge(1, {9: [(0, 0, [ACCEPT])]})))
    assert parts[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = await harness.share.ShareFetch(fetch(0, 0, topic_id="B" * 22))
    assert answered(unknown)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_fetch_that_renews_acquires_nothing(harness: Harness) -> None:
    await harness.share.ShareFetch(fetch(0, 0))
    sizes: dict[str, Any] = {"max_records": 0, "min_bytes": 0, "max_bytes": 0}
    renewed = fetch(1, 0, acks={0: [(0, 9, [RENEW])]}, is_renew_ack=True, **sizes)
    assert answered(await harness.share.ShareFetch(renewed))[0].acknowledge_error_code == 0
    assert len(harness.leader.of(leader.AcquireRecordsRequest)) == 1
    assert harness.leader.of(leader.AcknowledgeRecordsRequest)[0].renew_allowed
    error = await refused(harness.share.ShareFetch(fetch(2, 0, is_renew_ack=True, max_wait_ms=5, **sizes)))
    assert [violation.field for violation in error.violations] == ["max_wait_ms"]


WRONG_REQUESTS = [
    (fetch(0, 0, group_id=""), "group_id"),
    (fetch(0, 0, member_id=""), "member_id"),
    (fetch(0, 0, member_id="x" * 37), "member_id"),
    (fetch(0, 0, max_records=-1), "max_records"),
    (fetch(0, 0, max_wait_ms=-1), "max_wait_ms"),
    (fetch(0, 0, acks={0: [(0, 0, [ACCEPT])]}), "topics.partitions.acknowledgement_batches"),
]


@pytest.mark.parametrize(("request_", "field"), WRONG_REQUESTS)
async def test_invalid_requests_name_the_field(
    harness: Harness, request_: pb.ShareFetchRequest, field: str
) -> None:
    error = await refused(harness.share.ShareFetch(request_))
    assert error.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in error.violations] == [field]
    assert len(harness.gateway.sessions) == 0


async def test_wait_is_short_if_another_broker_leads_a_partition(harness: Harness) -> None:
    """librdkafka fetches from one broker at a time: a wait here would delay the records there."""
    caller = Caller("connection", Rights(harness.gateway, None), lambda _, index: index == 0)

    async def fetched(epoch: int, *partitions: int) -> list[tuple[int, ErrorCode]]:
        parts: dict[TopicIdPartition, Sequence[AckBatch]] = {
            TopicIdPartition(TOPIC.topic_id, index): [] for index in partitions
        }
        key = SessionKey("group", "me")
        request = ShareFetch(caller, key, epoch, parts, (), 60_000, 1, 1_000_000, 500)
        response = await share_fetch(harness.gateway, request, Deadline(90))
        return [(one.partition.partition, one.error) for one in response]

    moved = (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert moved in await fetched(0, 0, 1)
    assert await fetched(1) == [moved]
    requests = harness.leader.of(leader.AcquireRecordsRequest)
    assert requests[0].max_wait_ms == 0
    assert all(request.max_wait_ms <= MOVED_WAIT * 1000 for request in requests)


@pytest.mark.parametrize(("first_loaded", "least", "min_bytes"), [(True, 1, 1), (False, 1, 0), (False, 2, 2)])
async def test_first_loaded_partition_completes_only_librdkafka_fetches(
    harness: Harness, first_loaded: bool, least: int, min_bytes: int
) -> None:
    parts: dict[TopicIdPartition, Sequence[AckBatch]] = {TopicIdPartition(TOPIC.topic_id, 0): []}
    key, caller = SessionKey("group", "me"), Caller("connection", Rights(harness.gateway, None))
    request = ShareFetch(caller, key, 0, parts, (), 0, least, 1_000_000, 500, first_loaded=first_loaded)
    await share_fetch(harness.gateway, request, Deadline(90))
    (call,) = harness.leader.of(leader.AcquireRecordsRequest)
    assert call.min_bytes == min_bytes


async def test_only_a_loss_of_permissions_ends_a_wait(harness: Harness, calls: Calls) -> None:
    table = harness.gateway.authorizer = TableAuthorizer()
    permitted = TopicIdPartition(TOPIC.topic_id, 0)
    forbidden = TopicIdPartition("C" * 21 + "A", 0)
    catalog = harness.gateway.catalog.catalog
    catalog.apply(TopicRecord(Topic(forbidden.topic_id, "forbidden", 1)), catalog.position + 1)
    table.deny(AclOperation.READ, AclResourceType.TOPIC, "forbidden")
    caller = Caller("connection", Rights(harness.gateway, Requester(Principal("alice"), "host")))
    key, parts = SessionKey("group", "alice"), (permitted, forbidden)

    def fetched(epoch: int) -> asyncio.Task[list[FetchedPartition]]:
        asked: dict[TopicIdPartition, Sequence[AckBatch]] = {} if epoch else {part: [] for part in parts}
        request = ShareFetch(caller, key, epoch, asked, (), 20_000, 1, 1_000_000, 500)
        return asyncio.ensure_future(share_fetch(harness.gateway, request, Deadline(90)))

    assert (forbidden, ErrorCode.TOPIC_AUTHORIZATION_FAILED) in [
        (one.partition, one.error) for one in await fetched(0)
    ]
    calls.fetches.clear()
    waiting = fetched(1)
    await eventually(lambda: calls.fetches)
    harness.gateway.rechecks.repeat()  # an ACL changed that concerns no topic from which the fetch acquires
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    table.deny(AclOperation.READ, AclResourceType.TOPIC, TOPIC.name)
    harness.gateway.rechecks.repeat()
    results = await asyncio.wait_for(waiting, 20)
    assert (permitted, ErrorCode.TOPIC_AUTHORIZATION_FAILED) in [
        (one.partition, one.error) for one in results
    ]


async def test_unexpected_error_codes_become_offset_not_available(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.GROUP_ID_NOT_FOUND)
    part = answered(await harness.share.ShareFetch(fetch(0, 0, max_wait_ms=60_000)))[0]
    assert part.error_code == ErrorCode.OFFSET_NOT_AVAILABLE


class Calls:
    """A leader of this process that has no records; its watches report what a test sets."""

    def __init__(self) -> None:
        self.fetches: list[AcquireCall] = []
        self.watches: list[Watching] = []
        self.can_watch = True

    async def acquire(self, call: AcquireCall) -> list[AcquireResult]:
        self.fetches.append(call)
        await asyncio.sleep(call.max_wait)
        return [AcquireResult(*part) for part in call.partitions]

    async def acknowledge(self, call: AcknowledgeCall, timeout: float) -> list[AckResult]:
        return [AckResult(part.topic_id, part.partition) for part in call.parts]

    async def reconcile(self, call: ReconcileCall, timeout: float) -> list[ReconcileResult]:
        raise NotImplementedError

    async def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> Watching | None:
        if not self.can_watch:
            return None
        self.watches.append(Watching())
        return self.watches[-1]


class Watching(BaseWatch):
    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []
        self.open = asyncio.Event()
        self.open.set()

    async def changes(self, timeout: float) -> bool:
        self.waited.append(timeout)
        await self.open.wait()
        return not self.active

    def _stop(self) -> None:
        """No leader is behind the gateway."""


@pytest.fixture
async def calls(harness: Harness) -> Calls:
    calls = Calls()
    await harness.share.ShareFetch(fetch(0, 0, 1, member_id="first"))  # has the leaders looked up
    harness.router.register_local(SharePartitionLeaderServiceStub, harness.leader, calls)
    return calls


async def test_idle_fetch_waits_at_the_watch_and_calls_no_leader(harness: Harness, calls: Calls) -> None:
    await harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await harness.share.ShareFetch(fetch(1, max_wait_ms=1))
    assert (len(calls.fetches), len(calls.watches)) == (2, 1)
    for epoch in (2, 3):
        assert answered(await harness.share.ShareFetch(fetch(epoch, max_wait_ms=250))) == {}
    assert (len(calls.fetches), calls.watches[0].waited) == (2, [0.25, 0.25])


CHANGES: list[Any] = [
    fetch(2, 1, max_wait_ms=1),
    fetch(2, 0, acks={0: [(0, 0, [ACCEPT])]}, max_wait_ms=1),
    fetch(
        2,
        max_wait_ms=1,
        forgotten_topics_data=[pb.ShareFetchRequest.ForgottenTopic(topic_id=TOPIC.topic_id, partitions=[1])],
    ),
    fetch(2, max_records=0, max_wait_ms=1),
    fetch(-1, max_wait_ms=1),
]


@pytest.mark.parametrize("request_", CHANGES)
async def test_changed_request_ends_the_watch(
    harness: Harness, calls: Calls, request_: pb.ShareFetchRequest
) -> None:
    await harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await harness.share.ShareFetch(fetch(1, max_wait_ms=1))
    await harness.share.ShareFetch(request_)
    assert (calls.watches[0].active, calls.watches[0].waited) == (False, [])


async def test_fetch_follows_when_the_watch_ends(harness: Harness, calls: Calls) -> None:
    await harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await harness.share.ShareFetch(fetch(1, max_wait_ms=1))
    calls.watches[0].end()
    await harness.share.ShareFetch(fetch(2, max_wait_ms=50))
    assert (len(calls.fetches), len(calls.watches)) == (3, 2)
    assert calls.fetches[-1].max_wait <= 0.05


async def test_replaced_session_ends_its_watch(harness: Harness, calls: Calls) -> None:
    await harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await harness.share.ShareFetch(fetch(1, max_wait_ms=1))
    await harness.share.ShareFetch(fetch(0, 0, max_wait_ms=1))
    assert not calls.watches[0].active


async def test_request_overtaken_during_the_watch_is_rejected(harness: Harness, calls: Calls) -> None:
    await harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await harness.share.ShareFetch(fetch(1, max_wait_ms=1))
    calls.watches[0].open.clear()
    slow = asyncio.ensure_future(harness.share.ShareFetch(fetch(2, max_wait_ms=1)))
    await eventually(lambda: calls.watches[0].waited)
    await harness.share.ShareAcknowledge(acknowledge(3, {}))
    calls.watches[0].open.set()
    assert (await refused(slow)).code is ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_no_watch_if_the_leader_cannot_provide_one(harness: Harness, calls: Calls) -> None:
    calls.can_watch = False
    for epoch in range(3):
        await harness.share.ShareFetch(fetch(epoch, *((0, 1) if not epoch else ()), max_wait_ms=1))
    assert len(calls.fetches) == 3


async def test_partitions_of_several_leaders_are_watched_at_each(harness: Harness, calls: Calls) -> None:
    other = harness.local_leader(2, 1)
    await harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await harness.share.ShareFetch(fetch(1, max_wait_ms=1))
    await eventually(lambda: other.watching)
    fetches, requests = len(calls.fetches), len(other.requests)
    assert answered(await harness.share.ShareFetch(fetch(2, max_wait_ms=5))) == {}
    assert (len(calls.fetches), len(other.requests)) == (fetches, requests)
    calls.watches[-1].end()
    await eventually(lambda: not other.watching)
    await harness.share.ShareFetch(fetch(3, max_wait_ms=1))
    assert len(other.requests) > requests


async def test_no_watch_if_one_of_several_leaders_has_records(harness: Harness, calls: Calls) -> None:
    other = harness.local_leader(2, 1)
    calls.can_watch = False
    for epoch in range(3):
        await harness.share.ShareFetch(fetch(epoch, *((1, 0) if not epoch else ()), max_wait_ms=1))
    assert len(calls.fetches) >= 3
    await eventually(lambda: not other.watching)


async def test_no_watch_without_a_known_leader(harness: Harness, calls: Calls) -> None:
    harness.ownership.no_owner = True
    assert await harness.gateway.leaders.watch("group", [TopicIdPartition(TOPIC.topic_id, 0)]) is None
    assert calls.watches == []


async def test_moved_partition_is_fetched_from_its_new_leader(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def settle(_: str) -> None:
        harness.leader.answer = records_of(0)

    harness.ownership.on_forget = settle
    parts = answered(await harness.share.ShareFetch(fetch(0, 0, max_wait_ms=5_000)))
    assert parts[0].records == b"batch"
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    acks = {0: [(0, 9, [ACCEPT])]}
    assert answered(await harness.share.ShareAcknowledge(acknowledge(1, acks)))[0].error_code == 0


async def test_partition_without_leader_fails_at_the_end_of_the_wait(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    part = answered(await harness.share.ShareFetch(fetch(0, 0, max_wait_ms=10)))[0]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (-1, -1)


async def test_several_leaders_fill_one_response_up_to_its_limit(harness: Harness) -> None:
    other = harness.local_leader(2, 1)
    harness.leader.answer = other.answer = records_of(0, 1)
    parts = answered(await harness.share.ShareFetch(fetch(0, 0, 1, max_records=15)))
    assert {index: bool(part.records) for index, part in parts.items()} == {0: True, 1: True}
    assert [request.max_records for request in (*harness.leader.requests, *other.requests)] == [15, 5]

    harness.leader.requests.clear()
    other.requests.clear()
    parts = answered(await harness.share.ShareFetch(fetch(1, max_records=10)))
    assert list(parts) == [1]  # it is the first in turn, and its records suffice
    assert harness.leader.requests == []


async def test_fetch_from_several_leaders_waits_for_a_notification(harness: Harness) -> None:
    other = harness.local_leader(2, 1)
    task = asyncio.ensure_future(harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=20_000)))
    await eventually(lambda: harness.leader.watching and other.watching)
    other.comes.set()  # but its state is not loaded yet
    await eventually(lambda: len(other.requests) > 2)
    other.answer = records_of(1)
    assert answered(await task)[1].records == b"batch"
    assert all(request.max_wait_ms == 0 for request in harness.leader.requests)
    await eventually(lambda: not harness.leader.watching)


async def test_several_leaders_without_records_are_called_once(harness: Harness) -> None:
    other = harness.local_leader(2, 1)
    task = asyncio.ensure_future(harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=300)))
    await eventually(lambda: harness.leader.watching and other.watching)
    assert answered(await task).keys() == {0, 1}
    assert (len(harness.leader.requests), len(other.requests)) == (2, 2)  # on arrival and at its deadline


@pytest.mark.parametrize("overtakes", [True, False])
async def test_a_watch_that_begins_late_ends_with_its_session(
    harness: Harness, calls: Calls, overtakes: bool
) -> None:
    opened, watch, begun = asyncio.Event(), calls.watch, asyncio.Event()

    async def late(group_id: str, partitions: Sequence[TopicIdPartition]) -> Watching | None:
        begun.set()
        await opened.wait()
        return await watch(group_id, partitions)

    calls.watch = late  # type: ignore[method-assign]
    await harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    fetching = asyncio.ensure_future(harness.share.ShareFetch(fetch(1, max_wait_ms=1)))
    await begun.wait()
    await harness.share.ShareAcknowledge(acknowledge(2 if overtakes else -1, {}))
    opened.set()
    await fetching
    assert [watch.active for watch in calls.watches] == [False]
    session = harness.gateway.sessions.get(SessionKey("group", "me"))
    assert (session is not None) is overtakes
    assert session is None or session.watch is None
