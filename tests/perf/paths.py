"""Traces one warm request through one live server, and prints how many files and calls it takes.

Five requests are traced: ShareFetch, ShareAcknowledge and Produce on the Kafka listener, an acknowledgement
on a Consume stream, and a record on a ProduceStream. Each is sent several times, alone. The recording with
the most frequent number of calls counts, which leaves background work of the server out (lease renewals,
followers of a log). Only the server's own files count: neither libraries nor generated code.

`python -m tests.perf.paths [--checkout DIR] [--calls ShareFetch] [--rights]`. With `--rights` the server has
users and ACLs, and the client is a user without special rights. The exit code is 1 if a request exceeds its
budget of files or frames, which counts without access control.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import ssl
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import crc32c
import grpc

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import produce_pb2
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from tests.perf.checkout import HERE, Checkout
from tests.perf.servers import Serving, serving
from tests.perf.users import MECHANISM, USER, add_users, options, password
from tests.support.client import ACCEPT, Client, connected
from tests.support.kafka_client import KafkaClient, answered, part, runs
from tests.support.kafka_client import connected as kafka_connected
from tests.testkit.certificates import Authority
from tests.testkit.sasl import ScramClient

RECORDER: Final = Path(__file__).with_name("recorder.py")
WARM_UP: Final = 30
"""Requests of a kind before the first that is recorded."""

RECORDED: Final = 21
QUIET_SECONDS: Final = 0.01
"""Time after a reply in which background work of the request runs."""

PATIENCE: Final = 10.0

ACLS: Final = 100
"""ACLs of other users, with `--rights`."""

FRAMES: Final = 15
"""The deepest stack that a request may have."""

FILES: Final[Mapping[str, int]] = {"ShareFetch": 35, "ShareAcknowledge": 40, "Produce": 35}
"""The most files that a request may touch."""

PRODUCE, PRODUCE_VERSION = 0, 12
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


class Called(NamedTuple):
    """One function call, or one resumption of a coroutine after a wait."""

    file: str
    function: str
    depth: int
    resumed: bool


@dataclass(frozen=True, slots=True)
class Route:
    """Figures of one recording."""

    files: int
    calls: int
    functions: int
    changes_of_file: int
    deepest: int

    @classmethod
    def of(cls, called: Sequence[Called]) -> Route:
        """The figures of a recording; a coroutine that resumes after a wait counts as a call."""
        return cls(
            len({call.file for call in called}),
            len(called),
            len({(call.file, call.function) for call in called}),
            sum(one.file != other.file for one, other in pairwise(called)),
            max((call.depth for call in called), default=0),
        )


def typical(recordings: Sequence[Sequence[Called]]) -> Sequence[Called]:
    """A recording with the most frequent number of calls; of several such numbers, the least.

    Raises ValueError when there is none.
    """
    frequency = Counter(map(len, recordings))
    return min(recordings, key=lambda called: (-frequency[len(called)], len(called)))


def table(routes: Mapping[str, Route]) -> str:
    """A Markdown table with one row per request."""
    heads = ("request", "files", "calls", "functions", "changes of file", "deepest stack")
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    for name, route in routes.items():
        figures = (route.files, route.calls, route.functions, route.changes_of_file, route.deepest)
        lines.append(f"| {name} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines)


def exceeded(routes: Mapping[str, Route]) -> list[str]:
    """A sentence for each request that exceeds its budget."""
    over = []
    for name, files in FILES.items():
        route = routes[name]
        if route.files > files:
            over.append(f"{name} touches {route.files} files; its budget is {files}.")
        if route.deepest > FRAMES:
            over.append(f"{name} has a stack of {route.deepest} frames; its budget is {FRAMES}.")
    return over


def listing(called: Sequence[Called]) -> Iterator[str]:
    """A recording as lines, each indented by the depth of its stack."""
    for call in called:
        yield f"{'  ' * call.depth}{'… ' if call.resumed else ''}{call.file}: {call.function}"


class Control:
    """The connection to the recorder in the server's process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def record(self, request: Callable[[], Awaitable[object]]) -> list[Called]:
        """The calls that one request caused."""
        await asyncio.sleep(QUIET_SECONDS)
        await self._send("start")
        await request()
        await asyncio.sleep(QUIET_SECONDS)
        return [Called(*call) for call in await self._send("stop")]

    async def _send(self, word: str) -> Any:
        self._writer.write(word.encode() + b"\n")
        return json.loads(await self._reader.readline())

    async def close(self) -> None:
        """Closes the connection."""
        self._writer.close()


Recordings = dict[str, list[list[Called]]]


