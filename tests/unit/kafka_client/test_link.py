"""Connections to one address: shared, replaced, and not opened in a loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_client.link import FIRST_PAUSE, LONGEST_PAUSE, BrokerAddress, BrokerLink
from tests.testkit.tables import each
from tests.testkit.waiting import eventually
from tests.unit.kafka_client.harness import SETTINGS, Broker, ask, failure, metadata, serving, silent


@each("address, text", [(BrokerAddress("b1", 9092), "b1:9092"), (BrokerAddress("::1", 9092), "[::1]:9092")])
def test_an_address_is_written_as_in_bootstrap_servers(address: BrokerAddress, text: str) -> None:
    assert str(address) == text


async def test_callers_share_one_connection() -> None:
    async with serving(Broker()) as broker:
        link = BrokerLink(BrokerAddress("127.0.0.1", broker.port), SETTINGS)
        opened = await asyncio.gather(*(link.connection() for _ in range(3)))
        assert len(set(opened)) == 1
        assert await link.connection() is opened[0]
        assert len(broker.received) == 1
        link.close()
        assert opened[0].closed
        assert (await failure(link.connection())).code is ErrorCode.NETWORK_EXCEPTION


async def test_pauses_between_failed_attempts_become_longer() -> None:
    async with serving(Broker()) as broker:
        pass
    link = BrokerLink(BrokerAddress("127.0.0.1", broker.port), SETTINGS, jitter=lambda: 1.0)
    pauses: list[float] = []
    while len(pauses) < 3:
        error = await failure(link.connection())
        assert error.code is ErrorCode.NETWORK_EXCEPTION
        during = await failure(link.connection())
        if during.retry_after is None:  # the pause had passed already
            continue
        assert during.message == error.message
        pauses.append(during.retry_after)
        await asyncio.sleep(during.retry_after)
    assert all(0 < pause <= LONGEST_PAUSE * 1.2 for pause in pauses)
    assert pauses[-1] > FIRST_PAUSE * 1.2


async def test_connections_that_end_at_once_are_not_opened_in_a_loop() -> None:
    broker = Broker()
    async with serving(broker):
        link = BrokerLink(BrokerAddress("127.0.0.1", broker.port), replace(SETTINGS))
        first = await link.connection()
        first.close()
        error = await failure(link.connection())
        assert "soon after" in error.message
        assert error.retry_after is not None
        await asyncio.sleep(error.retry_after)
        assert not (await link.connection()).closed
        link.close()


async def test_an_attempt_without_its_caller_starts_the_pause() -> None:
    broker = Broker(respond=silent)
    async with serving(broker):
        settings = replace(SETTINGS, setup_timeout=0.1)
        link = BrokerLink(BrokerAddress("127.0.0.1", broker.port), settings, jitter=lambda: 1.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await link.connection()
        assert (await failure(link.connection())).code is ErrorCode.REQUEST_TIMED_OUT
        assert (await failure(link.connection())).retry_after is not None
        assert len(broker.received) == 1


async def test_closing_ends_an_attempt() -> None:
    async with serving(Broker(respond=silent)) as broker:
        link = BrokerLink(BrokerAddress("127.0.0.1", broker.port), SETTINGS)
        waiting = asyncio.create_task(failure(link.connection()))
        await eventually(lambda: broker.received)
        link.close()
        assert (await waiting).code is ErrorCode.NETWORK_EXCEPTION


async def test_a_connection_is_replaced_before_its_authentication_ends() -> None:
    broker = Broker()
    async with serving(broker):
        link = BrokerLink(BrokerAddress("127.0.0.1", broker.port), SETTINGS)
        first = await link.connection()
        last = asyncio.create_task(ask(first))
        await eventually(lambda: first.unanswered)
        await asyncio.sleep(FIRST_PAUSE)
        first.renew_at = asyncio.get_running_loop().time()
        second = await link.connection()
        assert second is not first
        broker.answers.put_nowait(metadata("last"))
        assert await last == "last"
        assert first.closed
        assert not second.closed
        link.close()
