"""Client connections: addresses, errors, and clients that were dropped without close."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import grpc
import pytest

import sharebroker
from sharebroker import ConsumerConfig, ErrorCode, KafkaError, ProducerConfig
from sharebroker.aio import Admin, Producer, ShareConsumer, connection
from sharebroker.aio.connection import WARN_AFTER, WARN_INTERVAL, ConnectWarnings, RunningStream
from sharebroker.client_errors import ConnectionLostError
from sharebroker_protocol.address import CONNECT_TIMEOUT, Address
from tests.testkit.proxy import FaultProxy
from tests.testkit.servers import free_port
from tests.testkit.waiting import eventually
from tests.unit.client.batches import batch
from tests.unit.client.fake_gateway import FakeGateway

NO_ADDRESS = [
    "",
    " ",
    "localhost",
    "localhost:",
    ":9090",
    "localhost:port",
    "host name:9090",
    "http://h:9090",
]


ADDRESS = ["localhost:9090", "127.0.0.1:0", "[::1]:9090", "dns:///broker.example:9090", "unix:/run/broker"]


MAKERS: list[Callable[[str], object]] = [
    sharebroker.Admin,
    sharebroker.Producer,
    lambda address: sharebroker.ShareConsumer(address, "group", ["flights"]),
]


AIO_MAKERS: list[Callable[[str], object]] = [
    Admin,
    Producer,
    lambda address: ShareConsumer(address, "group", ["flights"]),
]


@pytest.mark.parametrize("address", NO_ADDRESS)
@pytest.mark.parametrize("make", [*MAKERS, *AIO_MAKERS])
async def test_invalid_address_is_rejected(make: Callable[[str], object], address: str) -> None:
    with pytest.raises(KafkaError, match="must be HOST:PORT") as caught:
        make(address)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert [violation.field for violation in caught.value.violations] == ["address"]
    assert "sharebroker" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("address", ADDRESS)
async def test_channel_is_opened_to_the_address(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Address] = []
    connect = Address.open

    def record(self: Address, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        opened.append(self)
        return connect(self, options)

    monkeypatch.setattr(Address, "open", record)
    async with Admin(address):
        assert opened == [Address(address)]


async def test_retry_after_reaches_the_caller(gateway: FakeGateway) -> None:
    gateway.admin_error = KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "slowly", retry_after=2.5)
    async with Admin(gateway.address) as admin:
        with pytest.raises(KafkaError, match="slowly") as caught:
            await admin.list_topics()
        assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert caught.value.retry_after == 2.5


@pytest.fixture
def short_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits an attempt to connect to 0.2 s."""
    kept = [option for option in connection._OPTIONS if option != CONNECT_TIMEOUT]
    monkeypatch.setattr(connection, "_OPTIONS", (*kept, (CONNECT_TIMEOUT[0], 200)))


@pytest.mark.usefixtures("short_attempts")
async def test_admin_connects_again_to_a_server_that_is_frozen_at_first(gateway: FakeGateway) -> None:
    async with FaultProxy(int(gateway.address.rpartition(":")[2])) as proxy:
        proxy.swallow_replies = True
        async with Admin(f"127.0.0.1:{proxy.port}") as admin:
            listing = asyncio.create_task(admin.list_topics())
            await eventually(lambda: proxy.accepted >= 2)
            assert not listing.done()
            proxy.swallow_replies = False
            assert [topic.name for topic in await listing] == ["flights"]


@pytest.mark.usefixtures("short_attempts")
@pytest.mark.parametrize("request_timeout", [0.3, 0.5, 1.0])
async def test_server_that_stays_frozen_is_reported_as_unreachable(
    gateway: FakeGateway, request_timeout: float
) -> None:
    async with FaultProxy(int(gateway.address.rpartition(":")[2])) as proxy:
        proxy.swallow_replies = True
        async with Admin(f"127.0.0.1:{proxy.port}", request_timeout) as admin:
            with pytest.raises(KafkaError, match="cannot be reached") as caught:
                await admin.list_topics()
            assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_refused_connection_is_not_retried() -> None:
    async with Admin(f"127.0.0.1:{free_port()}", request_timeout=3600) as admin:
        with pytest.raises(KafkaError, match="cannot be reached"):
            await admin.list_topics()


