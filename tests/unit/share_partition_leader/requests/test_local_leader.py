"""AcquireRecords: one fetch of records that are available or arrive in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leader_calls.messages import await_request
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckPart,
    AckResult,
    AcquireCall,
    AppendCall,
    AppendPart,
    DeliverInput,
    DeliverOpen,
    ReconcileCall,
    UnreconciledReason,
)
from sharebroker_server.share_partition_leader.requests import local_leader
from sharebroker_server.share_partition_leader.requests.local_leader import LocalWatch
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)
from tests.testkit.waiting import Turns, eventually
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.harness import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    TOPIC,
    Harness,
    code,
)
from tests.unit.share_partition_leader.harness import harness as started
from tests.unit.share_partition_leader.virtual_time import settle


def acquired(response: pb.AcquireRecordsResponse.Partition) -> list[tuple[int, int, int]]:
    return [(run.first_offset, run.last_offset, run.delivery_count) for run in response.acquired]


async def waiting(harness: Harness, task: asyncio.Task[object]) -> None:
    """Until a fetch waits in the share-partition."""
    share_partition = await harness.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    assert not task.done()


async def test_fetch_returns_records_with_their_lock(harness: Harness) -> None:
    await harness.publish(10)
    (response,) = await harness.acquire()
    assert acquired(response) == [(0, 9, 1)]
    lock = response.acquired[0]
    assert lock.lock_deadline_ms == round((asyncio.get_running_loop().time() + 30) * 1000)
    done = await harness.acknowledge((0, 9, ACCEPT), token=lock.lock_token)
    assert not done.error_code
    assert await harness.start_offset() == 10


async def test_response_has_the_lock_duration_of_the_group(harness: Harness) -> None:
    await harness.configure("share.record.lock.duration.ms", "15000")
    request = pb.AcquireRecordsRequest(group_id="g", member_id="m")
    assert (await harness.stub.AcquireRecords(request)).acquisition_lock_timeout_ms == 15_000


async def test_fetch_without_wait_is_empty_without_records(harness: Harness) -> None:
    before = asyncio.get_running_loop().time()
    (response,) = await harness.acquire()
    assert (response.topic_id, response.partition, response.error_code, acquired(response)) == (
        TOPIC,
        0,
        0,
        [],
    )
    assert asyncio.get_running_loop().time() == before


async def test_partitions_are_counted_once_per_fetch(harness: Harness) -> None:
    await harness.acquire()  # it has to be loaded
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000))
    await waiting(harness, task)
    await harness.publish(3)
    await task
    counts = (await harness.share_partition()).core.counts
    assert (counts.fetches, counts.fetches_with_records) == (2, 1)


async def test_fetch_waits_for_published_records(harness: Harness) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000))
    await waiting(harness, task)
    await harness.publish(3)
    (response,) = await task
    assert acquired(response) == [(0, 2, 1)]


async def test_fetch_waits_for_released_records(harness: Harness) -> None:
    await harness.publish(3)
    await harness.acquire()
    task = asyncio.create_task(harness.acquire(member="m2", max_wait_ms=60_000))
    await waiting(harness, task)
    await harness.acknowledge((1, 1, RELEASE))
    (response,) = await task
    assert acquired(response) == [(1, 1, 2)]


async def test_expired_fetch_leaves_no_listener(harness: Harness) -> None:
    for _ in range(5):
        assert acquired(*await harness.acquire(max_wait_ms=500)) == []
    assert not (await harness.share_partition())._availability_listeners


async def test_cancelled_fetch_leaves_no_listener(harness: Harness) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000))
    await waiting(harness, task)
    task.cancel()
    await asyncio.wait([task])
    assert not (await harness.share_partition())._availability_listeners


async def test_fewer_than_min_bytes_are_returned_at_the_end_of_the_wait(harness: Harness) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=1000, min_bytes=100_000))
    await harness.publish(3)
    await settle()
    await harness.publish(2)
    (response,) = await task
    assert acquired(response) == [(0, 2, 1), (3, 4, 1)]


async def test_fetch_completes_with_min_bytes(harness: Harness) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000, min_bytes=150))
    await waiting(harness, task)
    before = asyncio.get_running_loop().time()
    await harness.publish(3, size=200)
    assert acquired(*await task) == [(0, 2, 1)]
    assert asyncio.get_running_loop().time() - before < 1


async def test_first_loaded_partition_with_min_bytes_completes_the_fetch() -> None:
    async with started() as harness:
        await harness.create_topic(partitions=2)
        for partition in range(2):
            await harness.publish(3, partition)
        first = await harness.acquire(partitions=range(2), min_bytes=1)
        assert [acquired(response) for response in first] == [[(0, 2, 1)], []]
        await harness.publish(2)
        both = await harness.acquire(partitions=range(2), min_bytes=1)
        assert [acquired(response) for response in both] == [[(3, 4, 1)], [(0, 2, 1)]]


async def test_limits_apply_to_all_partitions_together() -> None:
    async with started() as harness:
        await harness.create_topic(partitions=3)
        for partition in range(3):
            await harness.publish(10, partition)
        first, second, third = await harness.acquire(15, partitions=range(3), acquire_mode=1)
        assert [len(acquired(a)) and acquired(a)[0][:2] for a in (first, second, third)] == [
            (0, 9),
            (0, 4),
            0,
        ]
        again = await harness.acquire(100, partitions=range(3), max_bytes=1)
        assert [acquired(response) for response in again] == [[], [(5, 9, 1)], []]


async def test_fetch_without_room_returns_no_records(harness: Harness) -> None:
    await harness.publish(3)
    assert acquired(*await harness.acquire(0)) == []


async def test_error_of_one_partition_completes_the_fetch(
    harness: Harness,
) -> None:
    await harness.publish(3)
    before = asyncio.get_running_loop().time()
    fine, bad = await harness.acquire(partitions=(0, 7), max_wait_ms=60_000)
    assert acquired(fine) == [(0, 2, 1)]
    assert (code(bad), acquired(bad)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    idle, bad = await harness.acquire(partitions=(0, 7), max_wait_ms=60_000)
    assert (code(idle), code(bad)) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert asyncio.get_running_loop().time() == before


async def test_fetch_without_wait_reads_from_the_store(harness: Harness) -> None:
    await harness.publish(2)
    await harness.evict_hot_cache()
    assert acquired(*await harness.acquire()) == [(0, 1, 1)]
    await harness.publish(1)
    assert acquired(*await harness.acquire()) == [(2, 2, 1)]


async def test_read_failure_is_an_error_of_the_partition(harness: Harness) -> None:
    await harness.publish(1)
    await harness.evict_hot_cache()
    harness.records.away = True
    (response,) = await harness.acquire(max_wait_ms=60_000)
    assert code(response) is ErrorCode.KAFKA_STORAGE_ERROR
    harness.records.away = False
    assert acquired(*await harness.acquire()) == [(0, 0, 1)]


async def test_acquired_records_are_returned_despite_a_later_error(harness: Harness) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000, min_bytes=100_000))
    await harness.publish(3)
    await eventually(harness.leadership.partitions()[0].loaded)
    await waiting(harness, task)
    await harness.hand_over()
    (response,) = await task
    assert (acquired(response), response.error_code) == ([(0, 2, 1)], 0)


async def test_waiting_fetch_uses_the_reloaded_share_partition(
    harness: Harness,
) -> None:
    task = asyncio.create_task(harness.acquire(max_wait_ms=60_000))
    await waiting(harness, task)
    former = await harness.share_partition()
    former.retire()
    await eventually(lambda: harness.leadership.partitions()[0].loaded() not in ([], [former]))
    await harness.publish(1)
    assert acquired(*await task) == [(0, 0, 1)]


async def test_fetch_from_another_leaders_partition_has_its_error(harness: Harness) -> None:
    await harness.share_partition()
    await harness.hand_over()
    (response,) = await harness.acquire(max_wait_ms=60_000)
    assert code(response) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_unknown_mode_is_rejected(harness: Harness) -> None:
    with pytest.raises(KafkaError) as refused:
        await harness.acquire(acquire_mode=7)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.violations[0].field == "acquire_mode"


async def test_ended_session_acquires_nothing_in_a_waiting_fetch(harness: Harness) -> None:
    await harness.publish(3)
    assert acquired((await harness.acquire(session_id="s"))[0])
    late = asyncio.create_task(harness.acquire(session_id="s", max_wait_ms=5000))
    await waiting(harness, late)
    await harness.stub.ReleaseMember(
        pb.ReleaseMemberRequest(group_id=GROUP, member_id="m1", session_id="s")  # it wakes the fetch
    )
    assert acquired((await late)[0]) == []
    assert acquired((await harness.acquire(member="m2"))[0]) == [(0, 2, 2)]


async def _end_session(harness: Harness) -> None:
    await harness.stub.ReleaseMember(pb.ReleaseMemberRequest(group_id=GROUP, member_id="m1", session_id="s"))


async def test_session_that_ends_during_a_read_acquires_nothing(harness: Harness) -> None:
    await harness.publish(3)
    await harness.evict_hot_cache()
    await harness.share_partition()
    harness.records.open.clear()
    late = asyncio.create_task(harness.acquire(session_id="s", max_wait_ms=5000))
    await settle()
    await _end_session(harness)
    harness.records.open.set()
    assert acquired((await late)[0]) == []
    assert acquired((await harness.acquire(member="m2"))[0]) == [(0, 2, 1)]


async def test_session_that_ends_during_a_load_acquires_nothing(harness: Harness) -> None:
    await harness.publish(3)
    share_partition = await harness.share_partition()
    assert acquired((await harness.acquire(session_id="s"))[0])
    late = asyncio.create_task(harness.acquire(session_id="s", max_wait_ms=5000))
    await waiting(harness, late)
    harness.persister.open.clear()
    share_partition.retire()
    await settle()
    await _end_session(harness)
    harness.persister.open.set()
    assert acquired((await late)[0]) == []
    assert acquired((await harness.acquire(member="m2"))[0]) == [(0, 2, 1)]


PART = TopicIdPartition(TOPIC, 0)


async def test_appended_records_are_acquired_and_acknowledged(harness: Harness) -> None:
    (appended,) = await harness.local.append(AppendCall([AppendPart(*PART, batch(3))]), 5.0)
    assert (appended.base_offset, appended.last_offset) == (0, 2)
    (fetched,) = await harness.local.acquire(AcquireCall(GROUP, "m", [PART], 0.0, 10))
    assert [(run.first, run.last) for run in fetched.acquired] == [(0, 2)]
    acks = [AckPart(*PART, [AckBatch(0, 2, (ACCEPT,))])]
    assert await harness.local.acknowledge(AcknowledgeCall(GROUP, "m", acks), 5.0) == [AckResult(*PART)]
    assert await harness.start_offset() == 3


async def test_append_to_an_unknown_partition_has_its_error(harness: Harness) -> None:
    parts = [AppendPart(TOPIC, 9, batch(1)), AppendPart(*PART, batch(1))]
    unknown, appended = await harness.local.append(AppendCall(parts), 5.0)
    assert unknown.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (appended.error_code, appended.base_offset) == (ErrorCode.NONE, 0)


async def test_closed_stream_releases_its_records(harness: Harness) -> None:
    await harness.publish(3)
    stream = harness.local.deliver(DeliverOpen(GROUP, "m"))
    await stream.send(DeliverInput(frozenset({PART}), credit=10))
    outputs = stream.outputs()
    (delivered,) = (await anext(outputs)).deliveries
    assert (delivered.topic_id, [(run.first, run.last) for run in delivered.acquired]) == (TOPIC, [(0, 2)])
    assert stream.unanswered() == ()
    await outputs.aclose()
    stream.close()
    await settle()
    (fetched,) = await harness.local.acquire(AcquireCall(GROUP, "other", [PART], 0.0, 10))
    assert [(run.first, run.last) for run in fetched.acquired] == [(0, 2)]


async def test_stream_that_never_ran_is_closed_without_its_outputs(harness: Harness) -> None:
    await harness.publish(3)
    stream = harness.local.deliver(DeliverOpen(GROUP, "m"))
    await stream.send(DeliverInput(frozenset({PART}), credit=10))
    await settle()
    stream.close()
    await settle()
    (fetched,) = await harness.local.acquire(AcquireCall(GROUP, "other", [PART], 0.0, 10))
    assert [(run.first, run.last) for run in fetched.acquired] == [(0, 2)]


async def watched(harness: Harness) -> LocalWatch:
    watch = await harness.local.watch(GROUP, [PART])
    assert watch is not None
    assert watch.active
    return watch


async def test_watch_continues_without_changes(harness: Harness) -> None:
    await harness.share_partition()
    watch = await watched(harness)
    assert not await watch.changes(5.0)
    assert watch.active


async def test_available_records_end_the_watch(harness: Harness) -> None:
    await harness.share_partition()
    watch = await watched(harness)
    waiting = [asyncio.create_task(watch.changes(1000.0)) for _ in range(2)]
    await settle()
    await harness.publish(1)
    assert await asyncio.gather(*waiting) == [True, True]
    assert not watch.active
    assert await watch.changes(1000.0)


async def test_unload_ends_the_watch(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    watch = await watched(harness)
    share_partition.retire()
    assert not watch.active


async def test_ended_watch_does_not_prevent_unload(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    watch = await watched(harness)
    share_partition.drop_unused()
    assert not share_partition.retired
    watch.end()
    watch.end()
    share_partition.drop_unused()
    assert share_partition.retired


async def test_cancelled_wait_leaves_no_observer(harness: Harness) -> None:
    await harness.share_partition()
    watch = await watched(harness)
    waiting = asyncio.create_task(watch.changes(1000.0))
    await settle()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    watch.end()
    assert not watch.active


async def test_no_watch_with_records_or_without_state(harness: Harness) -> None:
    calls = harness.local
    assert await calls.watch(GROUP, [PART]) is None
    share_partition = await harness.share_partition()
    await harness.publish(1)
    assert not share_partition.has_nothing_to_acquire()
    assert await calls.watch(GROUP, [PART]) is None
    share_partition.retire()
    assert not share_partition.has_nothing_to_acquire()


async def test_observers_are_called_once(harness: Harness) -> None:
    await harness.share_partition()
    watch = await watched(harness)
    called: list[str] = []
    listeners = {name: partial(called.append, name) for name in "abc"}
    for listener in listeners.values():
        watch.add_observer(listener)
    watch.remove_observer(listeners["b"])
    watch.remove_observer(listeners["b"])
    watch.end()
    watch.end()
    assert sorted(called) == ["a", "c"]


def awaiting(harness: Harness, max_wait_ms: int) -> asyncio.Task[pb.AwaitRecordsResponse]:
    request = await_request(GROUP, [PART], max_wait_ms / 1000)
    return asyncio.ensure_future(harness.stub.AwaitRecords(request))


async def test_await_records_returns_when_records_arrive(harness: Harness) -> None:
    await harness.share_partition()
    waiting = awaiting(harness, 60_000)
    await settle()
    await harness.publish(1)
    assert (await waiting).changed
    assert (await awaiting(harness, 60_000)).changed  # there are some


async def test_await_records_returns_at_the_end_of_its_wait(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    assert not (await awaiting(harness, 5_000)).changed
    share_partition.drop_unused()
    assert share_partition.retired


async def test_cancelled_await_records_leaves_no_watch(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    waiting = awaiting(harness, 60_000)
    await settle()
    share_partition.drop_unused()
    assert not share_partition.retired
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await settle()
    share_partition.drop_unused()
    assert share_partition.retired


@pytest.mark.parametrize("max_wait_ms", [-1, 60_001])
async def test_wait_of_await_records_is_limited(harness: Harness, max_wait_ms: int) -> None:
    refused = awaiting(harness, max_wait_ms)
    with pytest.raises(KafkaError) as failure:
        await refused
    assert failure.value.code is ErrorCode.INVALID_REQUEST


ALICE, BOB = "User:alice", "User:bob"


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT, RENEW])
@pytest.mark.parametrize("other", [BOB, ""])
async def test_only_the_principal_of_a_lock_acknowledges_its_record(
    harness: Harness, kind: int, other: str
) -> None:
    await harness.publish(4)
    (response,) = await harness.acquire(principal=ALICE)
    token = response.acquired[0].lock_token
    for given in (token, 0):
        refused = await harness.acknowledge((0, 3, kind), token=given, principal=other)
        assert code(refused) is ErrorCode.INVALID_RECORD_STATE
        assert "held by another member" in refused.error_message
    done = await harness.acknowledge((0, 3, kind), token=token, principal=ALICE)
    assert code(done) is ErrorCode.NONE


async def test_another_principal_does_not_acknowledge_for_anonymous(harness: Harness) -> None:
    await harness.publish(4)
    await harness.acquire()
    assert code(await harness.acknowledge((0, 3, ACCEPT), principal=BOB)) is ErrorCode.INVALID_RECORD_STATE
    assert code(await harness.acknowledge((0, 3, ACCEPT))) is ErrorCode.NONE


async def test_a_release_concerns_the_principal_that_it_names(harness: Harness) -> None:
    await harness.publish(4)
    await harness.acquire(principal=ALICE)
    for principal in (BOB, ""):
        await harness.stub.ReleaseMember(
            pb.ReleaseMemberRequest(group_id=GROUP, member_id="m1", principal=principal)
        )
        assert acquired((await harness.acquire(member="m2"))[0]) == []
    await harness.stub.ReleaseMember(pb.ReleaseMemberRequest(group_id=GROUP, member_id="m1"))
    await settle()
    assert acquired((await harness.acquire(member="m2"))[0]) == [(0, 3, 2)]


async def test_a_session_reconciles_only_the_records_of_its_principal(harness: Harness) -> None:
    await harness.publish(4)
    await harness.acquire(principal=ALICE)
    call = ReconcileCall(GROUP, "m1", [AckPart(TOPIC, 0, [AckBatch(0, 3, (ACCEPT,))])], principal=BOB)
    (result,) = await harness.local.reconcile(call, 10.0)
    assert [(one.first, one.last, one.reason) for one in result.left] == [(0, 3, UnreconciledReason.TAKEN)]
    assert result.held == []


# --- many partitions

MANY = [TopicIdPartition(TOPIC, index) for index in range(7)]


@pytest.fixture
async def many(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    """A leader of several partitions, of which two are a portion."""
    monkeypatch.setattr(local_leader, "PORTION", 2)
    async with started() as harness:
        await harness.create_topic(len(MANY))
        yield harness


async def counts(harness: Harness, max_wait: float = 0.0) -> list[int]:
    """Returns how many ranges of each partition a fetch acquires."""
    results = await harness.local.acquire(AcquireCall(GROUP, "m", MANY, max_wait, 10))
    return [len(result.acquired) for result in results]


async def test_many_partitions_are_fetched_in_portions(many: Harness) -> None:
    await counts(many)
    await many.publish(1, 6)
    with Turns() as turns:
        assert await counts(many) == [0, 0, 0, 0, 0, 0, 1]
    assert turns.passed >= 6  # three for the search, three for the round


async def test_records_that_arrive_between_portions_are_fetched(many: Harness) -> None:
    await counts(many)
    fetching = asyncio.create_task(counts(many, 1000.0))
    await asyncio.sleep(0)
    await many.publish(1)
    assert await fetching == [1, 0, 0, 0, 0, 0, 0]


async def test_session_that_ends_between_portions_acquires_nothing(
    many: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await many.publish(1, 5)
    assert await counts(many) == [0, 0, 0, 0, 0, 1, 0]  # the other member's lock keeps the state loaded
    await many.publish(1, 5)
    pauses, pause = 0, local_leader.Fetch._pause

    async def ending(fetch: local_leader.Fetch) -> None:
        nonlocal pauses
        pauses += 1
        await pause(fetch)
        if pauses == 6:  # three in the search, three in the round
            many.leadership.release_member(GROUP, "m1", set(), "s")

    monkeypatch.setattr(local_leader.Fetch, "_pause", ending)
    call = AcquireCall(GROUP, "m1", MANY, 0.0, 10, session_id="s")
    assert not any(result.acquired for result in await many.local.acquire(call))
    assert pauses == 6
    assert await counts(many) == [0, 0, 0, 0, 0, 1, 0]


async def test_cold_partitions_are_loaded_some_at_a_time(
    many: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, most, load = 0, 0, many.leadership.share_partition

    async def share_partition(group_id: str, topic_id: str, partition: int) -> ShareGroupPartition:
        nonlocal loading, most
        loading += 1
        most = max(most, loading)
        try:
            return await load(group_id, topic_id, partition)
        finally:
            loading -= 1

    monkeypatch.setattr(many.leadership, "share_partition", share_partition)
    monkeypatch.setattr(local_leader, "LOADS_AT_ONCE", 3)
    await many.publish(1, 6)
    assert await counts(many) == [0, 0, 0, 0, 0, 0, 1]
    assert most == 3


@pytest.mark.parametrize(("max_wait", "portions"), [(0.0, 1), (40.0, 2)])
async def test_a_fetch_does_not_wait_for_each_portion_of_loads_that_fail(
    many: Harness, monkeypatch: pytest.MonkeyPatch, max_wait: float, portions: int
) -> None:
    async def unavailable(group_id: str, topic_id: str, partition: int) -> ShareGroupPartition:
        await asyncio.sleep(30)  # the persister's retries
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    monkeypatch.setattr(many.leadership, "share_partition", unavailable)
    monkeypatch.setattr(local_leader, "LOADS_AT_ONCE", 2)
    before = asyncio.get_running_loop().time()
    results = await many.local.acquire(AcquireCall(GROUP, "m", MANY, max_wait, 10))
    assert {result.error_code for result in results} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert asyncio.get_running_loop().time() - before == portions * 30


async def test_many_partitions_are_watched_in_portions(many: Harness) -> None:
    await counts(many)
    with Turns() as turns:
        watch = await many.local.watch(GROUP, MANY)
    assert watch is not None
    assert turns.passed == 3
    await many.publish(1, 6)
    assert not watch.active


@pytest.mark.parametrize("partition", [0, 6])
async def test_records_that_arrive_as_a_watch_begins_prevent_it(many: Harness, partition: int) -> None:
    await counts(many)
    loaded = [await many.share_partition(index) for index in range(len(MANY))]
    watching = asyncio.create_task(many.local.watch(GROUP, MANY))
    await asyncio.sleep(0)
    await many.publish(1, partition)
    assert await watching is None
    many.leadership.drop_unused()
    assert all(one.retired for one in loaded)


async def test_a_cancelled_watch_leaves_no_observers(many: Harness) -> None:
    await counts(many)
    loaded = [await many.share_partition(index) for index in range(len(MANY))]
    watching = asyncio.create_task(many.local.watch(GROUP, MANY))
    await asyncio.sleep(0)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    many.leadership.drop_unused()
    assert all(one.retired for one in loaded)
