"""Message ids of the Python client, of the command line and of the gRPC API."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from sharebroker import ErrorCode, KafkaError, Producer
from sharebroker.aio import Producer as AsyncProducer
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from tests.support.client import TIMEOUT, connected, unique

WINDOW = {"message_dedup_window_ms": "60000"}


async def test_records_that_are_published_again_have_their_first_position(server: str) -> None:
    async with connected(server) as client:
        topic, _ = await client.create(4, **WINDOW)
        records = [produce.PublishRecord(text="x", message_id=f"id {number}") for number in range(20)]
        request = produce.PublishRequest(topic=topic, records=records)
        first = await client.produce.Publish(request, timeout=TIMEOUT)
        assert await client.produce.Publish(request, timeout=TIMEOUT) == first
        reverse = produce.PublishRequest(topic=topic, records=records[::-1])
        again = await client.produce.Publish(reverse, timeout=TIMEOUT)
        assert [*again.positions] == [*reversed(first.positions)]
        new = produce.PublishRequest(topic=topic, records=[produce.PublishRecord(text="x", partition=0)])
        (position,) = (await client.produce.Publish(new, timeout=TIMEOUT)).positions
        assert position.offset == sum(each.partition == 0 for each in first.positions), "nothing was appended"
    async with AsyncProducer(server) as producer:
        metadata = await producer.publish(topic, b"x", message_id="id 7")
        position = first.positions[7]
        assert (metadata.partition, metadata.offset) == (position.partition, position.offset)


async def test_a_share_group_receives_each_id_once(server: str) -> None:
    async with connected(server) as client:
        topic, _ = await client.create(1, **WINDOW)
        group = await client.group()
        await client.produce.Publish(
            produce.PublishRequest(
                topic=topic, records=[produce.PublishRecord(text=each, message_id=each) for each in "abacb"]
            ),
            timeout=TIMEOUT,
        )
        got = await client.acquire_all(group, topic, 3, unique("member"))
        assert [record.text for record in got] == ["a", "b", "c"]


async def test_the_blocking_client_rejects_an_id_before_it_is_sent(server: str) -> None:
    async with connected(server) as client:
        topic, _ = await client.create(1, **WINDOW)

    with Producer(server) as producer:
        for message_id in ("", b"x" * 129):
            with pytest.raises(KafkaError, match="1 to 128 are allowed") as rejected:
                producer.send(topic, b"x", message_id=message_id)
            assert rejected.value.code is ErrorCode.INVALID_RECORD
        assert producer.publish(topic, b"x", message_id=b"y").offset == 0
        assert producer.publish(topic, b"x", message_id="y").offset == 0
        assert producer.publish(topic, b"x").offset == 1


async def test_the_command_line_publishes_a_file_again(server: str, tmp_path: Path) -> None:
    async with connected(server) as client:
        topic, _ = await client.create(1, **WINDOW)
        group = await client.group()
        file = tmp_path / "payments.jsonl"
        file.write_text('{"id": 1}\n{"id": 2}\n{"id": 1}\n')
        main = [sys.executable, "-c", "from sharebroker.cli import main; main()"]
        for _ in range(2):
            await asyncio.to_thread(
                subprocess.run,
                [*main, "produce", topic, str(file), "--message-id", "id", "--server", server],
                check=True,
                capture_output=True,
            )
        got = await client.acquire_all(group, topic, 2, unique("member"))
        assert [record.offset for record in got] == [0, 1]
        assert not (await client.acquire(group, topic, 10, member=unique("member"), wait=0.1)).records
