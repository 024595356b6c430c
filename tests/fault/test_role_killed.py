"""One of four processes is killed: the others respond in time, and everything recovers after its restart."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator

import grpc
import pytest
import redis

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster_pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin_pb
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as letters_pb
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce_pb
from sharebroker_protocol.gateway.v1 import share_pb2 as share_pb
from tests.fault.probes import Probes
from tests.support.client import REJECT, TIMEOUT, Client, connected, rejection_of
from tests.support.traffic import Traffic
from tests.testkit.brokers import Cluster, Serve, four_processes
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.xdist_group("fault-roles")  # one cluster for all tests


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with four_processes("--set", "log.retention.check.interval.ms=1000") as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("role", "unharmed"),
    [
        (
            "share-coordinator",
            {"publish", "acquire", "heartbeat", "create", "list groups", "list offsets"},
        ),
        ("group-coordinator", {"publish", "acquire", "acknowledge", "list offsets", "inspect"}),
        ("share-partition-leader", {"heartbeat", "create", "list groups", "inspect"}),
    ],
)
async def test_calls_recover_after_a_role_is_killed_and_restarted(
    cluster: Cluster, role: str, unharmed: set[str]
) -> None:
    process = cluster.process(role)
    async with connected(cluster.address) as client:
        probes = Probes(client)
        await probes.prepare()
        topic, topic_id = await client.create(4)
        traffic = Traffic(cluster.address, topic, await client.group())
        async with traffic.flowing() as books:
            await asyncio.to_thread(process.kill)
            outcomes = await probes.all()
            assert all(outcome.is_success_or_retriable for outcome in outcomes.values()), outcomes
            assert {name for name, outcome in outcomes.items() if outcome.code is ErrorCode.NONE} >= unharmed
            await asyncio.to_thread(process.start)
            await traffic.moves()

            async def all_is_well() -> bool:
                await probes.hold()
                outcomes = await probes.all(timeout=10.0)
                assert all(outcome.is_success_or_retriable for outcome in outcomes.values()), outcomes
                return {outcome.code for outcome in outcomes.values()} == {ErrorCode.NONE}

            await eventually(all_is_well, 30.0)
            await traffic.drain(client, topic_id)
        assert not books.broken


async def test_failed_records_are_listed_once_after_kills(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create()
        group_id = await client.group()
        await client.publish(topic, [f"record {number}" for number in range(12)])
        rejected = list[int]()
        for role in ("share-partition-leader", "share-coordinator", "share-partition-leader"):

            async def reject_two() -> bool:
                records = (await client.acquire(group_id, topic, 2, member="m", wait=1.0)).records[:2]
                codes = await client.acknowledge(group_id, "m", records, REJECT)
                rejected.extend(
                    record.offset
                    for record, code in zip(records, codes, strict=True)
                    if code is ErrorCode.NONE
                )
                return len(records) == 2

            await eventually(lambda: _succeeds(reject_two), 60.0)
            await asyncio.to_thread(cluster.process(role).kill)
            await asyncio.to_thread(cluster.process(role).start)
        request = admin_pb.ListFailedRecordsRequest(group_id=group_id, topic=topic)

        async def listed() -> list[int]:
            response = await client.admin.ListFailedRecords(request, timeout=TIMEOUT)
            assert {entry.disposition for entry in response.entries} == {admin_pb.DISPOSITION_REJECTED}
            return [
                offset
                for entry in response.entries
                for offset in range(entry.first_offset, entry.last_offset + 1)
            ]

        async def are_listed() -> bool:
            return set(await listed()) >= set(rejected)

        await eventually(lambda: _succeeds(are_listed), 30.0)
        assert len(rejected) >= 6
        # A rejection without a response may be listed, too.
        assert len(await listed()) == len(set(await listed()))


async def test_a_retried_record_is_copied_once_after_kills(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create()
        group_id, other = await client.group(), await client.group()
        await client.publish(topic, [f"record {number}" for number in range(3)], partition=0)
        records = await client.acquire_all(group_id, topic, 3, "m")
        assert not any(await client.acknowledge(group_id, "m", records, REJECT))
        leader = cluster.process("share-partition-leader")
        for offset in range(3):
            request = admin_pb.RetryFailedRecordsRequest(
                group_id=group_id, topic=topic, request_id=f"retry-{offset}"
            )
            request.partitions.add(partition=0, offsets=[offset])

            async def is_copied(
                request: admin_pb.RetryFailedRecordsRequest = request, copy: int = 3 + offset
            ) -> bool:
                response = await client.admin.RetryFailedRecords(request, timeout=5.0)
                (result,) = response.results
                assert result.error_code or result.copy_offset == copy
                return not result.error_code

            first = asyncio.create_task(_succeeds(is_copied))
            await asyncio.sleep(0.002 * offset)  # before, in and after the append
            await asyncio.to_thread(leader.kill)
            await asyncio.wait([first])
            await asyncio.to_thread(leader.start)
            await eventually(lambda call=is_copied: _succeeds(call), 60.0)  # type: ignore[misc]
        await eventually(lambda: _succeeds(lambda: _receives(client, group_id, topic, {3, 4, 5})), 60.0)
        await client.publish(topic, ["last"], partition=0)
        await eventually(lambda: _succeeds(lambda: _receives(client, other, topic, {0, 1, 2, 6})), 60.0)


@pytest.mark.parametrize("role", ["share-partition-leader", "gateway"])
async def test_a_letter_is_redriven_once_after_kills(cluster: Cluster, role: str) -> None:
    async with connected(cluster.address) as client:
        (topic, _), (letters, _) = await client.create(), await client.create()
        group_id, other = await client.group(), await client.group()
        await client.publish(topic, ["record"], partition=0)
        for name in (group_id, other):
            await eventually(lambda name=name: _receives(client, name, topic, {0}), 60.0)  # type: ignore[misc]
        sent = [_letter(topic, group_id, number) for number in range(12)]
        await client.produce.Publish(produce_pb.PublishRequest(topic=letters, records=sent), timeout=TIMEOUT)
        process = cluster.process(role)
        request = letters_pb.RedriveDeadLettersRequest(topic=letters, max_letters=4)
        for attempt in range(3):

            async def is_redriven(first: int = 4 * attempt) -> bool:
                response = await client.dead_letters.RedriveDeadLetters(request, timeout=5.0)
                done = {
                    each.letter.offset: each.copy_offset for each in response.results if not each.error_code
                }
                assert done.items() <= {number: number + 1 for number in range(first, first + 4)}.items()
                request.page_token = response.next_page_token if len(done) == 4 else request.page_token
                return len(done) == 4

            first = asyncio.create_task(_succeeds(is_redriven))
            await asyncio.sleep(0.003 * attempt)  # before, in and after the append
            await asyncio.to_thread(process.kill)
            ended = (await first) is True
            await asyncio.to_thread(process.start)
            if not ended:
                await eventually(lambda call=is_redriven: _succeeds(call), 60.0)  # type: ignore[misc]
        await eventually(lambda: _succeeds(lambda: _receives(client, group_id, topic, {*range(1, 13)})), 60.0)
        await client.publish(topic, ["last"], partition=0)
        await eventually(lambda: _succeeds(lambda: _receives(client, other, topic, {13})), 60.0)


def _letter(topic: str, group_id: str, number: int) -> produce_pb.PublishRecord:
    facts = {"topic": topic, "partition": "0", "offset": str(number), "group": group_id, "copy": "full"}
    headers = [
        share_pb.RecordHeader(key=f"__dlq.errors.{name}", value=value.encode())
        for name, value in facts.items()
    ]
    return produce_pb.PublishRecord(text=f"letter {number}", headers=headers, partition=0)


async def _receives(client: Client, group_id: str, topic: str, expected: set[int]) -> bool:
    """Whether a group receives these records and no others; accepts them."""
    records = await client.acquire_all(group_id, topic, len(expected), "n")
    assert {record.offset for record in records} == expected
    codes = await client.acknowledge(group_id, "n", records)
    return not any(codes)


async def _succeeds(call: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await call()
    except grpc.aio.AioRpcError:
        return False


async def test_clients_recover_after_the_gateway_is_killed(cluster: Cluster) -> None:
    process = cluster.process("gateway")
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(4)
        traffic = Traffic(cluster.address, topic, await client.group())
        async with traffic.flowing() as books:
            await asyncio.to_thread(process.kill)
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await client.publish(topic, ["undelivered"], timeout=2.0)
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
            await asyncio.to_thread(process.start)
            await traffic.moves()
            await traffic.drain(client, topic_id)
        assert not books.broken


async def test_records_of_a_dead_gateways_member_are_redelivered(cluster: Cluster) -> None:
    """The leader detects the broken stream, whichever process was at its other end."""
    async with connected(cluster.address) as client:
        topic, _ = await client.create()
        group_id = await client.group()
        traffic = Traffic(cluster.address, topic, group_id)
        await client.publish(topic, ["held"])
        traffic.publishing = traffic.acknowledging = False
        async with traffic.flowing(consumers=1, at_first=0) as books:
            await eventually(lambda: books.deliveries[0, 0] == 1)
            await asyncio.to_thread(cluster.process("gateway").kill)
            await asyncio.to_thread(cluster.process("gateway").start)
            await eventually(lambda: books.deliveries[0, 0] == 2)


async def test_frozen_leader_is_replaced_and_fenced_when_it_resumes(cluster: Cluster) -> None:
    """A second leader joins and receives its share; then the first one freezes for the duration of a
    lease.
    """
    first = cluster.process("share-partition-leader")
    second = Serve(first.folder, first.options, "second-leader")
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(8)
        traffic = Traffic(cluster.address, topic, await client.group())
        async with traffic.flowing() as books:
            await asyncio.to_thread(second.start)
            try:
                await traffic.moves()
                _signal(first, signal.SIGSTOP)
                for partition in range(8):
                    await _published(client, topic, partition)
                await traffic.moves()
                _signal(first, signal.SIGCONT)
                await traffic.moves()
                await traffic.drain(client, topic_id)
            finally:
                _signal(first, signal.SIGCONT)
                await asyncio.to_thread(second.stop)
        assert not books.broken


def _signal(serve: Serve, number: signal.Signals) -> None:
    assert serve.process is not None
    serve.process.send_signal(number)


async def _published(client: Client, topic: str, partition: int) -> None:
    async def done() -> bool:
        try:
            await client.publish(topic, ["to each"], partition=partition, timeout=2.0)
        except grpc.aio.AioRpcError as failure:
            if rejection_of(failure).retriable:
                return False
            raise
        return True

    await eventually(done, 30.0)


async def test_topic_deleted_while_its_leader_is_down_leaves_no_keys(cluster: Cluster) -> None:
    process = cluster.process("share-partition-leader")
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(2)
        group_id = await client.group()
        await client.publish(topic, ["record"])
        await client.acquire_all(group_id, topic, 1, "member")
        await asyncio.to_thread(process.kill)
        request = cluster_pb.DeleteTopicsRequest()
        request.topics.add(name=topic)
        assert not (await client.admin.DeleteTopics(request, timeout=TIMEOUT)).topics[0].error_code
        assert _keys(cluster, topic_id)
        await asyncio.to_thread(process.start)
        await eventually(lambda: not _keys(cluster, topic_id), 30.0)


def _keys(cluster: Cluster, topic_id: str) -> list[bytes]:
    with redis.Redis.from_url(cluster.redis_url) as connection:
        return [key for key in connection.scan_iter(count=10_000) if topic_id.encode() in key]
