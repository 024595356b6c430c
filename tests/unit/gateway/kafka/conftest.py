"""Doors for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from sharebroker_server.gateway.kafka.dispatch import api_table, dispatch
from tests.unit.gateway.kafka.bench import Bench, serving


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Servers run on uvloop, whose transports are not asyncio's: both must do."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A door; its parameter are properties with _ for dots."""
    bench = Bench(**getattr(request, "param", {}))
    for module in (dispatch, api_table):
        monkeypatch.setattr(module, "served", lambda: bench.apis)
    async with serving(bench):
        yield bench
