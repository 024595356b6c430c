"""Which partitions are led, loading of groups, the catalog's changes, the end."""

from __future__ import annotations

import asyncio

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
    ConfigResource,
    PartitionsRecord,
    ResourceType,
    Topic,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.leases import names
from sharebroker_server.leases.port import Member
from sharebroker_server.persister.port import SharePartitionState, StateSummary
from sharebroker_server.stream_log.memory import Fault
from sharebroker_server.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.streams import said, stream
from tests.unit.share_partition_leader.virtual_time import settle
from tests.unit.share_partition_leader.world import GROUP, NAME, TOPIC, World, code
from tests.unit.share_partition_leader.world import world as started

RESOURCE = names.partition(TOPIC, 0)


async def refusal(world: World, topic_id: str = TOPIC, partition: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await world.leadership.led(topic_id, partition)
    return refused.value.code


# --- claiming


async def test_a_partition_is_claimed_at_its_first_use(world: World) -> None:
    assert world.holder.holds(RESOURCE) is None
    first = await world.leadership.led(TOPIC, 0)
    assert first.log.epoch == world.holder.holds(RESOURCE)
    assert await world.leadership.led(TOPIC, 0) is first
    assert world.leadership.partitions() == [first]
    assert first.partition == 0


async def test_a_process_keeps_so_many_share_partitions_and_no_more(world: World) -> None:
    resource = ConfigResource(ResourceType.BROKER, "")
    await world.tell(ConfigRecord(resource, "group.share.max.share.partitions", "1"))
    await world.initialize(group="other")
    first = await world.share_partition()
    await world.publish(1)
    await world.acquire(5)  # in use: it cannot be dropped for another
    with pytest.raises(KafkaError) as refused:
        await world.share_partition(group="other")
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused.value.retriable
    assert await world.share_partition() is first
    first.retire()
    assert (await world.share_partition(group="other")).group_id == "other"


async def test_what_cannot_be_led(world: World) -> None:
    assert await refusal(world, topic_id="U" * 22) is ErrorCode.UNKNOWN_TOPIC_ID
    assert await refusal(world, partition=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await refusal(world, partition=-1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.leases.away = True
    assert await refusal(world) is ErrorCode.LEADER_NOT_AVAILABLE
    world.leases.away = False
    world.records.away = True
    assert await refusal(world) is ErrorCode.KAFKA_STORAGE_ERROR
    world.records.away = False
    await world.leadership.led(TOPIC, 0)
    await world.lose()
    assert await refusal(world) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_topic_that_was_just_created_is_waited_for() -> None:
    async with started() as world:
        asking = asyncio.create_task(world.leadership.led(TOPIC, 0))
        await settle()
        await world.create_topic()
        assert (await asking).topic.name == "orders"


async def test_after_an_append_of_unknown_outcome_the_log_goes_on_under_a_higher_epoch(world: World) -> None:
    led = await world.leadership.led(TOPIC, 0)
    epoch = led.log.epoch
    world.records.fail_next_append(Fault.DONE_UNKNOWN)
    with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
        await led.log.append(batch(3))
    await eventually(lambda: led.log.epoch > epoch)
    await eventually(lambda: led.log.log_end_offset == 3)
    assert await world.publish(2) == 3
    (answer,) = await world.acquire()
    assert len(answer.acquired) == 1


# --- loading


async def test_a_groups_state_is_read_once_for_many_callers(world: World) -> None:
    world.persister.open.clear()
    asking = [asyncio.create_task(world.share_partition()) for _ in range(5)]
    await eventually(lambda: world.persister.reads)
    asking[0].cancel()
    await settle()
    world.persister.open.set()
    found = {await task for task in asking[1:]}
    assert (len(found), world.persister.reads) == (1, 1)


async def test_a_failed_load_is_told_to_all_and_tried_anew(world: World) -> None:
    world.persister.on_read.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    told = await asyncio.gather(*(world.share_partition() for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in told] == [KafkaError] * 3
    await world.share_partition()


@pytest.mark.parametrize(
    "state",
    [
        SharePartitionState(1, 0, (StateBatch(5, 3, 0, 1),)),
        SharePartitionState(1, 0, (StateBatch(0, 3, 77, 1),)),
    ],
)
async def test_state_that_contradicts_itself_is_an_error_not_a_crash(
    world: World, state: SharePartitionState, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*_: object) -> SharePartitionState:
        return state

    monkeypatch.setattr(world.persister, "read", read)
    with capture_logs(), pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR"):
        await world.share_partition()


async def test_who_waits_for_a_load_when_the_partition_goes_is_sent_elsewhere(world: World) -> None:
    world.persister.open.clear()
    asking = asyncio.create_task(world.share_partition())
    await eventually(lambda: world.persister.reads)
    await world.lose()
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        await asking


async def test_settings_that_change_during_a_load_count(world: World) -> None:
    world.persister.open.clear()
    asking = asyncio.create_task(world.share_partition())
    await eventually(lambda: world.persister.reads)
    await world.configure("share.delivery.count.limit", "7")
    world.persister.open.set()
    assert (await asking).core.settings.delivery_count_limit == 7


TOPIC_SETTINGS = ConfigResource(ResourceType.TOPIC, NAME)
CONCERNED: list[tuple[CatalogRecord, set[str]]] = [
    (TopicRecord(Topic("B" * 22, "another", 1)), set()),
    (PartitionsRecord("B" * 22, 2), set()),
    (ConfigRecord(ConfigResource(ResourceType.TOPIC, "another"), "retention.ms", "5"), set()),
    (ConfigRecord(ConfigResource(ResourceType.GROUP, "a third"), "share.delivery.count.limit", "3"), set()),
    (ClusterRecord("an id"), set()),
    (PartitionsRecord(TOPIC, 2), {"log"}),
    (TopicRecord(Topic(TOPIC, NAME, 3)), {"log"}),
    (ConfigRecord(TOPIC_SETTINGS, "retention.ms", "5"), {"log"}),
    (ConfigRecord(ConfigResource(ResourceType.GROUP, GROUP), "share.delivery.count.limit", "3"), {GROUP}),
    (ConfigRecord(ConfigResource(ResourceType.BROKER, ""), "log.retention.ms", "5"), {"log", GROUP, "other"}),
]


async def test_only_what_a_record_concerns_is_configured_anew(world: World) -> None:
    await world.initialize(group="other")
    led = await world.leadership.led(TOPIC, 0)
    loaded = {group: await world.share_partition(group=group) for group in (GROUP, "other")}

    def settings() -> dict[str, object]:
        return {"log": led.log.settings} | {group: one.core.settings for group, one in loaded.items()}

    for record, concerned in CONCERNED:
        before = settings()
        await world.tell(record)
        assert {name for name, now in settings().items() if now is not before[name]} == concerned, record
    assert led.topic.partitions == 3


# --- members and groups


def _release(member: str, *partitions: int) -> pb.ReleaseMemberRequest:
    return pb.ReleaseMemberRequest(
        group_id=GROUP,
        member_id=member,
        partitions=[delivery.TopicPartition(topic_id=TOPIC, partition=number) for number in partitions],
    )


async def test_a_member_is_released_where_it_is_asked_for() -> None:
    async with started() as world:
        await world.create_topic(partitions=3)
        for partition in range(3):
            await world.publish(2, partition)
        await world.acquire(partitions=range(3))
        await world.initialize(group="other")
        await world.share_partition(group="other")
        assert (await world.stub.ReleaseMember(_release("m1", 1, 7))).released == 1
        answers = await world.acquire(member="m2", partitions=range(3), max_wait_ms=100)
        assert [len(answer.acquired) for answer in answers] == [0, 1, 0]
        assert (await world.stub.ReleaseMember(_release("m1"))).released == 3
        await settle()
        answers = await world.acquire(member="m2", partitions=range(3))
        assert [len(answer.acquired) for answer in answers] == [1, 0, 1]


async def test_the_stream_of_a_fenced_member_loses_what_it_holds(world: World) -> None:
    await world.publish(2)
    async with stream(world, credit=2) as fenced, stream(world, member="m2") as other:
        await fenced.got_offsets(0, 1)
        await settle()
        await world.stub.ReleaseMember(_release("m1"))
        other.grant(2)
        await other.got_offsets(0, 1)
        assert await fenced.told(said(0)) == [(0, 0, ErrorCode.INVALID_RECORD_STATE)]


async def test_a_group_whose_offsets_were_changed_is_loaded_anew(world: World) -> None:
    await world.publish(10)
    async with stream(world, credit=100) as consumer:
        await consumer.got_offsets(*range(10))
        await world.initialize(state_epoch=2, start=8)
        assert (await world.stub.ReleaseMember(_release(""))).released == 1
        await consumer.got_offsets(*range(10), 8, 9)


async def test_who_says_late_that_offsets_were_changed_costs_no_locks(world: World) -> None:
    await world.publish(10)
    await world.initialize(state_epoch=2, start=8)
    async with stream(world, credit=100) as consumer:
        await consumer.got_offsets(8, 9)
        assert (await world.stub.ReleaseMember(_release(""))).released == 1
        assert len((await world.share_partition()).core.held()) == 1
        assert await consumer.told(said(8)) == [(8, 8, ErrorCode.NONE)]


async def test_who_says_that_offsets_were_changed_while_nobody_can_tell_costs_no_locks(world: World) -> None:
    await world.publish(1)
    async with stream(world, credit=1) as consumer:
        await consumer.got_offsets(0)
        world.persister.on_read.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        assert (await world.stub.ReleaseMember(_release(""))).released == 1
        assert await consumer.told(said(0)) == [(0, 0, ErrorCode.NONE)]


async def test_a_load_under_way_when_offsets_are_changed_begins_anew(world: World) -> None:
    world.persister.open.clear()
    asking = asyncio.create_task(world.share_partition())
    await eventually(lambda: world.persister.reads)
    await world.initialize(state_epoch=2, start=8)
    assert (await world.stub.ReleaseMember(_release("", 0))).released == 1
    second = asyncio.create_task(world.share_partition())
    world.persister.open.set()
    assert await asking is await second
    assert (await asking).core.start_offset == 8


async def test_groups_that_nobody_uses_are_forgotten_by_and_by(world: World) -> None:
    idle = await world.share_partition()
    await world.initialize(group="busy")
    await world.publish(1)
    async with stream(world, group="busy", credit=1) as consumer:
        await consumer.got_offsets(0)
        world.leadership.drop_unused()
        assert idle.retired
        assert [each.group_id for each in world.leadership.partitions()[0].loaded()] == ["busy"]
        assert await world.share_partition() is not idle


async def test_what_a_late_write_left_finished_is_told_by_the_next_who_loads(world: World) -> None:
    """The accept of 0 was stored but not heard of; then those of 1 to 3 came with the start as it had been.

    The state is finished, and its count of finished records is 0: the lag would be 3 for ever.
    """
    await world.publish(4)
    epoch = (await world.leadership.led(TOPIC, 0)).log.epoch
    key = SharePartitionKey(GROUP, TOPIC, 0)
    await world.persister.read(key, epoch)
    accepted = StateBatch(1, 3, RecordState.ACKNOWLEDGED, 1)
    await world.persister.write(key, StateWrite(1, epoch, 1, 0, ()))
    await world.persister.write(key, StateWrite(1, epoch, 0, 3, (accepted,)))
    assert await world.persister.read_summary(key) == StateSummary(1, epoch, 1, 0)
    await world.share_partition()
    await eventually(lambda: len(world.persister.writes) == 3)
    assert await world.persister.read_summary(key) == StateSummary(1, epoch, 4, 0)


# --- the catalog


async def test_a_topics_settings_are_followed(world: World) -> None:
    led = await world.leadership.led(TOPIC, 0)
    await world.tell(ConfigRecord(ConfigResource(ResourceType.TOPIC, "orders"), "max.message.bytes", "50"))
    assert led.log.settings.max_message_bytes == 50
    await world.tell(PartitionsRecord(TOPIC, 4))
    assert led.topic.partitions == 4
    assert (await world.leadership.led(TOPIC, 3)).partition == 3


async def test_a_deleted_topic_is_given_up_and_its_logs_removed(world: World) -> None:
    await world.publish(3)
    async with stream(world, credit=10) as consumer:
        await consumer.got_offsets(0, 1, 2)
        await world.tell(TopicDeletedRecord(TOPIC, 1))
        await consumer.got(lambda: consumer.lost and consumer.problems)
        assert code(consumer.problems[-1]) is ErrorCode.UNKNOWN_TOPIC_ID
    await eventually(lambda: RESOURCE not in world.records._partitions)
    assert await refusal(world) is ErrorCode.UNKNOWN_TOPIC_ID
    assert not world.leadership.partitions()


@pytest.mark.parametrize("away", ["records", "leases"])
async def test_a_log_that_cannot_be_removed_is_tried_again(world: World, away: str) -> None:
    await world.publish(3)
    getattr(world, away).away = True
    if away == "leases":
        world.holder.forget(RESOURCE)
    await world.tell(TopicDeletedRecord(TOPIC, 1))
    await asyncio.sleep(10)
    assert RESOURCE in world.records._partitions
    getattr(world, away).away = False
    await eventually(lambda: RESOURCE not in world.records._partitions)


async def test_a_log_whose_owner_is_not_known_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.publish(3)
    owner_of, asked = world.holder.owner_of, []

    async def unknown_at_first(resource: str) -> Member | None:
        asked.append(resource)
        return None if len(asked) < 3 else await owner_of(resource)

    monkeypatch.setattr(world.holder, "owner_of", unknown_at_first)
    await world.tell(TopicDeletedRecord(TOPIC, 1))
    await eventually(lambda: RESOURCE not in world.records._partitions)
    assert asked == [RESOURCE] * 3


async def test_a_log_that_another_leads_is_for_that_one_to_remove(world: World) -> None:
    await world.publish(3)
    await world.lose()
    await world.tell(TopicDeletedRecord(TOPIC, 1))
    await asyncio.sleep(10)
    assert RESOURCE in world.records._partitions


async def test_what_was_left_of_a_topic_that_was_deleted_meanwhile_is_removed(world: World) -> None:
    await world.tell(PartitionsRecord(TOPIC, 2))
    await world.publish(3)
    await world.publish(3, partition=1)
    deaf = world.catalog._observers.copy()
    world.catalog._observers.clear()  # the leader is away
    await world.tell(TopicDeletedRecord(TOPIC, 2))
    world.catalog._observers.extend(deaf)
    world.records.away = True
    await world.leadership.remove_leftovers()
    world.records.away = False
    assert len(world.records._partitions) == 2
    await world.leadership.remove_leftovers()
    assert not world.records._partitions
    assert await world.leases.read([RESOURCE]) == [None]


async def test_logs_of_topics_that_are_there_stay(world: World) -> None:
    await world.publish(3)
    await world.leadership.remove_leftovers()
    assert RESOURCE in world.records._partitions


async def test_a_topic_deleted_while_its_log_is_opened_is_not_led(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = world.records.bounds

    async def deleting(partition: str) -> object:
        await world.tell(TopicDeletedRecord(TOPIC, 1))
        return await bounds(partition)

    monkeypatch.setattr(world.records, "bounds", deleting)
    assert await refusal(world) is ErrorCode.UNKNOWN_TOPIC_ID
    assert not world.leadership.partitions()


# --- the end


async def test_a_hand_over_waits_for_what_was_acknowledged(world: World) -> None:
    await world.publish(5)
    async with stream(world, credit=10) as consumer:
        await consumer.got_offsets(*range(5))
        world.persister.open.clear()
        (ack_id,) = consumer.say(said(0, 2))
        await eventually(lambda: world.persister.writes)
        losing = asyncio.create_task(world.lose())
        await settle()
        assert world.holder.holds(RESOURCE) is not None
        world.persister.open.set()
        await losing
        await consumer.got(lambda: consumer.lost)
        assert consumer.outcome(ack_id) == [(0, 2, ErrorCode.NONE)]


async def test_a_lease_that_another_took_ends_the_work(world: World) -> None:
    led = await world.leadership.led(TOPIC, 0)
    share_partition = await world.share_partition()
    lease = world.leases._leases[RESOURCE]
    world.leases._leases[RESOURCE] = type(lease)("9/1", lease.epoch + 1, lease.expires_at)
    world.holder._renew_at = 0.0
    await world.holder.round()
    await eventually(lambda: share_partition.retired)
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        await led.log.append(batch(1))
    assert await refusal(world) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_at_the_end_everything_is_given_up(world: World) -> None:
    await world.publish(3)
    async with stream(world, credit=10) as consumer:
        await consumer.got_offsets(0, 1, 2)
        world.records.away = True
        await world.tell(TopicDeletedRecord("U" * 22, 1))
        await world.leadership.close()
        await consumer.got(lambda: consumer.lost)
        assert not world.leadership.partitions()
        assert not [task for task in asyncio.all_tasks() if "_remove" in str(task.get_coro())]
