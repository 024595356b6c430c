"""A connection serves its requests in order, whatever its client does, and others go on."""

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
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.kafka.cluster_view.brokers import Brokers, View
from sharebroker_server.gateway.kafka.connection.connection import AT_A_TIME, JOINED
from sharebroker_server.kafka_wire.frames import codec, read_response
from sharebroker_server.testkit.waiting import eventually
from tests.support.kafka_client import connected
from tests.unit.gateway.kafka.bench import DO, JOIN, WAIT, Bench, Caller, calling, large_frame, order_frame

PATIENCE = 30.0


def having(**settings: int) -> pytest.MarkDecorator:
    """Runs the test on a door with these properties, _ for dots."""
    return pytest.mark.parametrize("bench", [settings], indirect=True, ids=["".join(settings)])


def complaints(log: list[EventDict]) -> list[str]:
    """Why connections were closed."""
    return [str(line["reason"]) for line in log if line["event"] == "closed a connection"]


async def test_answers_come_in_the_order_of_requests(bench: Bench) -> None:
    async with calling(bench) as caller:
        orders = [f"number {number}" for number in range(1000)]
        caller.say(*orders)
        assert [await caller.hear() for _ in orders] == orders


async def test_requests_come_in_whatever_pieces(bench: Bench) -> None:
    async with calling(bench) as caller:
        data = order_frame("first") + order_frame("second")
        for at in range(len(data)):
            await caller.raw.write(data[at : at + 1])
        assert [await caller.hear(), await caller.hear()] == ["first", "second"]


async def test_a_request_waits_for_the_one_before(bench: Bench) -> None:
    async with calling(bench) as caller, calling(bench) as other:
        caller.say("hold:it", "next")
        await eventually(lambda: bench.begun == ["hold:it"])
        assert await other.ask("mine") == "mine"
        assert bench.begun == ["hold:it", "mine"]
        bench.events["it"].set()
        assert [await caller.hear(), await caller.hear()] == ["hold:it", "next"]


async def test_a_client_that_asks_much_does_not_keep_others_waiting(bench: Bench) -> None:
    async with calling(bench) as caller, calling(bench) as other:
        caller.say(*["much"] * 4000)
        await eventually(lambda: bench.done)
        await other.ask("mine")
        assert bench.done.index("mine") < 4000 - AT_A_TIME
        for _ in range(4000):
            await caller.hear()


async def test_neighbours_are_joined_and_answered_in_order(bench: Bench) -> None:
    async with calling(bench) as caller:
        orders = ["hold:join", "join 1", "join 2", "alone", "join 3", "join 4"]
        caller.join(orders[0])
        await eventually(lambda: bench.begun)
        caller.join(*orders[1:])
        caller.say("other")
        caller.join("join 5")
        await eventually(lambda: len(next(iter(bench.server._connections))._incoming._frames) == 7)
        bench.events["join"].set()
        assert [await caller.hear_joined() for _ in orders] == orders
        assert await caller.hear() == "other"
        assert await caller.hear_joined() == "join 5"
    assert bench.joined == [1, 2, 1, 2, 1]


async def test_joined_requests_have_a_bound(bench: Bench) -> None:
    async with calling(bench) as caller:
        caller.join(*["join"] * (3 * JOINED))
        assert {await caller.hear_joined() for _ in range(3 * JOINED)} == {"join"}
    assert max(bench.joined) <= JOINED


async def test_a_bad_request_does_not_harm_those_it_would_be_joined_with(bench: Bench) -> None:
    async with calling(bench) as caller:
        caller.join("hold:join")
        await eventually(lambda: bench.begun)
        caller.join("join 1", "join 2")
        await caller.raw.write(struct.pack(">ihhih", 10, JOIN, 1, 1, -1))
        caller.join("join never")
        await eventually(lambda: len(next(iter(bench.server._connections))._incoming._frames) == 4)
        bench.events["join"].set()
        with structlog.testing.capture_logs() as log:
            assert [await caller.hear_joined() for _ in range(3)] == ["hold:join", "join 1", "join 2"]
            assert await caller.raw.is_closed()
        assert complaints(log) == ["The message ends too early."]


