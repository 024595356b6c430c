"""What a process tells of others and of its leases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from sharebroker_server.leases import tidings
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.memory import MemoryLeaseStore
from sharebroker_server.leases.port import Member
from sharebroker_server.leases.tidings import Tidings
from sharebroker_server.testkit.waiting import eventually

ROLE = "share-coordinator"
SHARDS = [f"{ROLE}:{index}" for index in range(20)]
TTL = 10.0


def member(number: int) -> Member:
    return Member(f"{number}/1", number, frozenset({ROLE}), f"node{number}:9090", version="1")


class Scene:
    """A store, the process that tells, and its holder's turns."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.store = MemoryLeaseStore(lambda: self.now)
        self.holder = LeaseHolder(self.store, member(1), TTL, clock=lambda: self.now)
        self.holder.watch(ROLE, lambda: SHARDS, ROLE, self._acquired, self._lost)
        self.tidings = Tidings(self.holder)

    async def _acquired(self, resource: str, epoch: int) -> None: ...

    async def _lost(self, resource: str) -> None: ...

    async def turn(self) -> list[dict[str, Any]]:
        """What is told after one turn of the holder."""
        await self.holder._try_round()
        await self.holder._steps.settle()
        with capture_logs() as said:
            self.tidings.look()
        return [dict(line) for line in said]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    await made.holder.stop()


async def test_leases_that_move_are_one_line(scene: Scene) -> None:
    (_, line) = await scene.turn()
    assert line == {
        "event": "leases moved",
        "log_level": "info",
        "taken": {ROLE: 20},
        "given": {},
        "held": 20,
    }
    assert await scene.turn() == []
    await scene.store.announce(member(2), TTL)
    (came, given) = await scene.turn()
    assert (came["event"], came["address"], came["version"]) == ("a process came", "node2:9090", "1")
    assert (given["taken"], given["given"], given["held"]) == ({}, {ROLE: 10}, 10)


@pytest.mark.parametrize(
    ("leaves", "event", "level"),
    [(True, "a process left", "info"), (False, "a process is gone without a word", "warning")],
)
async def test_who_leaves_and_who_dies(scene: Scene, leaves: bool, event: str, level: str) -> None:
    await scene.store.announce(member(2), TTL)
    await scene.turn()
    if leaves:
        await scene.store.announce(member(2).on_leave(), TTL)
        assert [line["event"] for line in await scene.turn()] == ["leases moved"]
    await scene.store.withdraw("2/1")
    line, *_ = await scene.turn()
    assert (line["event"], line["log_level"], line["address"]) == (event, level, "node2:9090")
    assert line["roles"] == [ROLE]


async def test_who_is_there_at_the_start_is_no_news_and_what_is_handed_over_is_told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidings, "EVERY", 600.0)  # no look in the midst of a hand-over
    await scene.holder.start()
    with capture_logs() as said:
        scene.tidings.start()
        await eventually(lambda: said, 30)
        await scene.holder.stop()
        await scene.tidings.stop()
    assert [(line["taken"], line["given"], line["held"]) for line in said] == [
        ({ROLE: 20}, {}, 20),
        ({}, {ROLE: 20}, 0),
    ]


async def test_what_was_never_started_can_be_stopped(scene: Scene) -> None:
    with capture_logs() as said:
        await scene.tidings.stop()
    assert not said
