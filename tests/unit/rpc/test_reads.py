"""Reads that complete although their readers were cancelled."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_server.rpc.reads import completed
from tests.testkit.waiting import eventually


class Message:
    """A message that arrives when `arrives` is resolved."""

    def __init__(self) -> None:
        self.arrives: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.read_bytes: list[bytes] = []

    async def read(self) -> bytes:
        await self.arrives
        self.read_bytes.append(await self.arrives)
        return self.read_bytes[0]


async def test_result_and_failure_of_a_read_are_its_readers() -> None:
    message, failing = Message(), Message()
    message.arrives.set_result(b"early")
    assert await completed(message.read()) == b"early"
    reading = asyncio.create_task(_read(failing))
    await asyncio.sleep(0)
    failing.arrives.set_exception(ValueError("lost"))
    with pytest.raises(ValueError, match="lost"):
        await reading


async def test_read_of_a_cancelled_reader_completes() -> None:
    message = Message()
    reading = asyncio.create_task(_read(message))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    message.arrives.set_result(b"late")
    await eventually(lambda: message.read_bytes == [b"late"])


async def _read(message: Message) -> bytes:
    return await completed(message.read())
