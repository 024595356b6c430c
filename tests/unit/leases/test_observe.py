"""Log lines about peers and leases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from sharebroker_server.leases import observe
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.observe import MembershipLogger
from sharebroker_server.leases.port import IMPORTING, ClusterMember
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.waiting import eventually

ROLE = "share-coordinator"
SHARDS = [f"{ROLE}:{index}" for index in range(20)]
TTL = 10.0


def member(number: int) -> ClusterMember:
    return ClusterMember(f"{number}/1", number, frozenset({ROLE}), f"node{number}:9090", version="1")


class Harness:
    """A store, a lease holder and its membership log."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.store = MemoryLeaseStore(lambda: self.now)
        self.holder = LeaseHolder(self.store, member(1), TTL, clock=lambda: self.now)
        self.holder.register(ROLE, lambda: SHARDS, ROLE, self._acquired, self._lost)
        self.log = MembershipLogger(self.holder)

    async def _acquired(self, resource: str, epoch: int) -> None: ...

    async def _lost(self, resource: str) -> None: ...

    async def round(self) -> list[dict[str, Any]]:
        """Runs one round of the holder; returns the lines that are logged."""
        await self.holder._try_reconcile()
        await self.holder._executor.drain()
        with capture_logs() as lines:
            self.log.log_changes()
        return [dict(line) for line in lines]


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    made = Harness()
    yield made
    await made.holder.stop()


async def test_moved_leases_share_one_line(harness: Harness) -> None:
    (_, line) = await harness.round()
    assert line == {
        "event": "leases moved",
        "log_level": "info",
        "acquired": {ROLE: 20},
        "released": {},
        "held": 20,
    }
    assert await harness.round() == []
    await harness.store.announce(member(2), TTL)
    (joined, released) = await harness.round()
    assert (joined["event"], joined["address"], joined["version"]) == ("broker joined", "node2:9090", "1")
    assert (released["acquired"], released["released"], released["held"]) == ({}, {ROLE: 10}, 10)


@pytest.mark.parametrize(
    ("leaves", "event", "level"),
    [(True, "broker left", "info"), (False, "broker lost (no leave announcement)", "warning")],
)
async def test_members_that_leave_or_die_are_logged(
    harness: Harness, leaves: bool, event: str, level: str
) -> None:
    await harness.store.announce(member(2), TTL)
    await harness.round()
    if leaves:
        await harness.store.announce(member(2).as_leaving(), TTL)
        assert [line["event"] for line in await harness.round()] == ["leases moved"]
    await harness.store.withdraw("2/1")
    line, *_ = await harness.round()
    assert (line["event"], line["log_level"], line["address"]) == (event, level, "node2:9090")
    assert line["roles"] == [ROLE]


async def test_an_import_that_ends_is_not_logged_as_lost(harness: Harness) -> None:
    await harness.round()
    await harness.store.announce(ClusterMember("2/1", 2, frozenset({IMPORTING}), "import"), TTL)
    assert {line["event"] for line in await harness.round()} == {"import announced", "leases moved"}
    await harness.store.withdraw("2/1")
    line, *_ = await harness.round()
    assert (line["event"], line["log_level"]) == ("import ended", "info")


async def test_present_members_are_not_logged_and_handed_over_leases_are(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "INTERVAL", 600.0)  # no log line in the middle of a hand-over
    await harness.holder.start()
    with capture_logs() as lines:
        harness.log.start()
        await eventually(lambda: lines, 30)
        await harness.holder.stop()
        await harness.log.stop()
    assert [(line["acquired"], line["released"], line["held"]) for line in lines] == [
        ({ROLE: 20}, {}, 20),
        ({}, {ROLE: 20}, 0),
    ]


async def test_stop_before_start_does_not_raise(harness: Harness) -> None:
    with capture_logs() as lines:
        await harness.log.stop()
    assert not lines