async def test_every_call_has_the_client_id(gateway: FakeGateway) -> None:
    config = ProducerConfig(client_id="reports")
    async with Producer(gateway.address, config) as producer:
        await producer.publish("flights", b"v")
    assert gateway.client_ids == dict.fromkeys(("Metadata", "InitProducerId", "ProduceStream"), "reports")
    async with ShareConsumer(gateway.address, "g", ["flights"], ConsumerConfig(client_id="")):
        await eventually(lambda: {"Consume", "ShareGroupHeartbeat"} <= {*gateway.client_ids})
    assert (gateway.client_ids["Consume"], gateway.client_ids["ShareGroupHeartbeat"]) == ("", "")
    async with Admin(Address.parse(gateway.address)) as admin:
        await admin.list_topics()
    assert gateway.client_ids["Metadata"] == "sharebroker-python"


async def test_consumer_without_a_with_block_is_subscribed(gateway: FakeGateway) -> None:
    consumer = ShareConsumer(gateway.address, "group", (name for name in ["flights"]))
    assert consumer.subscription == {"flights"}
    await eventually(lambda: gateway.streams and gateway.stream.assignment)
    gateway.stream.deliver(batch(0, [b"v"]), 0, 0)
    (record,) = await consumer.poll(5)
    assert record.value == b"v"
    await consumer.close()


async def test_blocking_consumer_without_a_with_block_is_subscribed(gateway: FakeGateway) -> None:
    consumer = await asyncio.to_thread(sharebroker.ShareConsumer, gateway.address, "group", ["flights"])
    assert consumer.subscription == {"flights"}
    await eventually(lambda: gateway.streams and gateway.stream.assignment)
    gateway.stream.deliver(batch(0, [b"v"]), 0, 0)
    (record,) = await asyncio.to_thread(consumer.poll, 5)
    assert record.value == b"v"
    await asyncio.to_thread(consumer.close)


@pytest.mark.parametrize("make", [ShareConsumer, sharebroker.ShareConsumer])
async def test_invalid_topic_is_rejected_at_once(
    make: Callable[[str, str, list[str]], object], gateway: FakeGateway
) -> None:
    with pytest.raises(KafkaError) as caught:
        make(gateway.address, "group", ["flights", "no topic"])
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "sharebroker" not in [thread.name for thread in threading.enumerate()]


async def test_dropped_consumer_is_cleaned_up(gateway: FakeGateway) -> None:
    before = asyncio.all_tasks()
    consumers = [ShareConsumer(gateway.address, "group")]
    await consumers[0].subscribe(["flights"])
    await eventually(lambda: gateway.streams and gateway.stream.assignment)
    stream = gateway.stream
    with pytest.warns(ResourceWarning, match="A ShareConsumer was dropped without close"):
        consumers.clear()
    await eventually(lambda: stream.ended)
    mine = asyncio.current_task()
    await eventually(lambda: not _clients(asyncio.all_tasks() - before - {mine}))


async def test_dropped_producer_is_cleaned_up(gateway: FakeGateway) -> None:
    producers = [Producer(gateway.address)]
    await producers[0].publish("flights", b"v")
    assert _clients(asyncio.all_tasks())
    with pytest.warns(ResourceWarning, match="A Producer was dropped without close"):
        producers.clear()
    await eventually(lambda: not _clients(asyncio.all_tasks()))


