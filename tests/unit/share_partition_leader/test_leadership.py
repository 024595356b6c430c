"""Claims of partitions, loading of groups, changes of the catalog, and the stop."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import RecordState, SharePartitionKey, StateBatch, StateWrite
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import GroupConfig
from sharebroker_server.leader_calls.values import DeliverOpen
from sharebroker_server.leases import names
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.persister.port import SharePartitionState, StateSummary
from sharebroker_server.share_partition_leader import leadership
from sharebroker_server.share_partition_leader.core.backoff import RetryBackoff
from sharebroker_server.share_partition_leader.leadership import share_partition_settings
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.harness import ACCEPT, GROUP, NAME, RELEASE, TOPIC, Harness, code
from tests.unit.share_partition_leader.harness import harness as started
from tests.unit.share_partition_leader.streams import ack, stream
from tests.unit.share_partition_leader.virtual_time import now, settle

RESOURCE = names.partition(TOPIC, 0)


async def refusal(harness: Harness, topic_id: str = TOPIC, partition: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await harness.leadership.led(topic_id, partition)
    return refused.value.code


# --- claiming


async def test_a_partition_is_claimed_at_its_first_use(harness: Harness) -> None:
    assert harness.holder.holds(RESOURCE) is None
    first = await harness.leadership.led(TOPIC, 0)
    assert first.log.epoch == harness.holder.holds(RESOURCE)
    assert await harness.leadership.led(TOPIC, 0) is first
    assert harness.leadership.partitions() == [first]
    assert first.partition == 0


async def test_number_of_loaded_share_partitions_is_limited(harness: Harness) -> None:
    resource = ConfigResource(ResourceType.BROKER, "")
    await harness.append_to_catalog(ConfigRecord(resource, "group.share.max.share.partitions", "1"))
    await harness.initialize(group="other")
    first = await harness.share_partition()
    await harness.publish(1)
    await harness.acquire(5)  # in use: it cannot be dropped for another
    with pytest.raises(KafkaError) as refused:
        await harness.share_partition(group="other")
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused.value.retriable
    assert await harness.share_partition() is first
    first.retire()
    assert (await harness.share_partition(group="other")).group_id == "other"


async def test_partitions_without_a_leader_have_a_typed_error(harness: Harness) -> None:
    assert await refusal(harness, topic_id="U" * 22) is ErrorCode.UNKNOWN_TOPIC_ID
    assert await refusal(harness, partition=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await refusal(harness, partition=-1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    harness.leases.away = True
    assert await refusal(harness) is ErrorCode.LEADER_NOT_AVAILABLE
    harness.leases.away = False
    harness.records.away = True
    assert await refusal(harness) is ErrorCode.KAFKA_STORAGE_ERROR
    harness.records.away = False
    await harness.leadership.led(TOPIC, 0)
    await harness.hand_over()
    assert await refusal(harness) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_request_waits_for_a_topic_that_was_just_created() -> None:
    async with started() as harness:
        asking = asyncio.create_task(harness.leadership.led(TOPIC, 0))
        await settle()
        await harness.create_topic()
        assert (await asking).topic.name == "orders"


async def test_an_append_of_unknown_outcome_raises_the_epoch(
    harness: Harness,
) -> None:
    led = await harness.leadership.led(TOPIC, 0)
    epoch = led.log.epoch
    harness.records.fail_next_append(Fault.DONE_UNKNOWN)
    with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
        await led.own_log.append(batch(3))
    await eventually(lambda: led.log.epoch > epoch)
    await eventually(lambda: led.log.records_end_offset == 3)
    assert await harness.publish(2) == 3
    (response,) = await harness.acquire()
    assert len(response.acquired) == 1


# --- loading


async def test_a_groups_state_is_read_once_for_many_callers(harness: Harness) -> None:
    harness.persister.open.clear()
    asking = [asyncio.create_task(harness.share_partition()) for _ in range(5)]
    await eventually(lambda: harness.persister.reads)
    asking[0].cancel()
    await settle()
    harness.persister.open.set()
    found = {await task for task in asking[1:]}
    assert (len(found), harness.persister.reads) == (1, 1)


async def test_a_failed_load_fails_all_waiters_and_is_retried(harness: Harness) -> None:
    harness.persister.on_read.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    errors = await asyncio.gather(*(harness.share_partition() for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in errors] == [KafkaError] * 3
    await harness.share_partition()


@pytest.mark.parametrize(
    "state",
    [
        SharePartitionState(1, 0, (StateBatch(5, 3, 0, 1),)),
        SharePartitionState(1, 0, (StateBatch(0, 3, 77, 1),)),
    ],
)
async def test_inconsistent_state_is_a_typed_error(
    harness: Harness, state: SharePartitionState, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*_: object) -> SharePartitionState:
        return state

    monkeypatch.setattr(harness.persister, "read", read)
    with capture_logs(), pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR"):
        await harness.share_partition()


async def test_a_load_ends_with_not_leader_when_the_partition_is_lost(harness: Harness) -> None:
    harness.persister.open.clear()
    asking = asyncio.create_task(harness.share_partition())
    await eventually(lambda: harness.persister.reads)
    await harness.hand_over()
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        await asking


@pytest.mark.parametrize("turns", range(12))
async def test_a_load_whose_read_ends_beside_the_loss_leaves_nothing_loaded(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    led = await harness.leadership.led(TOPIC, 0)
    state = await harness.persister.read(SharePartitionKey(GROUP, TOPIC, 0), led.log.epoch)
    reading: asyncio.Future[SharePartitionState] = asyncio.get_running_loop().create_future()

    async def read(_key: SharePartitionKey, _leader_epoch: int) -> SharePartitionState:
        return await reading

    monkeypatch.setattr(harness.persister, "read", read)
    asking = asyncio.create_task(harness.share_partition())
    await settle()
    load = led.groups[GROUP]
    losing = asyncio.create_task(harness.hand_over())
    for _ in range(turns):
        await asyncio.sleep(0)
    if not reading.done():
        reading.set_result(state)
    await losing
    assert load.cancelled() or load.result().retired
    assert not led.loaded()
    asking.cancel()


async def test_a_load_that_outlasts_its_cancellation_ends_with_not_leader(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, begun = harness.persister.read, asyncio.Event()

    async def completes_when_cancelled(key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return await read(key, leader_epoch)

    led = await harness.leadership.led(TOPIC, 0)
    monkeypatch.setattr(harness.persister, "read", completes_when_cancelled)
    asking = asyncio.create_task(harness.share_partition())
    await begun.wait()
    await harness.hand_over()
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        await asking
    assert not led.loaded()


async def test_configs_changed_during_a_load_apply(harness: Harness) -> None:
    harness.persister.open.clear()
    asking = asyncio.create_task(harness.share_partition())
    await eventually(lambda: harness.persister.reads)
    await harness.configure("share.delivery.count.limit", "7")
    harness.persister.open.set()
    assert (await asking).core.settings.delivery_count_limit == 7


TOPIC_SETTINGS = ConfigResource(ResourceType.TOPIC, NAME)
CONCERNED: list[tuple[CatalogRecord, set[str]]] = [
    (TopicRecord(Topic("B" * 22, "another", 1)), set()),
    (PartitionsRecord("B" * 22, 2), set()),
    (ConfigRecord(ConfigResource(ResourceType.TOPIC, "another"), "retention.ms", "5"), set()),
    (ConfigRecord(ConfigResource(ResourceType.GROUP, "a third"), "share.delivery.count.limit", "3"), set()),
    (ClusterRecord("an id", {"share.version": 0}, 2), {"log", GROUP, "other"}),
    (PartitionsRecord(TOPIC, 2), {"log"}),
    (TopicRecord(Topic(TOPIC, NAME, 3)), {"log"}),
    (ConfigRecord(TOPIC_SETTINGS, "retention.ms", "5"), {"log"}),
    (ConfigRecord(ConfigResource(ResourceType.GROUP, GROUP), "share.delivery.count.limit", "3"), {GROUP}),
    (ConfigRecord(ConfigResource(ResourceType.BROKER, ""), "log.retention.ms", "5"), {"log", GROUP, "other"}),
]


async def test_a_config_record_configures_only_its_resource(harness: Harness) -> None:
    await harness.initialize(group="other")
    led = await harness.leadership.led(TOPIC, 0)
    loaded = {group: await harness.share_partition(group=group) for group in (GROUP, "other")}

    def settings() -> dict[str, object]:
        return {"log": led.own_log.settings} | {group: one.core.settings for group, one in loaded.items()}

    for record, concerned in CONCERNED:
        before = settings()
        await harness.append_to_catalog(record)
        assert {name for name, now in settings().items() if now is not before[name]} == concerned, record
    assert led.topic.partitions == 3


# --- members and groups


def _release(member: str, *partitions: int) -> pb.ReleaseMemberRequest:
    return pb.ReleaseMemberRequest(
        group_id=GROUP,
        member_id=member,
        partitions=[delivery.TopicPartition(topic_id=TOPIC, partition=number) for number in partitions],
    )


async def test_a_member_is_released_in_the_named_partitions() -> None:
    async with started() as harness:
        await harness.create_topic(partitions=3)
        for partition in range(3):
            await harness.publish(2, partition)
        await harness.acquire(partitions=range(3))
        await harness.initialize(group="other")
        await harness.share_partition(group="other")
        assert (await harness.stub.ReleaseMember(_release("m1", 1, 7))).released == 1
        responses = await harness.acquire(member="m2", partitions=range(3), max_wait_ms=100)
        assert [len(response.acquired) for response in responses] == [0, 1, 0]
        assert (await harness.stub.ReleaseMember(_release("m1"))).released == 3
        await settle()
        responses = await harness.acquire(member="m2", partitions=range(3))
        assert [len(response.acquired) for response in responses] == [1, 0, 1]


async def test_the_stream_of_a_fenced_member_loses_its_locks(harness: Harness) -> None:
    await harness.publish(2)
    async with stream(harness, credit=2) as fenced, stream(harness, member="m2") as other:
        await fenced.got_offsets(0, 1)
        await settle()
        await harness.stub.ReleaseMember(_release("m1"))
        other.grant(2)
        await other.got_offsets(0, 1)
        assert await fenced.acknowledge_all(ack(0)) == [(0, 0, ErrorCode.INVALID_RECORD_STATE)]


async def test_a_group_with_altered_offsets_is_loaded_again(harness: Harness) -> None:
    await harness.publish(10)
    async with stream(harness, credit=100) as consumer:
        await consumer.got_offsets(*range(10))
        await harness.initialize(state_epoch=2, start=8)
        assert (await harness.stub.ReleaseMember(_release(""))).released == 1
        await consumer.got_offsets(*range(10), 8, 9)


async def test_late_unload_request_keeps_locks(harness: Harness) -> None:
    await harness.publish(10)
    await harness.initialize(state_epoch=2, start=8)
    async with stream(harness, credit=100) as consumer:
        await consumer.got_offsets(8, 9)
        assert (await harness.stub.ReleaseMember(_release(""))).released == 1
        assert len((await harness.share_partition()).core.in_flight.held()) == 1
        assert await consumer.acknowledge_all(ack(8)) == [(8, 8, ErrorCode.NONE)]


async def test_unload_request_without_coordinator_keeps_locks(
    harness: Harness,
) -> None:
    await harness.publish(1)
    async with stream(harness, credit=1) as consumer:
        await consumer.got_offsets(0)
        harness.persister.on_read.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        assert (await harness.stub.ReleaseMember(_release(""))).released == 1
        assert await consumer.acknowledge_all(ack(0)) == [(0, 0, ErrorCode.NONE)]


async def test_a_load_during_an_alteration_restarts(harness: Harness) -> None:
    harness.persister.open.clear()
    asking = asyncio.create_task(harness.share_partition())
    await eventually(lambda: harness.persister.reads)
    await harness.initialize(state_epoch=2, start=8)
    assert (await harness.stub.ReleaseMember(_release("", 0))).released == 1
    second = asyncio.create_task(harness.share_partition())
    harness.persister.open.set()
    assert await asking is await second
    assert (await asking).core.start_offset == 8


async def test_unused_groups_are_dropped_over_time(harness: Harness) -> None:
    idle = await harness.share_partition()
    await harness.initialize(group="busy")
    await harness.publish(1)
    async with stream(harness, group="busy", credit=1) as consumer:
        await consumer.got_offsets(0)
        harness.leadership.drop_unused()
        assert idle.retired
        assert [each.group_id for each in harness.leadership.partitions()[0].loaded()] == ["busy"]
        assert await harness.share_partition() is not idle


async def test_a_load_stores_a_start_offset_that_moved(harness: Harness) -> None:
    """The accept of 0 was stored but its reply lost; those of 1 to 3 then carried the old start offset.

    The state is finished, and its count of finished records is 0: the lag would stay 3.
    """
    await harness.publish(4)
    epoch = (await harness.leadership.led(TOPIC, 0)).own_log.epoch
    key = SharePartitionKey(GROUP, TOPIC, 0)
    await harness.persister.read(key, epoch)
    accepted = StateBatch(1, 3, RecordState.ACKNOWLEDGED, 1)
    await harness.persister.write(key, StateWrite(1, epoch, 1, 0, ()))
    await harness.persister.write(key, StateWrite(1, epoch, 0, 3, (accepted,)))
    assert await harness.persister.read_summary(key) == StateSummary(1, epoch, 1, 0)
    await harness.share_partition()
    await eventually(lambda: len(harness.persister.writes) == 3)
    assert await harness.persister.read_summary(key) == StateSummary(1, epoch, 4, 0)


# --- the catalog


async def test_changed_topic_configs_apply_to_the_log(harness: Harness) -> None:
    led = await harness.leadership.led(TOPIC, 0)
    await harness.append_to_catalog(
        ConfigRecord(ConfigResource(ResourceType.TOPIC, "orders"), "max.message.bytes", "50")
    )
    assert led.own_log.settings.max_message_bytes == 50
    await harness.append_to_catalog(PartitionsRecord(TOPIC, 4))
    assert led.topic.partitions == 4
    assert (await harness.leadership.led(TOPIC, 3)).partition == 3


async def test_deleted_topic_is_relinquished_and_its_logs_removed(harness: Harness) -> None:
    await harness.publish(3)
    async with stream(harness, credit=10) as consumer:
        await consumer.got_offsets(0, 1, 2)
        await harness.append_to_catalog(TopicDeletedRecord(TOPIC, 1))
        await consumer.got(lambda: consumer.lost and consumer.problems)
        assert code(consumer.problems[-1]) is ErrorCode.UNKNOWN_TOPIC_ID
    await eventually(lambda: RESOURCE not in harness.records._partitions)
    assert await refusal(harness) is ErrorCode.UNKNOWN_TOPIC_ID
    assert not harness.leadership.partitions()


@pytest.mark.parametrize("away", ["records", "leases"])
async def test_failed_removal_of_a_log_is_retried(harness: Harness, away: str) -> None:
    await harness.publish(3)
    getattr(harness, away).away = True
    if away == "leases":
        harness.holder.forget(RESOURCE)
    await harness.append_to_catalog(TopicDeletedRecord(TOPIC, 1))
    await asyncio.sleep(10)
    assert RESOURCE in harness.records._partitions
    getattr(harness, away).away = False
    await eventually(lambda: RESOURCE not in harness.records._partitions)


async def test_removal_is_retried_while_the_owner_is_unknown(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.publish(3)
    owner_of, lookups = harness.holder.owner_of, []

    async def unknown_at_first(resource: str) -> ClusterMember | None:
        lookups.append(resource)
        return None if len(lookups) < 3 else await owner_of(resource)

    monkeypatch.setattr(harness.holder, "owner_of", unknown_at_first)
    await harness.append_to_catalog(TopicDeletedRecord(TOPIC, 1))
    await eventually(lambda: RESOURCE not in harness.records._partitions)
    assert lookups == [RESOURCE] * 3


async def test_log_of_another_leader_is_not_removed(harness: Harness) -> None:
    await harness.publish(3)
    await harness.hand_over()
    await harness.append_to_catalog(TopicDeletedRecord(TOPIC, 1))
    await asyncio.sleep(10)
    assert RESOURCE in harness.records._partitions


async def test_leftovers_of_a_deleted_topic_are_removed(harness: Harness) -> None:
    await harness.append_to_catalog(PartitionsRecord(TOPIC, 2))
    await harness.publish(3)
    await harness.publish(3, partition=1)
    deaf = harness.catalog._observers.copy()
    harness.catalog._observers.clear()  # the leader is unavailable
    await harness.append_to_catalog(TopicDeletedRecord(TOPIC, 2))
    harness.catalog._observers.extend(deaf)
    harness.records.away = True
    await harness.leadership.remove_leftovers()
    harness.records.away = False
    assert len(harness.records._partitions) == 2
    await harness.leadership.remove_leftovers()
    assert not harness.records._partitions
    assert await harness.leases.read([RESOURCE]) == [None]


async def test_logs_of_existing_topics_are_kept(harness: Harness) -> None:
    await harness.publish(3)
    await harness.leadership.remove_leftovers()
    assert RESOURCE in harness.records._partitions


async def test_a_topic_deleted_while_its_log_is_opened_is_not_led(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = harness.records.bounds

    async def deleting(partition: str) -> object:
        await harness.append_to_catalog(TopicDeletedRecord(TOPIC, 1))
        return await bounds(partition)

    monkeypatch.setattr(harness.records, "bounds", deleting)
    assert await refusal(harness) is ErrorCode.UNKNOWN_TOPIC_ID
    assert not harness.leadership.partitions()


# --- the end


async def test_a_hand_over_waits_for_acknowledgements(harness: Harness) -> None:
    await harness.publish(5)
    async with stream(harness, credit=10) as consumer:
        await consumer.got_offsets(*range(5))
        harness.persister.open.clear()
        (ack_id,) = consumer.acknowledge(ack(0, 2))
        await eventually(lambda: harness.persister.writes)
        losing = asyncio.create_task(harness.hand_over())
        await settle()
        assert harness.holder.holds(RESOURCE) is not None
        harness.persister.open.set()
        await losing
        await consumer.got(lambda: consumer.lost)
        assert consumer.outcome(ack_id) == [(0, 2, ErrorCode.NONE)]


async def test_lost_lease_ends_the_leadership(harness: Harness) -> None:
    led = await harness.leadership.led(TOPIC, 0)
    share_partition = await harness.share_partition()
    lease = harness.leases._leases[RESOURCE]
    harness.leases._leases[RESOURCE] = type(lease)("9/1", lease.epoch + 1, lease.expires_at)
    harness.holder._renew_at = 0.0
    await harness.holder.reconcile()
    await eventually(lambda: share_partition.retired)
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        await led.own_log.append(batch(1))
    assert await refusal(harness) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_stop_relinquishes_every_partition(harness: Harness) -> None:
    await harness.publish(3)
    async with stream(harness, credit=10) as consumer:
        await consumer.got_offsets(0, 1, 2)
        harness.records.away = True
        await harness.append_to_catalog(TopicDeletedRecord("U" * 22, 1))
        await harness.leadership.close()
        await consumer.got(lambda: consumer.lost)
        assert not harness.leadership.partitions()
        assert not [task for task in asyncio.all_tasks() if "_remove" in str(task.get_coro())]


async def test_wake_notifies_readers_and_loaded_share_partitions(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    led = await harness.leadership.led(TOPIC, 0)
    assert (led.partition, led.loaded()) == (0, [share_partition])
    notified: list[object] = []

    class Listener:
        def records_available(self, which: object) -> None:
            notified.append(which)

        def retired(self, which: object) -> None:
            raise AssertionError

    share_partition.add_listener(Listener())
    reader = asyncio.Event()
    led.readers.add(reader)
    led.wake()
    assert (reader.is_set(), notified) == (True, [share_partition])
    reader.clear()
    led.wake_readers()
    assert (reader.is_set(), len(notified)) == (True, 1)


def test_a_group_config_becomes_share_partition_settings() -> None:
    config = replace(
        GroupConfig(),
        share_delivery_count_limit=7,
        share_record_lock_duration_ms=1500,
        share_partition_max_record_locks=300,
        share_renew_acknowledge_enable=False,
        share_isolation_level="read_committed",
        share_record_max_age_ms=2500,
    )
    settings = share_partition_settings(
        config, BrokerConfig(group_share_partition_max_runs=5000, share_partition_max_archiving_records=300)
    )
    assert (settings.delivery_count_limit, settings.lock_duration, settings.max_record_locks) == (7, 1.5, 300)
    assert (settings.renew_enabled, settings.read_committed) == (False, True)
    assert (settings.max_runs, settings.max_archiving, settings.backoff) == (5000, 300, None)
    assert settings.max_record_age == 2.5
    assert not settings.paused
    assert share_partition_settings(GroupConfig(share_paused=True), BrokerConfig()).paused
    assert not share_partition_settings(GroupConfig(), BrokerConfig()).read_committed


@pytest.mark.parametrize(
    ("topic", "level", "expected"), [("dlq.t", 2, True), ("dlq.t", 1, False), ("", 2, False)]
)
def test_dead_letters_need_a_topic_and_level_2(topic: str, level: int, expected: bool) -> None:
    config = GroupConfig(errors_deadletterqueue_topic_name=topic)
    assert share_partition_settings(config, BrokerConfig(), level).dead_letters is expected


def test_backoff_configs_become_share_partition_settings() -> None:
    config = replace(GroupConfig(), share_retry_backoff_ms=50, share_retry_backoff_on="release")
    broker = BrokerConfig(group_share_max_retry_delay_ms=70_000)
    assert share_partition_settings(config, broker).backoff == RetryBackoff(
        50, 2.0, 5000, 0.2, frozenset({"release"}), 70_000
    )
    longer = replace(config, share_retry_backoff_max_ms=60_000)
    backoff = share_partition_settings(longer, broker).backoff
    assert backoff is not None
    assert backoff.max_ms == 60_000


async def test_a_delay_continues_under_a_new_leader(harness: Harness) -> None:
    await harness.publish(10)
    await harness.configure("share.retry.backoff.ms", "20000")
    await harness.configure("share.retry.backoff.jitter", "0")
    await harness.acquire()
    released = now()
    assert code(await harness.acknowledge((0, 9, RELEASE))) is ErrorCode.NONE
    # The clock of the next leader is two seconds ahead of that of Redis.
    harness.leases.clock_skew = 2.0
    (await harness.share_partition()).retire()
    share_partition = await harness.share_partition()
    assert share_partition.core.in_flight.waiting == 10
    [response] = await harness.acquire(max_wait_ms=60_000)
    assert [(each.first_offset, each.delivery_count) for each in response.acquired] == [(0, 2)]
    assert 22.0 <= now() - released < 22.1


@pytest.mark.parametrize(("delay_ms", "waited"), [(0, 0.0), (500, 0.5), (None, 5.0)])
async def test_a_delay_of_an_acknowledgement_takes_precedence(
    harness: Harness, delay_ms: int | None, waited: float
) -> None:
    await harness.publish(10)
    await harness.configure("share.retry.backoff.ms", "5000")
    await harness.configure("share.retry.backoff.jitter", "0")
    await harness.acquire()
    released = now()
    await harness.acknowledge((0, 9, RELEASE), delay_ms=delay_ms)
    [response] = await harness.acquire(max_wait_ms=60_000)
    assert response.acquired
    assert waited <= now() - released < waited + 0.1


@pytest.mark.parametrize("delay_ms", [0, 3_000])
async def test_a_shorter_delay_replaces_one_whose_write_seemed_to_fail(
    harness: Harness, delay_ms: int
) -> None:
    """The first delay was stored; a new leader must not load the later of the two times."""
    await harness.publish(10)
    await harness.acquire()
    harness.persister.after.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    failed = await harness.acknowledge((0, 9, RELEASE), delay_ms=3_600_000)
    assert code(failed) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    released = now()
    assert code(await harness.acknowledge((0, 9, RELEASE), delay_ms=delay_ms)) is ErrorCode.NONE
    (await harness.share_partition()).retire()
    [response] = await harness.acquire(max_wait_ms=60_000)
    assert [(each.first_offset, each.delivery_count) for each in response.acquired] == [(0, 2)]
    assert delay_ms / 1000 <= now() - released < delay_ms / 1000 + 0.1


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (ConfigResource(ResourceType.GROUP, GROUP), "share.retry.backoff.ms"),
        (ConfigResource(ResourceType.BROKER, ""), "group.share.max.retry.delay.ms"),
    ],
)
@pytest.mark.parametrize("retired", [False, True])
async def test_a_lowered_limit_applies_to_new_delays_only(
    harness: Harness, resource: ConfigResource, name: str, retired: bool
) -> None:
    """Records that wait keep their time, also under a new leader."""
    await harness.publish(10)
    await harness.configure("share.retry.backoff.ms", "20000")
    await harness.configure("share.retry.backoff.jitter", "0")
    await harness.acquire()
    released = now()
    assert code(await harness.acknowledge((0, 4, RELEASE))) is ErrorCode.NONE
    await harness.append_to_catalog(ConfigRecord(resource, name, "3000"))
    assert code(await harness.acknowledge((5, 9, RELEASE))) is ErrorCode.NONE
    if retired:
        (await harness.share_partition()).retire()
    for first, last, waited in ((5, 9, 3.0), (0, 4, 20.0)):
        [response] = await harness.acquire(max_wait_ms=60_000)
        assert [(each.first_offset, each.last_offset) for each in response.acquired] == [(first, last)]
        assert waited <= now() - released < waited + 0.1
        assert code(await harness.acknowledge((first, last, ACCEPT))) is ErrorCode.NONE


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
async def test_a_jump_of_redis_clock_changes_no_wait_in_memory(harness: Harness, jump: float) -> None:
    await harness.publish(10)
    await harness.acquire()
    released = now()
    await harness.acknowledge((0, 9, RELEASE), delay_ms=20_000)
    harness.leases.clock_skew = -jump
    [response] = await harness.acquire(max_wait_ms=60_000)
    assert response.acquired
    assert 20.0 <= now() - released < 20.1


@pytest.mark.slow
@pytest.mark.parametrize(("jump", "waited"), [(3600.0, 0.0), (15.0, 5.0), (-3600.0, 3620.0)])
async def test_a_jump_of_redis_clock_moves_the_waits_of_a_new_leader(
    harness: Harness, jump: float, waited: float
) -> None:
    """The stored times are those of Redis's clock; no record is lost, and none waits longer than the jump."""
    await harness.publish(10)
    await harness.acquire()
    released = now()
    await harness.acknowledge((0, 9, RELEASE), delay_ms=20_000)
    harness.leases.clock_skew = -jump
    (await harness.share_partition()).retire()
    async with asyncio.timeout(4_000):
        while not (response := await harness.acquire(max_wait_ms=60_000))[0].acquired:
            pass
    assert [each.delivery_count for each in response[0].acquired] == [2]
    assert waited <= now() - released < waited + 0.1


async def test_client_ids_are_stored_up_to_a_limit(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "MOST_CLIENTS", 2)
    for number in range(3):
        await harness.acquire(member=f"m{number}", client_id="c" * 300, max_wait_ms=0)
    assert harness.leadership.clients == {(GROUP, f"m{number}"): "c" * 255 for number in (1, 2)}
    harness.local.deliver(DeliverOpen(GROUP, "m4", client_id="c4")).close()
    assert harness.leadership.clients[GROUP, "m4"] == "c4"
