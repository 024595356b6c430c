"""A stream's writer and its call end together."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from sharebroker.aio.stream_writer import StreamWriter
from sharebroker.client_errors import ConnectionLostError


class Call:
    cancelled = False

    def cancel(self) -> bool:
        self.cancelled = True
        return True


async def fails() -> None:
    raise ValueError("cannot be written")


async def waits() -> None:
    await asyncio.Event().wait()


async def test_failing_writer_cancels_call_and_reports(caplog: pytest.LogCaptureFixture) -> None:
    call = Call()
    writer = StreamWriter(cast("Any", call), fails())
    for _ in range(3):
        await asyncio.sleep(0)
    assert call.cancelled
    assert isinstance(writer.failure(), ConnectionLostError)
    assert "cannot be written" in caplog.text
    await writer.stop()


async def test_reader_cancelled_from_outside_stays_cancelled() -> None:
    writer = StreamWriter(cast("Any", Call()), waits())
    with pytest.raises(asyncio.CancelledError):
        writer.failure()
    await writer.stop()
    with pytest.raises(asyncio.CancelledError):
        writer.failure()


async def test_stopping_ends_both() -> None:
    call = Call()
    await StreamWriter(cast("Any", call), waits()).stop()
    assert call.cancelled