async def test_what_fails_for_joined_requests_fails_for_each(bench: Bench) -> None:
    async with calling(bench) as caller:
        caller.join("hold:join")
        await eventually(lambda: bench.begun)
        caller.join("join", "fail:join", "refuse:INVALID_REQUEST join")
        caller.join("alone")
        await eventually(lambda: len(next(iter(bench.server._connections))._incoming._frames) == 4)
        bench.events["join"].set()
        await caller.hear_joined()
        assert [await caller.hear_joined() for _ in range(4)] == [
            "UNKNOWN_SERVER_ERROR: join",
            "UNKNOWN_SERVER_ERROR: fail:join",
            "UNKNOWN_SERVER_ERROR: refuse:INVALID_REQUEST join",
            "alone",
        ]


async def test_what_needs_no_answer_gets_none(bench: Bench) -> None:
    async with calling(bench) as caller:
        caller.say("silent", "next")
        assert await caller.hear() == "next"
        assert bench.done == ["silent", "next"]


async def test_a_handler_that_fails_answers_with_an_error(bench: Bench) -> None:
    async with calling(bench) as caller:
        with structlog.testing.capture_logs() as log:
            assert (await caller.ask("fail")).startswith("UNKNOWN_SERVER_ERROR")
            assert (await caller.ask("nonsense")).startswith("UNKNOWN_SERVER_ERROR")
        assert [(line["log_level"], line["api"]) for line in log] == [("error", "Metadata")] * 2
        assert await caller.ask("refuse:INVALID_REQUEST") != "refuse:INVALID_REQUEST"
        assert await caller.ask("next") == "next"


