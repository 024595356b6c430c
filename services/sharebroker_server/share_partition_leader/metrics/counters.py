"""What is counted of groups and topics, for as long as there is room for each to be counted by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Final, Protocol

from sharebroker_server.share_partition_leader.core.counts import Counts
from sharebroker_server.telemetry.metrics import OTHER

Pair = tuple[str, str]
REST: Final[Pair] = (OTHER, OTHER)


class InUse(Protocol):
    """A share-partition."""

    group_id: str
    topic: str


class Tallies:
    """Counts by group and topic name. Over `most` of them those nobody uses are counted together.

    If all are in use, whoever comes then is counted with the rest.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._counts: dict[Pair, Counts] = {}
        self._rest = Counts()

    def of(self, group_id: str, topic: str, in_use: Callable[[], Iterable[InUse]]) -> Counts:
        """The counts to go on with."""
        if (group_id, topic) == REST:
            return self._rest
        found = self._counts.get((group_id, topic))
        if found is not None:
            return found
        if len(self._counts) >= self._most():
            self._make_room({(one.group_id, one.topic) for one in in_use()})
        if len(self._counts) >= self._most():
            return self._rest
        made = self._counts[group_id, topic] = Counts()
        return made

    def all(self) -> list[tuple[Pair, Counts]]:
        """By group and topic, the rest last."""
        return [*sorted(self._counts.items(), key=itemgetter(0)), (REST, self._rest)]

    def _make_room(self, used: set[Pair]) -> None:
        for pair in [pair for pair in self._counts if pair not in used]:
            self._rest.take_in(self._counts.pop(pair))
