from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest
from structlog.testing import capture_logs

from sharebroker_server.telemetry import exposition as module
from sharebroker_server.telemetry.exposition import Exposition
from sharebroker_server.telemetry.metrics import Family, Metrics, gauge


class Numbers:
    """A part of a process with one number."""

    def __init__(self) -> None:
        self.value = 1
        self.reads = 0

    def families(self) -> Iterable[Family]:
        self.reads += 1
        yield gauge("number", "", ((("n", str(index)), self.value) for index in range(100)))


@pytest.fixture
def numbers() -> Numbers:
    return Numbers()


@pytest.fixture
async def exposition(numbers: Numbers) -> AsyncIterator[Exposition]:
    metrics = Metrics()
    metrics.add(numbers.families)
    made = Exposition(metrics)
    yield made
    await made.close()


async def test_concurrent_scrapes_share_one_rendering(exposition: Exposition, numbers: Numbers) -> None:
    texts = await asyncio.gather(*(exposition.text() for _ in range(200)))
    assert len({*texts}) == 1
    assert numbers.reads == 1


async def test_it_serves_for_a_moment(
    exposition: Exposition, numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CACHE_SECONDS", 3600.0)
    first = await exposition.text()
    numbers.value = 2
    assert await exposition.text() == first
    assert exposition.renderings == 1


async def test_an_old_rendering_is_replaced(
    exposition: Exposition, numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CACHE_SECONDS", -1.0)
    await exposition.text()
    numbers.value = 2
    assert b'number{n="99"} 2\n' in await exposition.text()


async def test_others_have_their_turn(exposition: Exposition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLICE", -1.0)
    rendering = asyncio.create_task(exposition.text())
    turns = 0
    while not rendering.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 100


async def test_a_cancelled_scrape_does_not_cancel_the_rendering(exposition: Exposition) -> None:
    impatient = asyncio.create_task(exposition.text())
    patient = asyncio.create_task(exposition.text())
    await asyncio.sleep(0)
    impatient.cancel()
    assert b"number" in await patient


async def test_a_refresh_that_fails_is_logged_and_nothing_else(numbers: Numbers) -> None:
    metrics = Metrics()
    metrics.add(numbers.families)

    async def fails() -> None:
        raise RuntimeError("nobody answers")

    metrics.refreshes.append(fails)
    with capture_logs() as said:
        assert b"number" in await Exposition(metrics).text()
    assert [entry["event"] for entry in said] == ["metrics refresh failed"]


async def test_a_refresh_that_takes_long_is_not_begun_twice(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CACHE_SECONDS", -1.0)
    monkeypatch.setattr(module, "REFRESH_TIMEOUT", 0.0)
    metrics, begun = Metrics(), 0
    metrics.add(numbers.families)

    async def never_ends() -> None:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    metrics.refreshes.append(never_ends)
    exposition = Exposition(metrics)
    assert await exposition.text() != await exposition.text()
    assert begun == 1
    await exposition.close()
