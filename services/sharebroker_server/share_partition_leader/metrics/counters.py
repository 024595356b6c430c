"""Counts per group and topic, with a limit on how many are exported with labels of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from sharebroker_server.share_partition_leader.core.counts import Counts
from sharebroker_server.telemetry.metrics import OTHER as OTHER_LABEL


class GroupTopic(NamedTuple):
    """A share group and a topic, by name."""

    group: str
    topic: str


OTHER: Final = GroupTopic(OTHER_LABEL, OTHER_LABEL)
"""Stands for all groups and topics beyond the cardinality limit."""


class InUse(Protocol):
    """A share-partition."""

    group_id: str
    topic: str


class CounterRegistry:
    """Counts by group and topic.

    Beyond `limit` of them, the counts of pairs without a loaded share-partition are merged into OTHER. If all
    pairs are in use, new ones are counted as OTHER.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._counts: dict[GroupTopic, Counts] = {}
        self._other = Counts()

    def get(self, group_id: str, topic: str, in_use: Callable[[], Iterable[InUse]]) -> Counts:
        """Returns the counts that a share-partition of this group and topic adds to."""
        pair = GroupTopic(group_id, topic)
        if pair == OTHER:
            return self._other
        found = self._counts.get(pair)
        if found is not None:
            return found
        if len(self._counts) >= self._limit():
            self._merge_unused({(item.group_id, item.topic) for item in in_use()})
        if len(self._counts) >= self._limit():
            return self._other
        made = self._counts[pair] = Counts()
        return made

    def all(self) -> list[tuple[GroupTopic, Counts]]:
        """Returns all counts, sorted by group and topic, OTHER last."""
        return [*sorted(self._counts.items(), key=itemgetter(0)), (OTHER, self._other)]

    def _merge_unused(self, used: set[tuple[str, str]]) -> None:
        for pair in [pair for pair in self._counts if pair not in used]:
            self._other.merge(self._counts.pop(pair))
