"""Each test runs once, whichever worker crashes when; compare `xdist.scheduler.LoadGroupScheduling`."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.testkit.scheduler import GroupScheduling


class Worker:
    """A worker of pytest-xdist: it starts a test once it has received the next one or the end."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.received.extend(indexes)

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def is_ready(self) -> bool:
        return len(self.received) > (0 if self.shutting_down else 1)


def scheduling(workers: int) -> Any:
    """Returns the scheduler of a run with so many workers."""
    options = {"tx": ["popen"] * workers, "loadscopereorder": True, "debug": False}
    config: Any = SimpleNamespace(getvalue=options.__getitem__, option=SimpleNamespace(**options))
    return GroupScheduling(config)


def run(collection: list[str], workers: int, crashes: set[str]) -> tuple[Counter[str], list[str]]:
    """Returns how often each test started, and the tests that are reported as crashed."""
    scheduler = scheduling(workers)
    started: Counter[str] = Counter()
    crashed: list[str] = []

    def add() -> None:
        node = Worker()
        scheduler.add_node(node)
        scheduler.add_node_collection(node, collection)
        if scheduler.collection_is_completed:
            scheduler.schedule()

    for _ in range(workers):
        add()
    while ready := [node for node in scheduler.nodes if node.is_ready]:
        node = ready[sum(started.values()) % len(ready)]
        index = node.received.pop(0)
        started[collection[index]] += 1
        if collection[index] in crashes:
            crashed.append(scheduler.remove_node(node))
            add()
        else:
            scheduler.mark_test_complete(node, index)
        if scheduler.tests_finished:
            for other in scheduler.nodes:
                other.shutdown()
    return started, crashed


COLLECTIONS = [
    [f"a.py::test_{number}" for number in range(12)],
    [f"a.py::test_{number}@{'ab'[number % 2]}" for number in range(12)],
    [*(f"a.py::test_{number}" for number in range(5)), *(f"b.py::test_{number}@b" for number in range(6))],
]


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("collection", COLLECTIONS, ids=["single tests", "groups", "both"])
def test_a_crash_costs_one_test_and_no_other(collection: list[str], workers: int) -> None:
    for crash in collection:
        started, crashed = run(collection, workers, {crash})
        assert crashed == [crash]
        assert started == Counter(collection), crash


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("collection", COLLECTIONS, ids=["single tests", "groups", "both"])
def test_tests_that_always_crash_run_once(collection: list[str], workers: int) -> None:
    started, crashed = run(collection, workers, set(collection))
    assert Counter(crashed) == started == Counter(collection)


def test_the_last_worker_begins_at_the_end() -> None:
    collection = [f"a.py::test_{number}" for number in range(12)]
    scheduler, nodes = scheduling(3), [Worker() for _ in range(3)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, collection)
    scheduler.schedule()
    first, second, last = ({*node.received} for node in nodes)
    assert first | second == {*range(len(first | second))}
    assert last == {*range(12 - len(last), 12)}
