"""ShareFetch and ShareAcknowledge: sessions over the wire, and what leaders are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import grpc
import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import MOVED_WAIT
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.fetch_metrics import FetchCounts
from sharebroker_server.gateway.share.acknowledge import Caller, ShareAcknowledge, share_acknowledge
from sharebroker_server.gateway.share.fetch import ShareFetch, share_fetch
from sharebroker_server.gateway.share.session_reaper import IdleSessions
from sharebroker_server.rpc.partition_errors import wire
from sharebroker_server.share_calls.values import (
    AcknowledgeCall,
    Acknowledged,
    AcquireCall,
    Acquisition,
    SettleCall,
    Settlement,
)
from sharebroker_server.share_calls.watches import StandingWatch
from sharebroker_server.testkit.waiting import eventually
from tests.unit.gateway.conftest import Bench
from tests.unit.gateway.fakes import TOPIC, Leader, refusing

ACCEPT, RENEW = 1, 4
ME = SessionKey("group", "me")
Batch = tuple[int, int, list[int]]


def fetch(epoch: int, *partitions: int, acks: dict[int, list[Batch]] | None = None, **more: Any) -> Any:
    topic = pb.ShareFetchRequest.FetchTopic(
        topic_id=more.pop("topic_id", TOPIC.topic_id),
        partitions=[
            pb.ShareFetchRequest.FetchPartition(
                partition_index=index, acknowledgement_batches=batches((acks or {}).get(index, []))
            )
            for index in partitions
        ],
    )
    fields: dict[str, Any] = {
        "group_id": "group",
        "member_id": "me",
        "max_records": 500,
        "min_bytes": 1,
    } | more
    return pb.ShareFetchRequest(share_session_epoch=epoch, topics=[topic] if partitions else [], **fields)


def acknowledge(epoch: int, acks: dict[int, list[Batch]], **more: Any) -> pb.ShareAcknowledgeRequest:
    parts = [
        pb.ShareAcknowledgeRequest.AcknowledgePartition(
            partition_index=index, acknowledgement_batches=batches(some)
        )
        for index, some in acks.items()
    ]
    topic = pb.ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=TOPIC.topic_id, partitions=parts)
    return pb.ShareAcknowledgeRequest(
        group_id="group", member_id="me", share_session_epoch=epoch, topics=[topic], **more
    )


def batches(some: Iterable[Batch]) -> list[pb.AcknowledgementBatch]:
    return [
        pb.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
        for first, last, types in some
    ]


def answered(response: Any) -> dict[int, Any]:
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def records_of(*partitions: int) -> Any:
    """Answers of a leader that has ten records in each of these partitions."""

    def answer(request: Any) -> Any:
        response = Leader.all_is_well(request)
        if isinstance(request, leader.AcquireRecordsRequest):
            for part in response.partitions:
                if part.partition in partitions:
                    part.record_batches = b"batch"
                    part.acquired.add(first_offset=0, last_offset=9, delivery_count=1)
        return response

    return answer


async def refused(call: Any) -> KafkaError:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await call
    return from_rpc_error(failure.value)


async def test_a_session_from_its_opening_to_its_end(bench: Bench) -> None:
    bench.leader.answer = records_of(1)
    first = await bench.share.ShareFetch(fetch(0, 0, 1, batch_size=100))
    parts = answered(first)
    assert first.acquisition_lock_timeout_ms == 30_000
    assert (parts[0].records, parts[1].records) == (b"", b"batch")
    assert [(run.first_offset, run.last_offset) for run in parts[1].acquired_records] == [(0, 9)]
    (asked,) = bench.leader.of(leader.AcquireRecordsRequest)
    assert (asked.group_id, asked.member_id, asked.max_records, asked.batch_size) == ("group", "me", 500, 100)
    assert [part.partition for part in asked.partitions] == [0, 1]

    second = await bench.share.ShareFetch(fetch(1, 1, acks={1: [(0, 9, [ACCEPT])]}))
    assert list(answered(second)) == [1]
    assert answered(second)[1].acknowledge_error_code == 0
    (applied,) = bench.leader.of(leader.AcknowledgeRecordsRequest)
    assert (applied.partitions[0].batches[0].last_offset, applied.renew_allowed) == (9, False)

    ended = await bench.share.ShareFetch(fetch(-1, 1, acks={1: [(10, 10, [ACCEPT])]}))
    assert answered(ended)[1].records == b""
    assert len(bench.leader.of(leader.AcquireRecordsRequest)) == 2  # the last request fetches nothing
    await eventually(lambda: bench.leader.of(leader.ReleaseMemberRequest))
    (release,) = bench.leader.of(leader.ReleaseMemberRequest)
    assert (release.member_id, len(release.partitions)) == ("me", 2)
    assert (await refused(bench.share.ShareFetch(fetch(2)))).code is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_a_session_takes_only_its_own_records_with_it(bench: Bench) -> None:
    await bench.share.ShareFetch(fetch(0, 0))
    bench.gateway.sessions.disconnect(bench.gateway.sessions.find(ME).connection)
    await bench.share.ShareFetch(fetch(0, 0))
    await bench.share.ShareFetch(fetch(-1))
    await eventually(lambda: bench.leader.of(leader.ReleaseMemberRequest))
    first, second = (asked.session_id for asked in bench.leader.of(leader.AcquireRecordsRequest))
    assert first != second
    assert [asked.session_id for asked in bench.leader.of(leader.ReleaseMemberRequest)] == [second]


async def test_a_session_that_was_replaced_while_it_ended_goes_on(bench: Bench) -> None:
    await bench.share.ShareFetch(fetch(0, 0))

    def meanwhile(request: Any) -> Any:
        bench.gateway.sessions.open(ME, "another connection", (), 0.0)
        return Leader.all_is_well(request)

    bench.leader.answer = meanwhile
    await bench.share.ShareFetch(fetch(-1, 0, acks={0: [(0, 0, [ACCEPT])]}))
    await bench.gateway.stop()  # waits for what would be under way
    assert bench.leader.of(leader.ReleaseMemberRequest) == []


async def test_a_session_ends_with_an_acknowledgement_too(bench: Bench) -> None:
    await bench.share.ShareFetch(fetch(0, 0))
    answer = await bench.share.ShareAcknowledge(acknowledge(-1, {0: [(0, 0, [ACCEPT])]}))
    assert answered(answer)[0].error_code == 0
    await eventually(lambda: bench.leader.of(leader.ReleaseMemberRequest))
    code = (await refused(bench.share.ShareAcknowledge(acknowledge(-1, {})))).code
    assert code is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_fetches_and_acknowledgements_share_one_epoch(bench: Bench) -> None:
    await bench.share.ShareFetch(fetch(0, 0))
    await bench.share.ShareAcknowledge(acknowledge(1, {}))
    await bench.share.ShareFetch(fetch(2))
    error = await refused(bench.share.ShareAcknowledge(acknowledge(2, {})))
    assert error.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert error.metadata["expected_epoch"] == "3"


async def test_a_forgotten_partition_is_not_fetched_any_more(bench: Bench) -> None:
    await bench.share.ShareFetch(fetch(0, 0, 1))
    forgotten = pb.ShareFetchRequest.ForgottenTopic(topic_id=TOPIC.topic_id, partitions=[0])
    await bench.share.ShareFetch(fetch(1, forgotten_topics_data=[forgotten]))
    asked = bench.leader.of(leader.AcquireRecordsRequest)
    assert [[part.partition for part in request.partitions] for request in asked] == [[0, 1], [1]]


async def test_the_third_session_of_two_is_refused_until_one_closes(bench: Bench) -> None:
    for name in ("one", "two"):
        await bench.share.ShareFetch(fetch(0, 0, member_id=name))
    error = await refused(bench.share.ShareFetch(fetch(0, 0, max_wait_ms=10)))
    assert error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    await bench.share.ShareFetch(fetch(-1, member_id="one"))
    assert answered(await bench.share.ShareFetch(fetch(0, 0)))


async def test_a_connection_that_is_gone_makes_room(bench: Bench) -> None:
    for name in ("one", "two"):
        await bench.share.ShareFetch(fetch(0, 0, member_id=name))
    (connection,) = {session.connection for session in bench.gateway.sessions.expire(float("inf"))}
    assert connection.startswith("ipv4:")
    assert answered(await bench.share.ShareFetch(fetch(0, 0)))


async def test_a_session_that_nobody_uses_ends_by_itself(bench: Bench) -> None:
    bench.gateway.config = replace(bench.gateway.config, connections_max_idle_ms=1)
    await bench.share.ShareFetch(fetch(0, 0, 1))
    idle = IdleSessions(bench.gateway)
    idle.start()
    await eventually(lambda: bench.leader.of(leader.ReleaseMemberRequest))
    await idle.stop()
    (release,) = bench.leader.of(leader.ReleaseMemberRequest)
    assert (release.group_id, release.member_id, len(release.partitions)) == ("group", "me", 2)
    assert (await refused(bench.share.ShareFetch(fetch(1)))).code is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_fetches_are_counted_by_their_end(bench: Bench) -> None:
    counts = bench.gateway.fetches
    bench.leader.answer = records_of(0)
    await bench.share.ShareFetch(fetch(0, 0))
    assert (sum(counts.seconds.buckets), counts.expired) == (1, 0)
    await refused(bench.share.ShareFetch(fetch(9)))
    await bench.share.ShareFetch(fetch(1, max_records=0))
    assert (sum(counts.seconds.buckets), counts.expired, counts.under_way) == (1, 0, 0)


def test_a_fetch_expires_when_its_wait_is_over_and_it_found_nothing() -> None:
    counts = FetchCounts()
    counts.answered(False, 0.0, 0.0)  # it did not want to wait
    counts.answered(False, 0.1, 0.5)  # an error ended it
    counts.answered(True, 0.6, 0.5)
    assert (counts.expired, sum(counts.seconds.buckets)) == (0, 1)
    counts.answered(False, 0.5, 0.5)
    assert (counts.expired, sum(counts.seconds.buckets)) == (1, 1)


async def test_sessions_may_be_idle_for_ever(bench: Bench) -> None:
    bench.gateway.config = replace(bench.gateway.config, connections_max_idle_ms=-1)
    idle = IdleSessions(bench.gateway)
    before = asyncio.all_tasks()
    idle.start()
    assert asyncio.all_tasks() == before
    await idle.stop()


# Acknowledgements that are refused for their partition, which stays as it was; the other one is applied.
WRONG = [
    ([(9, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [ACCEPT]), (5, 6, [ACCEPT])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [7])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [RENEW])], ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("wrong", "code"), WRONG)
async def test_wrong_batches_are_refused_by_partition(
    bench: Bench, wrong: list[Batch], code: ErrorCode
) -> None:
    await bench.share.ShareFetch(fetch(0, 0, 1))
    acks = {0: wrong, 1: [(0, 0, [ACCEPT])]}
    parts = answered(await bench.share.ShareAcknowledge(acknowledge(1, acks)))
    assert {index: part.error_code for index, part in parts.items()} == {0: code, 1: 0}
    parts = answered(await bench.share.ShareFetch(fetch(2, 0, 1, acks=acks)))
    assert {index: part.acknowledge_error_code for index, part in parts.items()} == {0: code, 1: 0}
    for request in bench.leader.of(leader.AcknowledgeRecordsRequest):
        assert [part.partition for part in request.partitions] == [1]


async def test_partitions_that_do_not_exist(bench: Bench) -> None:
    parts = answered(await bench.share.ShareFetch(fetch(0, 0, 9)))
    assert {index: part.error_code for index, part in parts.items()} == {0: 0, 9: 3}
    parts = answered(await bench.share.ShareAcknowledge(acknowledge(1, {9: [(0, 0, [ACCEPT])]})))
    assert parts[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = await bench.share.ShareFetch(fetch(0, 0, topic_id="B" * 22))
    assert answered(unknown)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_renewing_does_not_fetch(bench: Bench) -> None:
    await bench.share.ShareFetch(fetch(0, 0))
    sizes: dict[str, Any] = {"max_records": 0, "min_bytes": 0, "max_bytes": 0}
    renewed = fetch(1, 0, acks={0: [(0, 9, [RENEW])]}, is_renew_ack=True, **sizes)
    assert answered(await bench.share.ShareFetch(renewed))[0].acknowledge_error_code == 0
    assert len(bench.leader.of(leader.AcquireRecordsRequest)) == 1
    assert bench.leader.of(leader.AcknowledgeRecordsRequest)[0].renew_allowed
    error = await refused(bench.share.ShareFetch(fetch(2, 0, is_renew_ack=True, max_wait_ms=5, **sizes)))
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
async def test_wrong_requests(bench: Bench, request_: pb.ShareFetchRequest, field: str) -> None:
    error = await refused(bench.share.ShareFetch(request_))
    assert error.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in error.violations] == [field]
    assert len(bench.gateway.sessions) == 0


async def test_a_partition_that_moves_is_asked_of_its_new_leader(bench: Bench) -> None:
    bench.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def settle(_: str) -> None:
        bench.leader.answer = records_of(0)

    bench.ownership.on_forget = settle
    parts = answered(await bench.share.ShareFetch(fetch(0, 0, max_wait_ms=5_000)))
    assert parts[0].records == b"batch"
    bench.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    acks = {0: [(0, 9, [ACCEPT])]}
    assert answered(await bench.share.ShareAcknowledge(acknowledge(1, acks)))[0].error_code == 0


async def test_a_partition_without_a_leader_says_so_when_the_wait_is_over(bench: Bench) -> None:
    bench.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    part = answered(await bench.share.ShareFetch(fetch(0, 0, max_wait_ms=10)))[0]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (-1, -1)


async def test_who_is_to_ask_another_broker_is_not_kept_waiting_here(bench: Bench) -> None:
    """librdkafka asks one broker at a time: a wait here would keep it from the records there."""
    caller = Caller("connection", lambda _, index: index == 0)

    async def fetched(epoch: int, *partitions: int) -> list[tuple[int, ErrorCode]]:
        asked: dict[TopicIdPartition, Sequence[AckBatch]] = {
            TopicIdPartition(TOPIC.topic_id, index): [] for index in partitions
        }
        key = SessionKey("group", "me")
        request = ShareFetch(caller, key, epoch, asked, (), 60_000, 1, 1_000_000, 500)
        answer = await share_fetch(bench.gateway, request, Deadline(90))
        return [(one.partition.partition, one.error) for one in answer]

    moved = (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert moved in await fetched(0, 0, 1)
    assert await fetched(1) == [moved]
    asked = bench.leader.of(leader.AcquireRecordsRequest)
    assert asked[0].max_wait_ms == 0
    assert all(request.max_wait_ms <= MOVED_WAIT * 1000 for request in asked)


@pytest.mark.parametrize(("first_loaded", "least", "asked"), [(True, 1, 1), (False, 1, 0), (False, 2, 2)])
async def test_only_who_counts_on_it_gets_the_first_that_is_loaded_alone(
    bench: Bench, first_loaded: bool, least: int, asked: int
) -> None:
    parts: dict[TopicIdPartition, Sequence[AckBatch]] = {TopicIdPartition(TOPIC.topic_id, 0): []}
    key, caller = SessionKey("group", "me"), Caller("connection")
    request = ShareFetch(caller, key, 0, parts, (), 0, least, 1_000_000, 500, first_loaded=first_loaded)
    await share_fetch(bench.gateway, request, Deadline(90))
    (call,) = bench.leader.of(leader.AcquireRecordsRequest)
    assert call.min_bytes == asked


@pytest.mark.parametrize(("leaving", "code"), [(False, ErrorCode.NOT_LEADER_OR_FOLLOWER), (True, None)])
async def test_who_leaves_passes_answers_on(bench: Bench, leaving: bool, code: ErrorCode | None) -> None:
    """For what was fetched there; nobody else would take them."""
    part = TopicIdPartition(TOPIC.topic_id, 0)
    await bench.share.ShareFetch(fetch(0, 0))
    caller = Caller("connection", lambda *_: False, leaving=leaving)
    request = ShareAcknowledge(caller, SessionKey("group", "me"), 1, {part: [AckBatch(0, 9, [ACCEPT])]})
    results = await share_acknowledge(bench.gateway, request, Deadline(90))
    assert [error and error.code for error in results.values()] == [code]
    assert len(bench.leader.of(leader.AcknowledgeRecordsRequest)) == leaving


async def test_errors_that_kafkas_client_would_throw_are_shown_as_one_that_it_retries(bench: Bench) -> None:
    bench.leader.answer = refusing(ErrorCode.GROUP_ID_NOT_FOUND)
    part = answered(await bench.share.ShareFetch(fetch(0, 0, max_wait_ms=60_000)))[0]
    assert part.error_code == ErrorCode.OFFSET_NOT_AVAILABLE


async def test_several_leaders_fill_one_answer_up_to_its_limit(bench: Bench) -> None:
    other = bench.local_leader(2, 1)
    bench.leader.answer = other.answer = records_of(0, 1)
    parts = answered(await bench.share.ShareFetch(fetch(0, 0, 1, max_records=15)))
    assert {index: bool(part.records) for index, part in parts.items()} == {0: True, 1: True}
    assert [asked.max_records for asked in (*bench.leader.asked, *other.asked)] == [15, 5]

    bench.leader.asked.clear()
    other.asked.clear()
    parts = answered(await bench.share.ShareFetch(fetch(1, max_records=10)))
    assert list(parts) == [1]  # its turn to be first, and that is enough
    assert bench.leader.asked == []


async def test_several_leaders_are_asked_until_one_has_records(bench: Bench) -> None:
    other = bench.local_leader(2, 1)
    task = asyncio.ensure_future(bench.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=20_000)))
    await eventually(lambda: bench.leader.watching and other.watching)
    other.comes.set()  # but nothing can be had of it yet
    await eventually(lambda: len(other.asked) > 2)
    other.answer = records_of(1)
    assert answered(await task)[1].records == b"batch"
    assert all(asked.max_wait_ms == 0 for asked in bench.leader.asked)
    await eventually(lambda: not bench.leader.watching)


async def test_several_leaders_that_have_nothing_are_asked_once(bench: Bench) -> None:
    other = bench.local_leader(2, 1)
    task = asyncio.ensure_future(bench.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=300)))
    await eventually(lambda: bench.leader.watching and other.watching)
    assert answered(await task).keys() == {0, 1}
    assert (len(bench.leader.asked), len(other.asked)) == (2, 2)  # as it came, and when its time was up


class Calls:
    """A leader of this process: has nothing, and a watch that tells what a test says."""

    def __init__(self) -> None:
        self.fetches: list[AcquireCall] = []
        self.watches: list[Watching] = []
        self.can_watch = True

    async def acquire(self, call: AcquireCall) -> list[Acquisition]:
        self.fetches.append(call)
        await asyncio.sleep(call.max_wait)
        return [Acquisition(*part) for part in call.partitions]

    async def acknowledge(self, call: AcknowledgeCall, timeout: float) -> list[Acknowledged]:
        return [Acknowledged(part.topic_id, part.partition) for part in call.parts]

    async def settle(self, call: SettleCall, timeout: float) -> list[Settlement]:
        raise NotImplementedError

    def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> Watching | None:
        if not self.can_watch:
            return None
        self.watches.append(Watching())
        return self.watches[-1]


class Watching(StandingWatch):
    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []
        self.open = asyncio.Event()
        self.open.set()

    async def changes(self, timeout: float) -> bool:
        self.waited.append(timeout)
        await self.open.wait()
        return not self.quiet

    def _leave(self) -> None:
        """Nothing is behind it."""


@pytest.fixture
async def calls(bench: Bench) -> Calls:
    calls = Calls()
    await bench.share.ShareFetch(fetch(0, 0, 1, member_id="first"))  # has the leaders looked up
    bench.router.register_share_calls(calls)
    return calls


async def test_who_found_nothing_is_told_the_same_without_asking(bench: Bench, calls: Calls) -> None:
    await bench.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await bench.share.ShareFetch(fetch(1, max_wait_ms=1))
    assert (len(calls.fetches), len(calls.watches)) == (2, 1)
    for epoch in (2, 3):
        assert answered(await bench.share.ShareFetch(fetch(epoch, max_wait_ms=250))) == {}
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
async def test_another_question_ends_the_watch(
    bench: Bench, calls: Calls, request_: pb.ShareFetchRequest
) -> None:
    await bench.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await bench.share.ShareFetch(fetch(1, max_wait_ms=1))
    await bench.share.ShareFetch(request_)
    assert (calls.watches[0].quiet, calls.watches[0].waited) == (False, [])


async def test_what_the_watch_sees_is_asked_for(bench: Bench, calls: Calls) -> None:
    await bench.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await bench.share.ShareFetch(fetch(1, max_wait_ms=1))
    calls.watches[0].end()
    await bench.share.ShareFetch(fetch(2, max_wait_ms=50))
    assert (len(calls.fetches), len(calls.watches)) == (3, 2)
    assert calls.fetches[-1].max_wait <= 0.05


async def test_a_session_that_is_replaced_leaves_no_watch(bench: Bench, calls: Calls) -> None:
    await bench.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await bench.share.ShareFetch(fetch(1, max_wait_ms=1))
    await bench.share.ShareFetch(fetch(0, 0, max_wait_ms=1))
    assert not calls.watches[0].quiet


async def test_a_request_that_was_overtaken_while_it_watched_is_refused(bench: Bench, calls: Calls) -> None:
    await bench.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await bench.share.ShareFetch(fetch(1, max_wait_ms=1))
    calls.watches[0].open.clear()
    slow = asyncio.ensure_future(bench.share.ShareFetch(fetch(2, max_wait_ms=1)))
    await eventually(lambda: calls.watches[0].waited)
    await bench.share.ShareAcknowledge(acknowledge(3, {}))
    calls.watches[0].open.set()
    assert (await refused(slow)).code is ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_there_is_no_watch_where_the_leader_cannot_tell(bench: Bench, calls: Calls) -> None:
    calls.can_watch = False
    for epoch in range(3):
        await bench.share.ShareFetch(fetch(epoch, *((0, 1) if not epoch else ()), max_wait_ms=1))
    assert len(calls.fetches) == 3


async def test_partitions_of_several_leaders_are_watched_at_each(bench: Bench, calls: Calls) -> None:
    other = bench.local_leader(2, 1)
    await bench.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=1))
    await bench.share.ShareFetch(fetch(1, max_wait_ms=1))
    await eventually(lambda: other.watching)
    fetches, asked = len(calls.fetches), len(other.asked)
    assert answered(await bench.share.ShareFetch(fetch(2, max_wait_ms=5))) == {}
    assert (len(calls.fetches), len(other.asked)) == (fetches, asked)
    calls.watches[-1].end()
    await eventually(lambda: not other.watching)
    await bench.share.ShareFetch(fetch(3, max_wait_ms=1))
    assert len(other.asked) > asked


async def test_where_one_of_several_leaders_has_something_there_is_no_watch(
    bench: Bench, calls: Calls
) -> None:
    other = bench.local_leader(2, 1)
    calls.can_watch = False
    for epoch in range(3):
        await bench.share.ShareFetch(fetch(epoch, *((1, 0) if not epoch else ()), max_wait_ms=1))
    assert len(calls.fetches) >= 3
    await eventually(lambda: not other.watching)


async def test_a_leader_that_nobody_knows_is_not_watched(bench: Bench, calls: Calls) -> None:
    bench.ownership.nobody = True
    assert bench.gateway.leaders.watch("group", [TopicIdPartition(TOPIC.topic_id, 0)]) is None
    assert calls.watches == []


def test_codes_are_kafkas() -> None:
    assert wire(ErrorCode.INVALID_RECORD_STATE) == 121
    assert delivery.ACKNOWLEDGE_TYPE_RENEW == RENEW