async def test_what_fails_outside_of_handlers_ends_the_connection(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def view(self: Brokers) -> View:
        raise RuntimeError("on demand")

    async with calling(bench) as caller:
        await caller.ask("first")
        monkeypatch.setattr(Brokers, "view", view)
        with structlog.testing.capture_logs() as log:
            caller.say("second", "third")
            assert await caller.raw.is_closed()
        assert [line["event"] for line in log] == ["a connection failed"]
    await bench.open_count(0)


async def test_a_handler_may_hang_up(bench: Bench) -> None:
    async with calling(bench) as caller:
        with structlog.testing.capture_logs() as log:
            caller.say("first", "hang up", "next")
            assert await caller.hear() == "first"
            assert await caller.raw.is_closed()
        assert complaints(log) == ["on demand"]
    assert bench.begun == ["first", "hang up"]


async def test_an_api_that_is_switched_off_is_refused_and_not_told_of(bench: Bench) -> None:
    bench.apis[DO] = replace(bench.apis[DO], feature="share.version")
    async with calling(bench) as caller:
        told: Any = await caller.raw.ask(18, 0)
        assert {key.api_key for key in told.api_keys} == {JOIN, WAIT, 18}
        assert (await caller.ask("now")).startswith("UNSUPPORTED_VERSION")
    assert bench.begun == []


async def test_api_versions_of_an_unknown_version_is_answered_in_version_0(bench: Bench) -> None:
    async with connected(bench.address) as raw:
        await raw.write(struct.pack(">ihhih", 10, 18, 99, 7, -1))
        number, answer = await raw.answer(18, 0)
        found: Any = answer
        assert (number, found.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert {key.api_key for key in found.api_keys} == {DO, JOIN, WAIT, 18}


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
    "client id": (struct.pack(">ihhih", 10, DO, 1, 1, 99), "A client id of 99 bytes"),
    "unknown key": (struct.pack(">ihhih", 10, 9999, 0, 1, -1), "API key 9999 is not served"),
    "unknown version": (struct.pack(">ihhih", 10, DO, 99, 1, -1), "Metadata has no version 99 here"),
    "unfinished message": (struct.pack(">ihhih", 10, DO, 1, 1, -1), "The message ends too early"),
    "array that lies": (struct.pack(">ihhihi", 14, DO, 1, 1, -1, 1 << 30), "A length of 1073741824"),
}


@pytest.mark.parametrize("kind", LIES)
async def test_bytes_that_are_no_request_end_the_connection(bench: Bench, kind: str) -> None:
    data, reason = LIES[kind]
    async with calling(bench) as caller, calling(bench) as other:
        with structlog.testing.capture_logs() as log:
            await caller.raw.write(order_frame("first") + data + order_frame("never"))
            assert await caller.hear() == "first"
            assert await caller.raw.is_closed()
        (told,) = complaints(log)
        assert told.startswith(reason)
        assert await other.ask("mine") == "mine"
    assert "never" not in bench.begun


async def test_who_says_no_more_still_gets_the_answers(bench: Bench) -> None:
    reader, writer = await asyncio.open_connection(*bench.address.split(":"))
    writer.write(order_frame("first") + order_frame("hold:it") + order_frame("last"))
    writer.write_eof()
    await eventually(lambda: bench.begun == ["first", "hold:it"])
    bench.events["it"].set()
    answers = await reader.read()
    assert bench.done == ["first", "hold:it", "last"]
    assert len(answers) > 0
    size = int.from_bytes(answers[:4])
    _, first = read_response(answers[4 : 4 + size], codec(DO, 1))
    assert first.topics[0].name == "first"
    writer.close()
    await bench.open_count(0)


@pytest.mark.parametrize("how", ["closes", "crashes", "says no more"])
async def test_a_wait_ends_with_its_client(bench: Bench, how: str) -> None:
    async with calling(bench) as caller:
        await caller.ask("first")
        bench.gateway.sessions.open(SessionKey("group", "member"), "kafka-0", (), 0.0)
        connection = next(iter(bench.server._connections))
        bench.gateway.sessions.open(SessionKey("group", "mine"), connection._client.connection, (), 0.0)
        caller.wait_for("hold:ever")
        caller.say("after")
        caller.wait_for("again")
        await eventually(lambda: "hold:ever" in bench.begun)
        if how == "closes":
            await caller.raw.close()
        elif how == "crashes":
            caller.crash()
        else:
            caller.raw._writer.write_eof()
        await bench.open_count(0)
    assert "hold:ever" not in bench.done
    assert "again" not in bench.begun
    assert len(bench.gateway.sessions) == 1, "that of another connection"


@pytest.mark.parametrize(("crashes", "done"), [(False, ["hold:it", "next"]), (True, ["hold:it"])])
async def test_what_runs_is_finished_although_its_client_is_gone(
    bench: Bench, crashes: bool, done: list[str]
) -> None:
    async with calling(bench) as caller:
        caller.say("hold:it", "next")
        await eventually(lambda: bench.begun)
        (connection,) = bench.server._connections
        if crashes:
            caller.crash()
        else:
            await caller.raw.close()
        await eventually(lambda: connection._closing)
        assert connection.task is not None
        bench.events["it"].set()
        await bench.open_count(0)
    assert bench.done == done


@having(connections_max_idle_ms=60_000)
async def test_who_wants_nothing_for_long_is_closed(bench: Bench) -> None:
    async with calling(bench) as idle, calling(bench) as busy:
        await idle.ask("first")
        busy.say("hold:it")
        await eventually(lambda: "hold:it" in bench.begun)
        await bench.past_checks(59)
        assert bench.connections == 2
        with structlog.testing.capture_logs() as log:
            await bench.past_checks(61)
            assert await idle.raw.is_closed()
        assert complaints(log) == ["it was idle for too long"]
        bench.events["it"].set()
        assert await busy.hear() == "hold:it"


@having(connections_max_idle_ms=-1)
async def test_clients_may_be_idle_for_ever(bench: Bench) -> None:
    async with calling(bench) as idle:
        await idle.ask("first")
        await bench.past_checks(1e9)
        assert await idle.ask("second") == "second"


async def test_a_request_half_sent_is_not_waited_for_for_ever(bench: Bench) -> None:
    async with calling(bench) as caller:
        frame = order_frame("whole")
        await caller.raw.write(frame + frame[:9])
        await caller.hear()
        await bench.past_checks(PATIENCE - 1)
        assert bench.connections == 1
        with structlog.testing.capture_logs() as log:
            await bench.past_checks(PATIENCE + 1)
            assert await caller.raw.is_closed()
        assert complaints(log) == ["the rest of a request did not come"]


async def test_a_length_half_sent_neither(bench: Bench) -> None:
    async with calling(bench) as caller:
        await caller.raw.write(b"\0\0")
        await eventually(lambda: any(c._incoming._cutter.begun for c in bench.server._connections))
        await bench.past_checks(PATIENCE + 1)
        assert await caller.raw.is_closed()


class SlowReader:
    """A client with a small window that reads when it is told to."""

    def __init__(self, bench: Bench) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = bench.address.split(":")
        self._socket.connect((host, int(port)))
        self._socket.setblocking(False)

    async def say(self, *orders: str) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, b"".join(map(order_frame, orders)))

    async def take(self, size: int) -> int:
        left = size
        while left and (data := await asyncio.get_running_loop().sock_recv(self._socket, min(left, 65536))):
            left -= len(data)
        return size - left

    def close(self) -> None:
        self._socket.close()


