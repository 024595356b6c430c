"""A connection serves its requests in order for any client, and does not affect others."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace
from typing import Any

import pytest
import structlog
from structlog.typing import EventDict

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.kafka import buffers
from sharebroker_server.gateway.kafka.cluster_view import Brokers, ClusterView
from sharebroker_server.gateway.kafka.connection import MAX_COALESCED, REQUESTS_PER_TURN
from sharebroker_server.gateway.kafka.dispatch import LARGE_REQUEST
from sharebroker_server.kafka_wire.frames import codec_of, read_response
from tests.support.kafka_client import connected
from tests.testkit.waiting import eventually
from tests.unit.gateway.kafka.harness import (
    EXECUTE,
    JOIN,
    WAIT,
    Caller,
    Harness,
    calling,
    large_frame,
    order_frame,
)

STALL_TIMEOUT = 30.0


def having(**settings: int) -> pytest.MarkDecorator:
    """Runs the test on a listener with these properties, _ for dots."""
    return pytest.mark.parametrize("harness", [settings], indirect=True, ids=["".join(settings)])


def close_reasons(log: list[EventDict]) -> list[str]:
    """Returns the logged reasons for closed connections."""
    return [str(line["reason"]) for line in log if line["event"] == "kafka connection closed"]


async def test_responses_have_the_order_of_requests(harness: Harness) -> None:
    async with calling(harness) as caller:
        orders = [f"number {number}" for number in range(1000)]
        caller.send(*orders)
        assert [await caller.receive() for _ in orders] == orders


async def test_requests_may_arrive_in_any_pieces(harness: Harness) -> None:
    async with calling(harness) as caller:
        data = order_frame("first") + order_frame("second")
        for at in range(len(data)):
            await caller.raw.write(data[at : at + 1])
        assert [await caller.receive(), await caller.receive()] == ["first", "second"]


async def test_a_request_waits_for_the_one_before(harness: Harness) -> None:
    async with calling(harness) as caller, calling(harness) as other:
        caller.send("hold:it", "next")
        await eventually(lambda: harness.begun == ["hold:it"])
        assert await other.execute("mine") == "mine"
        assert harness.begun == ["hold:it", "mine"]
        harness.events["it"].set()
        assert [await caller.receive(), await caller.receive()] == ["hold:it", "next"]


async def test_a_busy_client_does_not_delay_others(harness: Harness) -> None:
    async with calling(harness) as caller, calling(harness) as other:
        caller.send(*["much"] * 4000)
        await eventually(lambda: harness.done)
        await other.execute("mine")
        assert harness.done.index("mine") < 4000 - REQUESTS_PER_TURN
        for _ in range(4000):
            await caller.receive()


async def test_neighbouring_requests_coalesce_and_keep_their_order(harness: Harness) -> None:
    async with calling(harness) as caller:
        orders = ["hold:join", "join 1", "join 2", "alone", "join 3", "join 4"]
        caller.coalesce(orders[0])
        await eventually(lambda: harness.begun)
        caller.coalesce(*orders[1:])
        caller.send("other")
        caller.coalesce("join 5")
        await eventually(lambda: len(next(iter(harness.server._connections))._requests._frames) == 7)
        harness.events["join"].set()
        assert [await caller.receive_coalesced() for _ in orders] == orders
        assert await caller.receive() == "other"
        assert await caller.receive_coalesced() == "join 5"
    assert harness.joined == [1, 2, 1, 2, 1]


async def test_large_requests_coalesce_and_keep_their_order(harness: Harness) -> None:
    large = [f"join {number} ".ljust(LARGE_REQUEST - 1, "x") for number in range(3)]
    async with calling(harness) as caller:
        caller.coalesce("hold:join")
        await eventually(lambda: harness.begun)
        caller.coalesce(*large)
        await eventually(lambda: len(next(iter(harness.server._connections))._requests._frames) == 3)
        harness.events["join"].set()
        assert [await caller.receive_coalesced() for _ in range(4)] == ["hold:join", *large]
    assert harness.joined == [1, 3]


async def test_a_large_invalid_request_closes_the_connection(harness: Harness) -> None:
    async with calling(harness) as caller:
        with structlog.testing.capture_logs() as log:
            head = struct.pack(">hhihi", JOIN, 1, 1, -1, 2)
            await caller.raw.write((LARGE_REQUEST + len(head)).to_bytes(4) + head + b"\x7f" * LARGE_REQUEST)
            assert await caller.raw.is_closed()
        assert close_reasons(log) == ["A length of 32639 with 125 bytes remaining."]


async def test_coalesced_requests_are_bounded(harness: Harness) -> None:
    async with calling(harness) as caller:
        caller.coalesce(*["join"] * (3 * MAX_COALESCED))
        assert {await caller.receive_coalesced() for _ in range(3 * MAX_COALESCED)} == {"join"}
    assert max(harness.joined) <= MAX_COALESCED


async def test_an_invalid_request_does_not_fail_its_neighbours(harness: Harness) -> None:
    async with calling(harness) as caller:
        caller.coalesce("hold:join")
        await eventually(lambda: harness.begun)
        caller.coalesce("join 1", "join 2")
        await caller.raw.write(struct.pack(">ihhih", 10, JOIN, 1, 1, -1))
        caller.coalesce("join never")
        await eventually(lambda: len(next(iter(harness.server._connections))._requests._frames) == 4)
        harness.events["join"].set()
        with structlog.testing.capture_logs() as log:
            assert [await caller.receive_coalesced() for _ in range(3)] == ["hold:join", "join 1", "join 2"]
            assert await caller.raw.is_closed()
        assert close_reasons(log) == ["The message ends too early."]


async def test_a_failure_fails_all_coalesced_requests(harness: Harness) -> None:
    async with calling(harness) as caller:
        caller.coalesce("hold:join")
        await eventually(lambda: harness.begun)
        caller.coalesce("join", "fail:join", "refuse:INVALID_REQUEST join")
        caller.coalesce("alone")
        await eventually(lambda: len(next(iter(harness.server._connections))._requests._frames) == 4)
        harness.events["join"].set()
        await caller.receive_coalesced()
        assert [await caller.receive_coalesced() for _ in range(4)] == [
            "UNKNOWN_SERVER_ERROR: join",
            "UNKNOWN_SERVER_ERROR: fail:join",
            "UNKNOWN_SERVER_ERROR: refuse:INVALID_REQUEST join",
            "alone",
        ]


async def test_a_request_without_a_response_sends_none(harness: Harness) -> None:
    async with calling(harness) as caller:
        caller.send("silent", "next")
        assert await caller.receive() == "next"
        assert harness.done == ["silent", "next"]


async def test_a_failed_handler_sends_an_error(harness: Harness) -> None:
    async with calling(harness) as caller:
        with structlog.testing.capture_logs() as log:
            assert (await caller.execute("fail")).startswith("UNKNOWN_SERVER_ERROR")
            assert (await caller.execute("nonsense")).startswith("UNKNOWN_SERVER_ERROR")
        assert [(line["log_level"], line["api"]) for line in log] == [("error", "Metadata")] * 2
        assert await caller.execute("refuse:INVALID_REQUEST") != "refuse:INVALID_REQUEST"
        assert await caller.execute("next") == "next"


async def test_a_failure_outside_handlers_closes_the_connection(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def view(self: Brokers) -> ClusterView:
        raise RuntimeError("on demand")

    async with calling(harness) as caller:
        await caller.execute("first")
        monkeypatch.setattr(Brokers, "view", view)
        with structlog.testing.capture_logs() as log:
            caller.send("second", "third")
            assert await caller.raw.is_closed()
        assert [line["event"] for line in log] == ["kafka connection failed"]
    await harness.open_count(0)


async def test_a_handler_may_close_the_connection(harness: Harness) -> None:
    async with calling(harness) as caller:
        with structlog.testing.capture_logs() as log:
            caller.send("first", "hang up", "next")
            assert await caller.receive() == "first"
            assert await caller.raw.is_closed()
        assert close_reasons(log) == ["on demand"]
    assert harness.begun == ["first", "hang up"]


async def test_a_disabled_api_is_rejected_and_not_listed(harness: Harness) -> None:
    harness.apis[EXECUTE] = replace(harness.apis[EXECUTE], feature="share.version")
    harness.gateway.catalog.features = {}
    async with calling(harness) as caller:
        versions: Any = await caller.raw.ask(18, 0)
        assert {key.api_key for key in versions.api_keys} == {JOIN, WAIT, 18}
        assert (await caller.execute("now")).startswith("UNSUPPORTED_VERSION")
    assert harness.begun == []


async def test_api_versions_of_an_unknown_version_returns_version_0(harness: Harness) -> None:
    async with connected(harness.address) as raw:
        await raw.write(struct.pack(">ihhih", 10, 18, 99, 7, -1))
        number, response = await raw.answer(18, 0)
        found: Any = response
        assert (number, found.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert {key.api_key for key in found.api_keys} == {EXECUTE, JOIN, WAIT, 18}


TLS = bytes.fromhex("16030100f8010000f40303")
LIES = {
    "garbage": (b"\xde\xad\xbe\xef" * 20, "A request of -559038737 bytes"),
    "HTTP": (b"GET / HTTP/1.1\r\n\r\n", "The client speaks HTTP"),
    "gRPC": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "The client speaks HTTP/2"),
    "TLS": (TLS, "The client speaks TLS"),
    "too large": (b"\x7f\xff\xff\xff", "A request of 2147483647 bytes"),
    "negative": (b"\xff\xff\xff\xff", "A request of -1 bytes"),
    "nothing": (b"\0\0\0\0", "A request of 0 bytes"),
    "no header": (b"\0\0\0\x03abc", "A request of 3 bytes"),
    "client id": (struct.pack(">ihhih", 10, EXECUTE, 1, 1, 99), "A client id of 99 bytes"),
    "unknown key": (struct.pack(">ihhih", 10, 9999, 0, 1, -1), "API key 9999 is not served"),
    "unknown version": (
        struct.pack(">ihhih", 10, EXECUTE, 99, 1, -1),
        "Metadata version 99 is not supported; 1 to 1 are",
    ),
    "unfinished message": (struct.pack(">ihhih", 10, EXECUTE, 1, 1, -1), "The message ends too early"),
    "array that lies": (struct.pack(">ihhihi", 14, EXECUTE, 1, 1, -1, 1 << 30), "A length of 1073741824"),
}


@pytest.mark.parametrize("kind", LIES)
async def test_invalid_bytes_close_the_connection(harness: Harness, kind: str) -> None:
    data, reason = LIES[kind]
    async with calling(harness) as caller, calling(harness) as other:
        with structlog.testing.capture_logs() as log:
            await caller.raw.write(order_frame("first") + data + order_frame("never"))
            assert await caller.receive() == "first"
            assert await caller.raw.is_closed()
        (reported,) = close_reasons(log)
        assert reported.startswith(reason)
        assert await other.execute("mine") == "mine"
    assert "never" not in harness.begun


async def test_responses_are_sent_after_the_clients_end_of_file(harness: Harness) -> None:
    reader, writer = await asyncio.open_connection(*harness.address.split(":"))
    writer.write(order_frame("first") + order_frame("hold:it") + order_frame("last"))
    writer.write_eof()
    await eventually(lambda: harness.begun == ["first", "hold:it"])
    harness.events["it"].set()
    responses = await reader.read()
    assert harness.done == ["first", "hold:it", "last"]
    assert len(responses) > 0
    size = int.from_bytes(responses[:4])
    first: Any
    _, first = read_response(responses[4 : 4 + size], codec_of(EXECUTE, 1))
    assert first.topics[0].name == "first"
    writer.close()
    await harness.open_count(0)


@pytest.mark.parametrize("how", ["closes", "crashes", "half-closes"])
async def test_a_wait_ends_when_its_client_disconnects(harness: Harness, how: str) -> None:
    async with calling(harness) as caller:
        await caller.execute("first")
        harness.gateway.sessions.open(SessionKey("group", "member"), "kafka-0", (), 0.0)
        connection = next(iter(harness.server._connections))
        harness.gateway.sessions.open(SessionKey("group", "mine"), connection._client.connection, (), 0.0)
        caller.wait_for("hold:ever")
        caller.send("after")
        caller.wait_for("again")
        await eventually(lambda: "hold:ever" in harness.begun)
        if how == "closes":
            await caller.raw.close()
        elif how == "crashes":
            caller.crash()
        else:
            caller.raw._writer.write_eof()
        await harness.open_count(0)
    assert "hold:ever" not in harness.done
    assert "again" not in harness.begun
    assert len(harness.gateway.sessions) == 1, "that of another connection"


@pytest.mark.parametrize(("crashes", "done"), [(False, ["hold:it", "next"]), (True, ["hold:it"])])
async def test_a_running_request_is_finished_after_a_disconnect(
    harness: Harness, crashes: bool, done: list[str]
) -> None:
    async with calling(harness) as caller:
        caller.send("hold:it", "next")
        await eventually(lambda: harness.begun)
        (connection,) = harness.server._connections
        if crashes:
            caller.crash()
        else:
            await caller.raw.close()
        await eventually(lambda: connection._closing)
        assert connection.task is not None
        harness.events["it"].set()
        await harness.open_count(0)
    assert harness.done == done


@having(connections_max_idle_ms=60_000)
async def test_an_idle_client_is_disconnected(harness: Harness) -> None:
    async with calling(harness) as idle, calling(harness) as busy:
        await idle.execute("first")
        busy.send("hold:it")
        await eventually(lambda: "hold:it" in harness.begun)
        await harness.past_checks(59)
        assert harness.connections == 2
        with structlog.testing.capture_logs() as log:
            await harness.past_checks(61)
            assert await idle.raw.is_closed()
        assert close_reasons(log) == ["idle longer than connections.max.idle.ms"]
        harness.events["it"].set()
        assert await busy.receive() == "hold:it"


@having(connections_max_idle_ms=-1)
async def test_idle_clients_stay_connected_without_a_limit(harness: Harness) -> None:
    async with calling(harness) as idle:
        await idle.execute("first")
        await harness.past_checks(1e9)
        assert await idle.execute("second") == "second"


async def test_an_incomplete_request_times_out(harness: Harness) -> None:
    async with calling(harness) as caller:
        frame = order_frame("whole")
        await caller.raw.write(frame + frame[:9])
        await caller.receive()
        await harness.past_checks(STALL_TIMEOUT - 1)
        assert harness.connections == 1
        with structlog.testing.capture_logs() as log:
            await harness.past_checks(STALL_TIMEOUT + 1)
            assert await caller.raw.is_closed()
        assert close_reasons(log) == [f"request incomplete for {STALL_TIMEOUT:g} s"]


async def test_an_incomplete_length_times_out(harness: Harness) -> None:
    async with calling(harness) as caller:
        await caller.raw.write(b"\0\0")
        await eventually(lambda: any(c._requests._splitter.begun for c in harness.server._connections))
        await harness.past_checks(STALL_TIMEOUT + 1)
        assert await caller.raw.is_closed()


class SlowReader:
    """A client with a small window that reads only on demand."""

    def __init__(self, harness: Harness) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = harness.address.split(":")
        self._socket.connect((host, int(port)))
        self._socket.setblocking(False)

    async def send(self, *orders: str) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, b"".join(map(order_frame, orders)))

    async def take(self, size: int) -> int:
        remaining = size
        while remaining and (
            data := await asyncio.get_running_loop().sock_recv(self._socket, min(remaining, 65536))
        ):
            remaining -= len(data)
        return size - remaining

    def close(self) -> None:
        self._socket.close()


BIG = 8_000_000
"""More than any socket holds."""


async def test_a_client_that_does_not_read_is_paused_then_disconnected(harness: Harness) -> None:
    slow = SlowReader(harness)
    await slow.send(f"big:{BIG}", "next")
    await eventually(lambda: harness.server._connections and harness.done)
    (connection,) = harness.server._connections
    await eventually(lambda: connection._responses.full)
    async with calling(harness) as other:
        assert await other.execute("mine") == "mine"
    assert harness.begun == [f"big:{BIG}", "mine"]
    await harness.past_checks(STALL_TIMEOUT - 1)
    await slow.take(BIG // 2)
    await harness.past_checks(STALL_TIMEOUT + 1)
    assert connection in harness.server._connections, "it does read, slowly"
    with structlog.testing.capture_logs() as log:
        await harness.past_checks(2 * STALL_TIMEOUT + 2)
        await harness.open_count(0)
    assert close_reasons(log) == ["client does not read responses"]
    assert "next" not in harness.begun
    slow.close()


async def test_a_client_that_reads_again_receives_the_rest(harness: Harness) -> None:
    slow = SlowReader(harness)
    await slow.send(f"big:{BIG}", "next")
    await eventually(lambda: any(c._responses.full for c in harness.server._connections))
    assert await slow.take(BIG) == BIG
    await slow.take(100)
    await eventually(lambda: harness.done[1:] == ["next"])
    assert harness.server._limits.responses.bytes == 0
    slow.close()


@having(queued_max_request_bytes=10_000_000)
async def test_unread_responses_are_bounded(harness: Harness) -> None:
    """Two of them exceed the limit: the oldest is disconnected."""
    readers = [SlowReader(harness) for _ in range(3)]
    with structlog.testing.capture_logs() as log:
        for number, slow in enumerate(readers):
            await slow.send(f"big:{BIG + number}")
            await harness.done_count(number + 1)
        await harness.open_count(1)
    assert len(set(close_reasons(log))) == 1
    assert len(close_reasons(log)) == 2
    assert harness.server._limits.responses.bytes < 10_000_000
    assert await readers[2].take(BIG) == BIG
    for slow in readers:
        slow.close()


LARGE = {"socket_request_max_bytes": 1_000_000, "queued_max_request_bytes": 1_000_000}


@having(**LARGE)
async def test_large_requests_share_a_budget_and_small_ones_do_not_wait(harness: Harness) -> None:
    budget = harness.server._limits.requests
    async with calling(harness) as first, calling(harness) as second, calling(harness) as third:
        await first.raw.write(large_frame("hold:it", 600_000))
        await eventually(lambda: harness.begun == ["hold:it"])
        second.raw._writer.write(large_frame("large", 700_000))
        await eventually(lambda: budget.waiting == 1)
        assert await third.execute("small") == "small"
        assert harness.begun == ["hold:it", "small"]
        harness.events["it"].set()
        assert (await second.receive()).startswith("large")
        await first.receive()
    assert budget.used == 0


@having(**LARGE)
async def test_a_stalled_large_request_releases_its_budget(harness: Harness) -> None:
    budget = harness.server._limits.requests
    async with calling(harness) as stalled, calling(harness) as waiting, calling(harness) as leaving:
        await stalled.raw.write(large_frame("never", 900_000)[:1000])
        await eventually(lambda: budget.used > 0)
        waiting.raw._writer.write(large_frame("large", 500_000))
        await eventually(lambda: budget.waiting == 1)
        leaving.raw._writer.write(large_frame("never", 500_000)[:-1])
        await eventually(lambda: budget.waiting == 2)
        await leaving.raw.close()
        await harness.past_checks(STALL_TIMEOUT + 1)
        assert await stalled.raw.is_closed()
        assert (await waiting.receive()).startswith("large")
    assert harness.begun == ["large"]
    await harness.open_count(0)
    assert budget.used == 0


@having(**LARGE)
async def test_an_incomplete_request_loses_its_memory_to_others(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "GRACE", 0.05)
    budget = harness.server._limits.requests
    with structlog.testing.capture_logs() as log:
        async with calling(harness) as stalled, calling(harness) as waiting:
            await stalled.raw.write(large_frame("never", 900_000)[:-1])
            await eventually(lambda: budget.used > 0)
            waiting.raw._writer.write(large_frame("large", 500_000))
            assert (await waiting.receive()).startswith("large")
            assert await stalled.raw.is_closed()
    assert close_reasons(log) == ["a large request is incomplete while others wait for its memory"]
    assert budget.used == 0


@having(**LARGE)
async def test_reading_pauses_while_many_requests_are_buffered(harness: Harness) -> None:
    """Pipelined requests stay in the socket: the process buffers a bounded part."""
    async with calling(harness) as caller:
        caller.send("hold:it")
        await eventually(lambda: harness.begun)
        (connection,) = harness.server._connections
        for _ in range(1000):
            caller.raw._writer.write(large_frame("again", 20_000))
        await eventually(lambda: connection._requests._paused)
        assert connection._requests._buffered < 1_000_000
        harness.events["it"].set()
        for _ in range(1001):
            await caller.receive()


@having(**LARGE)
async def test_stop_does_not_wait_for_the_memory_budget(harness: Harness) -> None:
    budget = harness.server._limits.requests
    async with calling(harness) as first, calling(harness) as second:
        await first.raw.write(large_frame("never", 600_000)[:-1])
        await eventually(lambda: budget.used > 0)
        second.raw._writer.write(large_frame("never", 700_000))
        await eventually(lambda: budget.waiting == 1)
        await harness.server.stop(10.0)
        harness.server.close()
        assert (budget.used, budget.waiting) == (0, 0)
        assert await first.raw.is_closed()
        assert await second.raw.is_closed()


@having(max_connections=2)
async def test_connections_are_bounded(harness: Harness) -> None:
    async with calling(harness) as first, calling(harness) as second:
        await first.execute("one")
        await second.execute("two")
        with structlog.testing.capture_logs() as log:
            async with calling(harness) as third:
                assert await third.raw.is_closed()
        assert [line["event"] for line in log] == ["kafka connection rejected"]
        assert await first.execute("more") == "more"
    await harness.open_count(0)
    async with calling(harness) as fourth:
        assert await fourth.execute("now") == "now"


async def test_stop_finishes_running_requests(harness: Harness) -> None:
    async with calling(harness) as idle, calling(harness) as waiting, calling(harness) as busy:
        await idle.execute("first")
        waiting.wait_for("hold:ever")
        busy.send("hold:it", "next")
        await eventually(lambda: {"hold:ever", "hold:it"} <= {*harness.begun})
        stopping = asyncio.create_task(harness.server.stop(10.0))
        await asyncio.sleep(0.01)
        assert not stopping.done()
        harness.events["it"].set()
        await stopping
        harness.server.close()
        assert await busy.receive() == "hold:it"
        for caller in (idle, waiting, busy):
            assert await caller.raw.is_closed()
    assert "next" not in harness.begun
    with pytest.raises(ConnectionRefusedError):
        await connected(harness.address).__aenter__()


class Line(asyncio.Transport):
    """The transport of a client that connected before the loop reported it."""

    closed = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("hang_up", [True, False])
async def test_a_client_that_connects_during_stop_is_disconnected(harness: Harness, hang_up: bool) -> None:
    assert harness.server._connect is not None
    connection, line = harness.server._connect(), Line()
    await harness.past_checks(1e9)
    await harness.server.stop(1.0, hang_up=hang_up)
    connection.connection_made(line)
    assert line.closed is hang_up
    harness.server.close()
    assert line.closed


async def test_a_client_that_connects_after_stop_is_disconnected(harness: Harness) -> None:
    assert harness.server._connect is not None
    connection, line = harness.server._connect(), Line()
    await harness.server.stop(1.0, hang_up=False)
    harness.server.close()
    connection.connection_made(line)
    assert line.closed


async def test_stop_respects_its_grace_time(harness: Harness) -> None:
    async with calling(harness) as busy:
        busy.send("hold:ever")
        await eventually(lambda: harness.begun)
        await harness.server.stop(0.01)
        harness.server.close()
        assert await busy.raw.is_closed()
    await harness.open_count(0)


async def test_many_invalid_requests_log_few_lines(harness: Harness) -> None:
    with structlog.testing.capture_logs() as log:
        for _ in range(200):
            async with connected(harness.address) as raw:
                await raw.write(b"\xff\xff\xff\xff")
                assert await raw.is_closed()
    assert 20 <= len(close_reasons(log)) < 100


async def test_each_connection_has_its_own_name(harness: Harness) -> None:
    """The name of a connection is what share sessions belong to."""
    async with calling(harness) as one, calling(harness) as other:
        await one.execute("x")
        await other.execute("y")
        names = {connection._client.connection for connection in harness.server._connections}
    assert len(names) == 2
    assert isinstance(one, Caller)