class Tracing:
    """Sends requests of all kinds and keeps the recordings."""

    def __init__(self, control: Control, client: Client, kafka: KafkaClient) -> None:
        self._control = control
        self._client = client
        self._kafka = kafka
        self.recordings: Recordings = {}

    async def kafka_requests(self) -> None:
        """Produces a record, fetches it and acknowledges it, again and again."""
        topic, topic_id = await self._client.create()
        group = await self._client.group()
        member = "paths"
        while (await self._kafka.heartbeat(group, member, 0, subscribed_topic_names=[topic])).error_code:
            await self._kafka.ask(10, 4, key_type=0, coordinator_keys=[group])
            await asyncio.sleep(QUIET_SECONDS)
        await self._kafka.share_fetch(group, member, 0, {topic_id: [0]})
        epoch = 0
        for turn in range(WARM_UP + RECORDED):
            await self._take("Produce", turn, lambda: self._produce(topic))
            fetched = await self._take(
                "ShareFetch",
                turn,
                lambda: self._kafka.share_fetch(group, member, epoch + 1, max_wait_ms=5000),  # noqa: B023
            )
            ((first, last, _),) = runs(answered(fetched)[topic_id, 0])
            acks = {(topic_id, 0): [(first, last, [ACCEPT])]}
            done = await self._take(
                "ShareAcknowledge",
                turn,
                lambda: self._kafka.share_acknowledge(group, member, epoch + 2, acks),  # noqa: B023
            )
            assert answered(done)[topic_id, 0].error_code == 0, done
            epoch += 2

    async def stream_requests(self) -> None:
        """Publishes a record, receives it on a stream and acknowledges it there, again and again."""
        topic, _ = await self._client.create()
        group = await self._client.group()
        call = self._client.share.Consume()
        subscribe = share.ConsumeRequest.Subscribe(
            group_id=group, topics=[topic], member_id="paths", decode=True
        )
        await call.write(share.ConsumeRequest(subscribe=subscribe, credit=100))
        for turn in range(WARM_UP + RECORDED):
            await self._client.publish(topic, ["record"], partition=0)
            record = (await _until(call, "records"))[0]
            await asyncio.sleep(QUIET_SECONDS)
            await self._take("stream acknowledgement", turn, lambda: _accept(call, record, turn + 1))  # noqa: B023
        call.cancel()

    async def produced_records(self) -> None:
        """Sends a record on a ProduceStream and receives its result, again and again."""
        topic, _ = await self._client.create()
        call = self._client.produce.ProduceStream()
        request = produce_pb2.ProduceStreamRequest()
        data = request.produce.topic_data.add(name=topic)
        data.partition_data.add(index=0, records=record_batch(b"x" * 100))
        for turn in range(WARM_UP + RECORDED):
            await self._take("ProduceStream", turn, lambda: _produced(call, request))
        call.cancel()

    async def _take(self, name: str, turn: int, request: Callable[[], Awaitable[Any]]) -> Any:
        """Sends a request; records it once all is warm."""
        reply: Any = None

        async def send() -> None:
            nonlocal reply
            reply = await request()

        if turn < WARM_UP:
            await send()
        else:
            self.recordings.setdefault(name, []).append(await self._control.record(send))
        return reply

    async def _produce(self, topic: str) -> None:
        data = part(PRODUCE, "PartitionProduceData", index=0, records=record_batch(b"x" * 100))
        topics = [part(PRODUCE, "TopicProduceData", name=topic, partition_data=[data])]
        reply = await self._kafka.ask(
            PRODUCE, PRODUCE_VERSION, acks=-1, timeout_ms=5000, transactional_id=None, topic_data=topics
        )
        assert reply.responses[0].partition_responses[0].error_code == 0, reply


Stream = grpc.aio.StreamStreamCall[share.ConsumeRequest, share.ConsumeResponse]
Produced = grpc.aio.StreamStreamCall[produce_pb2.ProduceStreamRequest, produce_pb2.ProduceStreamResponse]


async def _accept(call: Stream, record: share.ShareRecord, number: int) -> None:
    acknowledgement = delivery.Acknowledgement(
        id=number,
        topic_id=record.topic_id,
        partition=record.partition,
        first_offset=record.offset,
        type=delivery.AcknowledgeType.ValueType(ACCEPT),
        lock_token=record.lock_token,
    )
    await call.write(share.ConsumeRequest(acknowledgements=[acknowledgement], credit=1))
    (result,) = await _until(call, "results")
    assert not result.error_code, result


async def _produced(call: Produced, request: produce_pb2.ProduceStreamRequest) -> None:
    await call.write(request)
    async with asyncio.timeout(PATIENCE):
        response = await call.read()
    assert isinstance(response, produce_pb2.ProduceStreamResponse)
    assert response.produce.responses[0].partition_responses[0].error_code == 0, response


async def _until(call: Stream, field: str) -> Sequence[Any]:
    """The items of the next response that has any in `field`."""
    async with asyncio.timeout(PATIENCE):
        while isinstance(response := await call.read(), share.ConsumeResponse):
            if items := getattr(response, field):
                return list(items)
    raise AssertionError(f"the stream ended before {field} came")