def _clients(tasks: set[asyncio.Task[object]]) -> list[str]:
    """The clients' tasks, not the server's."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in tasks]
    return [name for name in names if name.startswith(("Consum", "Heartbeats", "Sender"))]


@pytest.mark.parametrize("kind", ["ShareConsumer", "Producer", "Admin"])
async def test_dropped_blocking_client_ends_its_thread(gateway: FakeGateway, kind: str) -> None:
    def drop() -> None:
        if kind == "ShareConsumer":
            consumer = sharebroker.ShareConsumer(gateway.address, "group")
            consumer.subscribe(["flights"])
        elif kind == "Producer":
            sharebroker.Producer(gateway.address).publish("flights", b"v")
        else:
            sharebroker.Admin(gateway.address).list_topics()
        gc.collect()

    if kind == "Admin":
        await asyncio.to_thread(drop)
    else:
        with pytest.warns(ResourceWarning, match=f"A {kind} was dropped without close"):
            await asyncio.to_thread(drop)
    await eventually(lambda: "sharebroker" not in [thread.name for thread in threading.enumerate()])


async def test_acknowledgement_after_close_has_an_outcome(gateway: FakeGateway) -> None:
    def consume() -> KafkaError | None:
        with sharebroker.ShareConsumer(gateway.address, "group", ["flights"]) as consumer:
            (record,) = consumer.poll(5)
        return record.accept().error

    consuming = asyncio.create_task(asyncio.to_thread(consume))
    await eventually(lambda: gateway.streams and gateway.streams[0].assignment)
    gateway.streams[0].deliver(batch(0, [b"v"]), 0, 0)
    error = await consuming
    assert error is not None
    assert error.code is ErrorCode.NETWORK_EXCEPTION


AWAY = KafkaError(ErrorCode.NETWORK_EXCEPTION, "connection refused")


def test_lasting_failure_is_logged_at_limited_rate(caplog: pytest.LogCaptureFixture) -> None:
    lasting = ConnectWarnings("consumer")
    for now in (
        0.0,
        1.0,
        WARN_AFTER,
        WARN_AFTER + 1,
        WARN_AFTER + WARN_INTERVAL - 1,
        WARN_AFTER + WARN_INTERVAL,
    ):
        lasting.failed(AWAY, now)
    assert [record.message.count("connection refused") for record in caplog.records] == [1, 1]


def test_short_failure_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    short = ConnectWarnings("consumer")
    for start in (0.0, 10.0, 20.0):
        short.failed(AWAY, start)
        short.failed(AWAY, start + WARN_AFTER - 1)
        short.succeeded()
    assert not caplog.records


async def test_consumer_logs_unreachable_server(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WARN_AFTER", 0.0)
    address = f"127.0.0.1:{free_port()}"
    async with ShareConsumer(address, "g", ["jobs"]):
        await eventually(lambda: f"The server at {address} cannot be reached" in caplog.text, 60)


async def test_producer_logs_unreachable_server(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WARN_AFTER", 0.0)
    address = f"127.0.0.1:{free_port()}"
    config = ProducerConfig(max_block_ms=60_000)
    async with Producer(address, config) as producer:
        sending = asyncio.create_task(producer.send("jobs", b"v"))
        await eventually(lambda: "producer cannot connect and retries" in caplog.text, 60)
        assert f"The server at {address} cannot be reached" in caplog.text
        sending.cancel()


class Call:
    """A call whose responses never arrive; it ends when it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()

    def cancel(self) -> bool:
        self.cancelled.set()
        return True

    async def __aiter__(self) -> AsyncIterator[object]:
        await self.cancelled.wait()
        raise asyncio.CancelledError
        yield  # an asynchronous generator without responses


async def fails() -> None:
    raise ValueError("cannot be written")


async def waits() -> None:
    await asyncio.Event().wait()


async def test_failing_writer_cancels_call_and_reports(caplog: pytest.LogCaptureFixture) -> None:
    call = Call()
    with pytest.raises(ConnectionLostError, match="failed to send"):
        await RunningStream(cast("Any", call), fails()).run(print)
    assert call.cancelled.is_set()
    assert "cannot be written" in caplog.text


async def test_reader_cancelled_from_outside_stays_cancelled() -> None:
    call = Call()
    running = asyncio.create_task(RunningStream(cast("Any", call), waits()).run(print))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert call.cancelled.is_set()


async def test_stop_ends_reader_and_writer() -> None:
    ended: list[str] = []

    async def write() -> None:
        try:
            await waits()
        finally:
            ended.append("writer")

    call = Call()
    running = asyncio.create_task(RunningStream(cast("Any", call), write()).run(print))
    for _ in range(2):
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended == ["writer"]


async def test_aborted_stream_raises_the_given_error(caplog: pytest.LogCaptureFixture) -> None:
    stream = RunningStream(cast("Any", Call()), waits())
    stream.abort(AWAY)
    with pytest.raises(KafkaError) as caught:
        await stream.run(print)
    assert caught.value is AWAY
    assert not caplog.text