BIG = 8_000_000
"""More than any socket holds."""


async def test_who_does_not_read_is_served_no_more_and_closed_in_the_end(bench: Bench) -> None:
    slow = SlowReader(bench)
    await slow.say(f"big:{BIG}", "next")
    await eventually(lambda: bench.server._connections and bench.done)
    (connection,) = bench.server._connections
    await eventually(lambda: connection._outgoing.full)
    async with calling(bench) as other:
        assert await other.ask("mine") == "mine"
    assert bench.begun == [f"big:{BIG}", "mine"]
    await bench.past_checks(PATIENCE - 1)
    await slow.take(BIG // 2)
    await bench.past_checks(PATIENCE + 1)
    assert connection in bench.server._connections, "it does read, slowly"
    with structlog.testing.capture_logs() as log:
        await bench.past_checks(2 * PATIENCE + 2)
        await bench.open_count(0)
    assert complaints(log) == ["its client does not read answers"]
    assert "next" not in bench.begun
    slow.close()


async def test_who_reads_again_gets_the_rest(bench: Bench) -> None:
    slow = SlowReader(bench)
    await slow.say(f"big:{BIG}", "next")
    await eventually(lambda: any(c._outgoing.full for c in bench.server._connections))
    assert await slow.take(BIG) == BIG
    await slow.take(100)
    await eventually(lambda: bench.done[1:] == ["next"])
    assert bench.server._limits.answers.bytes == 0
    slow.close()


@having(queued_max_request_bytes=10_000_000)
async def test_answers_that_nobody_takes_have_a_bound(bench: Bench) -> None:
    """Two of them are more than there may be: the one that was there first goes."""
    readers = [SlowReader(bench) for _ in range(3)]
    with structlog.testing.capture_logs() as log:
        for number, slow in enumerate(readers):
            await slow.say(f"big:{BIG + number}")
            await bench.done_count(number + 1)
        await bench.open_count(1)
    assert len(set(complaints(log))) == 1
    assert len(complaints(log)) == 2
    assert bench.server._limits.answers.bytes < 10_000_000
    assert await readers[2].take(BIG) == BIG
    for slow in readers:
        slow.close()


LARGE = {"socket_request_max_bytes": 1_000_000, "queued_max_request_bytes": 1_000_000}


@having(**LARGE)
async def test_large_requests_share_a_budget_and_small_ones_do_not_wait(bench: Bench) -> None:
    budget = bench.server._limits.requests
    async with calling(bench) as first, calling(bench) as second, calling(bench) as third:
        await first.raw.write(large_frame("hold:it", 600_000))
        await eventually(lambda: bench.begun == ["hold:it"])
        second.raw._writer.write(large_frame("large", 700_000))
        await eventually(lambda: budget.waiting == 1)
        assert await third.ask("small") == "small"
        assert bench.begun == ["hold:it", "small"]
        bench.events["it"].set()
        assert (await second.hear()).startswith("large")
        await first.hear()
    assert budget.used == 0


@having(**LARGE)
async def test_a_large_request_that_stalls_gives_its_share_back(bench: Bench) -> None:
    budget = bench.server._limits.requests
    async with calling(bench) as stalled, calling(bench) as waiting, calling(bench) as leaving:
        await stalled.raw.write(large_frame("never", 900_000)[:1000])
        await eventually(lambda: budget.used > 0)
        waiting.raw._writer.write(large_frame("large", 500_000))
        await eventually(lambda: budget.waiting == 1)
        leaving.raw._writer.write(large_frame("never", 500_000)[:-1])
        await eventually(lambda: budget.waiting == 2)
        await leaving.raw.close()
        await bench.past_checks(PATIENCE + 1)
        assert await stalled.raw.is_closed()
        assert (await waiting.hear()).startswith("large")
    assert bench.begun == ["large"]
    await bench.open_count(0)
    assert budget.used == 0


@having(**LARGE)
async def test_many_small_requests_are_not_read_all_at_once(bench: Bench) -> None:
    """What a client sends ahead stays in its socket: the process holds a bounded part of it."""
    async with calling(bench) as caller:
        caller.say("hold:it")
        await eventually(lambda: bench.begun)
        (connection,) = bench.server._connections
        for _ in range(1000):
            caller.raw._writer.write(large_frame("again", 20_000))
        await eventually(lambda: connection._incoming._paused)
        assert connection._incoming._here < 1_000_000
        bench.events["it"].set()
        for _ in range(1001):
            await caller.hear()


@having(**LARGE)
async def test_stopping_does_not_wait_for_room(bench: Bench) -> None:
    budget = bench.server._limits.requests
    async with calling(bench) as first, calling(bench) as second:
        await first.raw.write(large_frame("never", 600_000)[:-1])
        await eventually(lambda: budget.used > 0)
        second.raw._writer.write(large_frame("never", 700_000))
        await eventually(lambda: budget.waiting == 1)
        await bench.server.stop(10.0)
        bench.server.close()
        assert (budget.used, budget.waiting) == (0, 0)
        assert await first.raw.is_closed()
        assert await second.raw.is_closed()


@having(max_connections=2)
async def test_connections_have_a_bound(bench: Bench) -> None:
    async with calling(bench) as first, calling(bench) as second:
        await first.ask("one")
        await second.ask("two")
        with structlog.testing.capture_logs() as log:
            async with calling(bench) as third:
                assert await third.raw.is_closed()
        assert [line["event"] for line in log] == ["refused a connection"]
        assert await first.ask("more") == "more"
    await bench.open_count(0)
    async with calling(bench) as fourth:
        assert await fourth.ask("now") == "now"


async def test_stopping_lets_what_runs_finish(bench: Bench) -> None:
    async with calling(bench) as idle, calling(bench) as waiting, calling(bench) as busy:
        await idle.ask("first")
        waiting.wait_for("hold:ever")
        busy.say("hold:it", "next")
        await eventually(lambda: {"hold:ever", "hold:it"} <= {*bench.begun})
        stopping = asyncio.create_task(bench.server.stop(10.0))
        await asyncio.sleep(0.01)
        assert not stopping.done()
        bench.events["it"].set()
        await stopping
        bench.server.close()
        assert await busy.hear() == "hold:it"
        for caller in (idle, waiting, busy):
            assert await caller.raw.is_closed()
    assert "next" not in bench.begun
    with pytest.raises(ConnectionRefusedError):
        await connected(bench.address).__aenter__()


class Line(asyncio.Transport):
    """To a client whose connection was made before the loop told of it."""

    closed = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("hang_up", [True, False])
async def test_a_client_that_comes_while_all_stops_is_hung_up_on(bench: Bench, hang_up: bool) -> None:
    assert bench.server._connect is not None
    connection, line = bench.server._connect(), Line()
    await bench.past_checks(1e9)
    await bench.server.stop(1.0, hang_up=hang_up)
    connection.connection_made(line)
    assert line.closed is hang_up
    bench.server.close()
    assert line.closed


async def test_a_client_that_comes_when_all_has_stopped_is_hung_up_on(bench: Bench) -> None:
    assert bench.server._connect is not None
    connection, line = bench.server._connect(), Line()
    await bench.server.stop(1.0, hang_up=False)
    bench.server.close()
    connection.connection_made(line)
    assert line.closed


async def test_stopping_takes_no_longer_than_it_may(bench: Bench) -> None:
    async with calling(bench) as busy:
        busy.say("hold:ever")
        await eventually(lambda: bench.begun)
        await bench.server.stop(0.01)
        bench.server.close()
        assert await busy.raw.is_closed()
    await bench.open_count(0)


async def test_a_flood_of_lies_makes_few_lines(bench: Bench) -> None:
    with structlog.testing.capture_logs() as log:
        for _ in range(200):
            async with connected(bench.address) as raw:
                await raw.write(b"\xff\xff\xff\xff")
                assert await raw.is_closed()
    assert 20 <= len(complaints(log)) < 100


async def test_callers_are_told_apart(bench: Bench) -> None:
    """The name of a connection is what share sessions belong to."""
    async with calling(bench) as one, calling(bench) as other:
        await one.ask("x")
        await other.ask("y")
        names = {connection._client.connection for connection in bench.server._connections}
    assert len(names) == 2
    assert isinstance(one, Caller)
