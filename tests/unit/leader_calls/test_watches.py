"""Watches of partitions, alone and joined."""

from __future__ import annotations

import pytest
from typing_extensions import override

from sharebroker_server.leader_calls.watches import BaseWatch, JointWatch


class Watch(BaseWatch):
    """Counts how often it was stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = 0

    @override
    def _stop(self) -> None:
        self.stopped += 1


async def test_changes_returns_false_at_the_timeout() -> None:
    watch = Watch()
    assert not await watch.changes(0.0)
    assert (watch.active, watch.stopped) == (True, 0)


async def test_watch_stops_once_and_reports_changes_afterwards() -> None:
    watch = Watch()
    watch.end()
    watch.end()
    assert (watch.active, watch.stopped) == (False, 1)
    assert await watch.changes(10)


async def test_observers_are_called_once_unless_removed() -> None:
    watch, calls = Watch(), []
    observers = [lambda name=name: calls.append(name) for name in "ab"]
    for observer in observers:
        watch.add_observer(observer)
    watch.remove_observer(observers[0])
    watch.end()
    watch.end()
    assert calls == ["b"]


@pytest.mark.parametrize("first", [0, 1])
async def test_first_watch_that_ends_ends_the_joint_watch(first: int) -> None:
    watches = [Watch(), Watch()]
    joint = JointWatch(watches)
    assert not await joint.changes(0.0)
    assert joint.active
    watches[first].end()
    assert await joint.changes(10)
    assert [watch.stopped for watch in watches] == [1, 1]


async def test_end_of_a_joint_watch_ends_its_watches() -> None:
    watches = [Watch(), Watch()]
    JointWatch(watches).end()
    assert [watch.active for watch in watches] == [False, False]


@pytest.mark.parametrize("ended", [0, 1])
async def test_a_watch_that_ended_before_ends_the_joint_watch(ended: int) -> None:
    watches = [Watch(), Watch()]
    watches[ended].end()
    joint = JointWatch(watches)
    assert not joint.active
    assert [watch.active for watch in watches] == [False, False]