def record_batch(value: bytes) -> bytes:
    """A record batch (magic 2) of one record without key and headers."""
    record = b"\0\0\0\x01" + _varint(len(value)) + value + _varint(0)
    record = _varint(len(record)) + record
    # attributes, last offset delta, two timestamps, producer id, epoch and sequence, number of records
    body = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + record
    tail = struct.pack(">ibI", 0, 2, crc32c.crc32c(body)) + body
    return struct.pack(">qi", 0, len(tail)) + tail


def _varint(number: int) -> bytes:
    """A zigzag number of variable length; `number` is not negative."""
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@contextlib.asynccontextmanager
async def _control(path: Path) -> AsyncIterator[Control]:
    control = Control(*await asyncio.open_unix_connection(str(path), limit=1 << 26))
    try:
        yield control
    finally:
        await control.close()


@dataclass(frozen=True, slots=True)
class Login:
    """How the clients reach the server: without a user, or as a user with ACLs over TLS."""

    folder: Path
    authority: Authority | None = None

    def options(self) -> list[str]:
        """Returns options of `serve`."""
        if self.authority is None:
            return []
        return options(self.folder, self.authority, tls=True, secured=True)

    def prepare(self, server: Serving) -> None:
        """Creates the user. Raises BenchFailed."""
        if self.authority is not None:
            add_users(server.kafka, self.authority, ACLS)

    def grpc(self, address: str) -> str:
        """Returns the address for `connected`."""
        if self.authority is None:
            return address
        return f"tls://{address}?ca={self.authority.file}&user={USER}&password_file={self.folder / USER}"

    @contextlib.asynccontextmanager
    async def kafka(self, address: str) -> AsyncIterator[KafkaClient]:
        """Connects to the Kafka listener, and authenticates the user."""
        tls = None if self.authority is None else ssl.create_default_context(cafile=str(self.authority.file))
        async with kafka_connected(address, tls=tls) as client:
            if tls is not None:
                await _authenticate(client)
            yield client


async def _authenticate(client: KafkaClient) -> None:
    chosen = await client.ask(SASL_HANDSHAKE, 1, mechanism=MECHANISM)
    assert not chosen.error_code, chosen
    exchange = ScramClient(MECHANISM, USER, password(USER))
    first = await client.ask(SASL_AUTHENTICATE, 2, auth_bytes=exchange.first())
    final = await client.ask(SASL_AUTHENTICATE, 2, auth_bytes=exchange.final(first.auth_bytes))
    assert not final.error_code, final


async def _trace(server: Serving, login: Login, socket: Path) -> Recordings:
    async with (
        _control(socket) as control,
        connected(login.grpc(server.address)) as client,
        login.kafka(server.kafka) as kafka,
    ):
        tracing = Tracing(control, client, kafka)
        await tracing.kafka_requests()
        await tracing.stream_requests()
        await tracing.produced_records()
        return tracing.recordings


def measure(checkout: Checkout, *, rights: bool = False) -> dict[str, Sequence[Called]]:
    """The typical recording of each kind of request; `rights`: of a user. Raises BenchFailed."""
    with tempfile.TemporaryDirectory(prefix="sharebroker-") as name:
        folder, socket = Path(name), Path(name) / "recorder.sock"
        runner = (str(RECORDER), str(socket), str(checkout.folder))
        login = Login(folder, Authority.make(folder / "authority") if rights else None)
        chosen = ("--kafka", "127.0.0.1:0", *login.options())
        with serving(folder, "everysec", checkout=checkout, runner=runner, options=chosen) as server:
            login.prepare(server)
            recordings = asyncio.run(_trace(server, login, socket))
    order = ("ShareFetch", "ShareAcknowledge", "Produce", "stream acknowledgement", "ProduceStream")
    return {name: typical(recordings[name]) for name in order}


def main(arguments: Sequence[str]) -> int:
    """Print the table, or the calls of one request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkout", type=Path, default=HERE.folder, metavar="DIR")
    parser.add_argument("--calls", metavar="REQUEST", help="list the calls of a request, as ShareFetch")
    parser.add_argument("--rights", action="store_true", help="trace a user with ACLs")
    parsed = parser.parse_args(arguments)
    checkout = Checkout.at(parsed.checkout)
    found = measure(checkout, rights=parsed.rights)
    sys.stdout.write(f"Commit {checkout.revision()}\n\n")
    routes = {name: Route.of(called) for name, called in found.items()}
    sys.stdout.write(table(routes) + "\n")
    for name, called in found.items():
        if parsed.calls and parsed.calls in name:
            sys.stdout.write("\n".join(["", name, *listing(called), ""]))
    over = [] if parsed.rights else exceeded(routes)
    sys.stdout.writelines(f"failed: {sentence}\n" for sentence in over)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
