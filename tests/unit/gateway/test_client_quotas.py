"""gRPC clients over their quotas: calls wait within their deadline, streams get no credit meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2, plan_pb2_grpc, produce_pb2, share_pb2
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.machine import MAX_PARTITIONS
from sharebroker_server.catalog.quotas import QuotaEntity, QuotaKey, QuotaRecord
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.client_quotas import ClientQuotas, QuotaClient
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.consume.requests import consuming, own_membership, stream_of
from tests.unit.gateway.consume.unary_requests import one_record, request
from tests.unit.gateway.metric_values import values
from tests.unit.gateway.produce.requests import appending, produced, records, refused
from tests.unit.gateway.share.requests import fetch, records_of
from tests.unit.record_log.batches import batch

CONFIG = BrokerConfig.of({"quota.window.num": "1"})
ANYONE = QuotaEntity("")
ALICE = QuotaClient("alice", "c")
PRODUCED, CONSUMED = QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE


class Clock:
    """Simulated time of the quotas: waits end at once unless `gate` is closed, and are recorded."""

    def __init__(self, harness: Harness) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.catalog = harness.gateway.catalog
        self.quotas = harness.gateway.quotas = ClientQuotas(
            self.catalog, CONFIG, lambda: self.now, self.sleep
        )

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await self.gate.wait()
        self.now += seconds

    def limit(self, key: QuotaKey, value: float | None, entity: QuotaEntity = ANYONE) -> None:
        self.catalog.catalog.quotas.apply(QuotaRecord(entity, key, value))


@pytest.fixture
def clock(harness: Harness) -> Clock:
    harness.leader.answer = appending
    return Clock(harness)


async def test_quotas_of_the_catalog_are_followed(clock: Clock) -> None:
    assert not clock.quotas.active
    clock.limit(PRODUCED, 1.0)
    assert clock.quotas.active
    assert clock.quotas.charge(PRODUCED, ALICE, 3) == pytest.approx(2.0)
    assert clock.quotas.charge(CONSUMED, ALICE, 3) == 0.0
    clock.limit(PRODUCED, None)
    assert not clock.quotas.active


async def test_a_request_for_too_many_partitions_has_a_limited_debt(clock: Clock) -> None:
    clock.limit(QuotaKey.CONTROLLER_MUTATION_RATE, 10.0)
    clock.quotas.mutate(ALICE, 2**31 - 1, strict=True)
    with pytest.raises(KafkaError) as error:
        clock.quotas.mutate(ALICE, 1, strict=True)
    assert error.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clock.now += MAX_PARTITIONS / 10.0
    clock.quotas.mutate(ALICE, 1, strict=True)


async def test_requests_that_wait_take_turns(clock: Clock) -> None:
    clock.limit(PRODUCED, 100.0)
    assert clock.quotas.active
    clock.gate.clear()
    waiting = [
        asyncio.create_task(clock.quotas.admit(PRODUCED, ALICE, 200, Deadline(30.0))) for _ in range(3)
    ]
    await eventually(lambda: len(clock.waits) == 2)
    assert clock.waits == [pytest.approx(1.0), pytest.approx(3.0)], "the first one does not wait"
    clock.gate.set()
    await asyncio.gather(*waiting)
    assert clock.quotas.throttled[PRODUCED] == pytest.approx(4.0)


async def test_a_wait_beyond_the_deadline_is_refused_and_not_charged(clock: Clock) -> None:
    clock.limit(PRODUCED, 100.0)
    assert clock.quotas.active
    clock.quotas.charge(PRODUCED, ALICE, 600)
    with pytest.raises(KafkaError) as refusal:
        await clock.quotas.admit(PRODUCED, ALICE, 100, Deadline(1.0))
    assert refusal.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refusal.value.retry_after == pytest.approx(5.0)
    assert clock.quotas.charge(PRODUCED, ALICE, 0) == pytest.approx(5.0)
    assert not clock.waits


async def test_waiting_calls_hold_a_limited_number_of_bytes(clock: Clock) -> None:
    clock.limit(PRODUCED, 1.0)
    clock.gate.clear()
    clock.quotas.charge(PRODUCED, ALICE, 10)
    limit = CONFIG.queued_max_request_bytes // 4
    waiting = asyncio.create_task(clock.quotas.admit(PRODUCED, ALICE, 1, Deadline(30.0), limit))
    await eventually(lambda: clock.waits)
    with pytest.raises(KafkaError) as refusal:
        await clock.quotas.admit(PRODUCED, ALICE, 1, Deadline(30.0), 1)
    assert refusal.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    await clock.quotas.admit(PRODUCED, QuotaClient("bob", "c"), 1, Deadline(30.0), 1)
    stream = asyncio.create_task(clock.quotas.admit(PRODUCED, ALICE, 1))
    await eventually(lambda: len(clock.waits) == 2)
    clock.gate.set()
    await asyncio.gather(waiting, stream)
    await clock.quotas.admit(PRODUCED, ALICE, 1, Deadline(30.0), 1)


async def test_ranges_are_read_when_the_earlier_ones_are_paid(harness: Harness, clock: Clock) -> None:
    harness.leader.answer = lambda _: leader.FetchResponse(
        partitions=[leader.FetchResponse.Partition(records=batch(2))]
    )
    clock.limit(CONSUMED, 1.0)
    plan = plan_pb2_grpc.PlanServiceStub(harness.channel)
    span = plan_pb2.PlanRange(topic="flights", partition=0, first_offset=0, last_offset=1)
    for _ in range(2):
        read = await plan.ReadRange(plan_pb2.ReadRangeRequest(range=span), timeout=3000.0)
        assert read.record_batches
    assert len(clock.waits) == 1


async def test_a_publish_over_the_quota_waits(harness: Harness, clock: Clock) -> None:
    publish = produce_pb2.PublishRequest(topic="flights", records=records((b"key", "x" * 100)))
    await harness.produce.Publish(publish)
    clock.limit(PRODUCED, float(publish.ByteSize()) / 2)
    await harness.produce.Publish(publish)
    assert not clock.waits
    await harness.produce.Publish(publish)
    assert clock.waits == [pytest.approx(1.0)]
    assert values(harness, "client_throttle_seconds_total")[0] == pytest.approx(1.0)


async def test_a_produce_whose_deadline_is_earlier_is_refused(harness: Harness, clock: Clock) -> None:
    batch = produced(0, b"x" * 1000, name="flights")
    clock.limit(PRODUCED, 1.0)
    await harness.produce.Produce(batch)
    error = await refused(harness.produce.Produce(batch, timeout=10.0))
    assert error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert error.retry_after is not None
    assert error.retry_after > 900
    assert len(harness.leader.of(leader.ProduceRequest)) == 1


async def test_a_stream_of_batches_is_not_read_while_its_client_waits(harness: Harness, clock: Clock) -> None:
    clock.limit(PRODUCED, 1000.0)
    clock.gate.clear()
    call = harness.produce.ProduceStream()
    for number in range(2):
        data = produced(0, b"x" * 5000, name="flights")
        await call.write(produce_pb2.ProduceStreamRequest(id=number, produce=data))
    assert (await call.read()).id == 0
    await eventually(lambda: clock.waits)
    assert len(harness.leader.of(leader.ProduceRequest)) == 1
    clock.gate.set()
    assert (await call.read()).id == 1
    await call.done_writing()


async def test_a_quota_of_a_client_id_is_that_of_the_metadata(harness: Harness, clock: Clock) -> None:
    batch = produced(0, b"x" * 1000, name="flights")
    clock.limit(PRODUCED, 1.0, QuotaEntity(client_id="reports"))
    for _ in range(3):
        await harness.produce.Produce(batch, metadata=(("client-id", "other"),))
    await harness.produce.Produce(batch, metadata=(("client-id", "reports"),))
    named = harness.produce.Produce(batch, metadata=(("client-id", "reports"),), timeout=10.0)
    assert (await refused(named)).code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_records_are_acquired_when_the_earlier_ones_are_paid(harness: Harness, clock: Clock) -> None:
    harness.leader.answer = one_record
    clock.limit(CONSUMED, 1.0)
    await harness.share.Acquire(request())
    assert not clock.waits
    await harness.share.Acquire(request(), timeout=3000.0)
    assert len(clock.waits) == 1


async def test_records_are_fetched_when_the_earlier_ones_are_paid(harness: Harness, clock: Clock) -> None:
    harness.leader.answer = records_of(0)
    clock.limit(CONSUMED, 0.5)
    assert (await harness.share.ShareFetch(fetch(0, 0))).responses
    await harness.share.ShareFetch(fetch(1), timeout=3000.0)
    assert len(clock.waits) == 1


async def test_credit_is_withheld_until_the_records_are_paid(harness: Harness, clock: Clock) -> None:
    clock.limit(CONSUMED, 1.0)
    clock.gate.clear()
    async with consuming(harness, own_membership(0, credit=10)) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        await eventually(lambda: stream.credit == 10)
        stream.deliver(0, 0, 3)
        assert (await call.read()).deliveries
        await eventually(lambda: stream.credit == 4)
        await call.write(share_pb2.ConsumeRequest(credit=5))
        await eventually(lambda: clock.waits)
        clock.gate.set()
        await eventually(lambda: stream.credit == 15)


async def test_a_new_stream_of_a_client_in_debt_gets_no_credit(harness: Harness, clock: Clock) -> None:
    clock.limit(CONSUMED, 1.0)
    assert clock.quotas.active
    clock.quotas.charge(CONSUMED, QuotaClient("ANONYMOUS", ""), 100)
    clock.gate.clear()
    async with consuming(harness, own_membership(0, credit=10)) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        await eventually(lambda: clock.waits)
        assert stream.credit == 0
        clock.gate.set()
        await eventually(lambda: stream.credit == 10)
