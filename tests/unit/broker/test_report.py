"""What nobody waited for is logged, unless who gave it up has said so."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
import uvloop

from sharebroker_server.broker.process import report
from sharebroker_server.redis_link.server import Target
from tests.testkit.waiting import eventually


def test_failed_host_lookups_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    told: list[dict[str, Any]] = []

    def handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        told.append(context)
        report(loop, context)

    async def giving_up() -> None:
        asyncio.get_running_loop().set_exception_handler(handler)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await Target.parse("redis://no!name").open(asyncio.Protocol)
        await eventually(lambda: told)

    uvloop.run(giving_up())
    assert [context["message"] for context in told] == ["Future exception was never retrieved"]
    assert not caplog.records


def test_other_exceptions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def failing() -> None:
        report(asyncio.get_running_loop(), {"message": "lost", "exception": OSError("away")})

    asyncio.run(failing())
    assert [record.message for record in caplog.records] == ["lost"]
