"""Metrics of coordinator shards."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.coordinator_runtime.metrics import not_active, shard_families


class Host:
    name = "share-coordinator"

    def held(self) -> Iterator[Any]:
        trimming = SimpleNamespace(before=8)
        for index, state in enumerate([ShardState.ACTIVE, ShardState.LOADING, ShardState.ACTIVE]):
            yield SimpleNamespace(shard=f"share-coordinator:{index}", state=state, trimming=trimming)


def test_shards_are_counted_by_state() -> None:
    states, pruned = shard_families([Host()])  # type: ignore[list-item]  # all that is read
    values = {sample.labels[-1]: sample.value for sample in states.samples if sample.value}
    assert values == {"active": 2, "loading": 1}
    assert [sample.value for sample in pruned.samples] == [7, 7, 7]


def test_shards_that_accept_no_commands_are_listed() -> None:
    assert not_active([Host()]) == ["share-coordinator:1"]  # type: ignore[list-item]  # as above
