"""Renewals of many leases are sent in portions, and awaited together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from sharebroker_server.leases.port import LeasesUnavailable
from sharebroker_server.leases.redis import RENEWALS_AT_ONCE, RedisLeaseStore
from sharebroker_server.redis_link.port import Part, RedisRefused

LOST = "lease:lost"


class Scripts:
    """A link whose scripts reply a turn later, except to `silent` keys; counts the sends of each turn."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.refuses = False
        self.sent: list[int] = []
        self._in_turn = 0

    def script(self, source: str, *, replicated: bool = False) -> Scripts:
        return self

    def send(self, keys: Sequence[Part], args: Sequence[Part]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        if not self._in_turn:
            loop.call_soon(self._end_turn)
        self._in_turn += 1
        reply: asyncio.Future[Any] = loop.create_future()
        if keys[0] not in self.silent:
            loop.call_soon(self._reply, reply, keys[0])
        return reply

    def _end_turn(self) -> None:
        self.sent.append(self._in_turn)
        self._in_turn = 0

    def _reply(self, reply: asyncio.Future[Any], key: Part) -> None:
        if self.refuses:
            reply.set_exception(RedisRefused("ERR", "it is busy"))
        else:
            reply.set_result(int(key != LOST))


class Keys:
    """The keys of leases by their names."""

    def lease(self, resource: str) -> str:
        return f"lease:{resource}"


@pytest.fixture
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture
def store(scripts: Scripts) -> RedisLeaseStore:
    return RedisLeaseStore(cast("Any", scripts), cast("Any", Keys()), timeout=0.01)


@pytest.mark.parametrize(
    ("number", "sent"),
    [
        (0, []),
        (1, [1]),
        (RENEWALS_AT_ONCE, [RENEWALS_AT_ONCE]),
        (2 * RENEWALS_AT_ONCE + 7, [RENEWALS_AT_ONCE, RENEWALS_AT_ONCE, 7]),
    ],
)
async def test_renewals_are_sent_in_portions(
    store: RedisLeaseStore, scripts: Scripts, number: int, sent: list[int]
) -> None:
    epochs = {f"partition:{index}": 1 for index in range(number)}
    assert await store.renew(epochs, "1/1", 10.0) == [True] * number
    assert scripts.sent == sent


async def test_each_lease_of_several_portions_has_its_own_outcome(
    store: RedisLeaseStore, scripts: Scripts
) -> None:
    names = [f"partition:{index}" for index in range(3 * RENEWALS_AT_ONCE)]
    silent = {names[0], names[-1]}
    names.insert(RENEWALS_AT_ONCE, "lost")
    scripts.silent = {f"lease:{name}" for name in silent}
    outcomes = await store.renew(dict.fromkeys(names, 1), "1/1", 10.0)
    expected = [None if name in silent else name != "lost" for name in names]
    assert outcomes == expected


async def test_renewals_of_which_none_succeeds_raise_the_error(
    store: RedisLeaseStore, scripts: Scripts
) -> None:
    scripts.refuses = True
    with pytest.raises(LeasesUnavailable, match="busy"):
        await store.renew(dict.fromkeys(map(str, range(2 * RENEWALS_AT_ONCE)), 1), "1/1", 10.0)
