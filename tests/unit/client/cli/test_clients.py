"""The clients of commands connect to the given server."""

from __future__ import annotations

import pytest

from sharebroker import Admin, ErrorCode, KafkaError, aio
from sharebroker.blocking.dead_letters import DeadLetters
from sharebroker.cli.clients import connect_admin, connect_async_admin, connect_dead_letters


def test_blocking_clients_are_made() -> None:
    with connect_admin("127.0.0.1:1") as admin, connect_dead_letters("127.0.0.1:1") as letters:
        assert (type(admin), type(letters)) == (Admin, DeadLetters)


async def test_an_asyncio_client_is_made() -> None:
    async with connect_async_admin("127.0.0.1:1") as admin:
        assert type(admin) is aio.Admin


def test_an_invalid_address_is_rejected() -> None:
    with pytest.raises(KafkaError) as caught:
        connect_admin("nowhere")
    assert caught.value.code is ErrorCode.INVALID_CONFIG
