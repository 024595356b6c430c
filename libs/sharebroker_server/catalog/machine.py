"""The catalog as a machine of the coordinator runtime: one shard, no timers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.commands import CatalogCommand
from sharebroker_server.catalog.decide import CatalogReply, decide
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResource,
    ResourceType,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.compaction.live_keys import LiveKeys
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.machine import Decision

SHARD: Final = "catalog"
"""The name of the catalog's lease and log."""

_Key = tuple[str, str] | tuple[ConfigResource, str]
_CLUSTER: Final = ("cluster", "")


class CatalogMachine:
    """Decides on topics and settings. `static` is what this process was started with."""

    def __init__(self, static: BrokerConfig) -> None:
        self.catalog = TopicCatalog()
        self._static = static
        self._live: LiveKeys[_Key] = LiveKeys()

    def decide(self, command: CatalogCommand, now: float) -> Decision[CatalogRecord, CatalogReply]:
        """See `sharebroker_server.catalog.decide`."""
        records, reply = decide(self.catalog, self._static, command, now)
        # Old facts first: what was decided just now must have the last word.
        return Decision((*self._renewed(len(records)), *records), reply)

    def apply(self, record: CatalogRecord, position: int) -> None:
        """Takes the record at `position` in."""
        self._live.pass_by(position)
        if isinstance(record, TopicRecord):
            self._live.put(("topic", record.topic.topic_id), position)
        elif isinstance(record, TopicDeletedRecord):
            self._live.drop(("topic", record.topic_id), position)
            self._live.drop(("deleted", self.catalog.forgotten_by(record.topic_id)), position)
            self._live.put(("deleted", record.topic_id), position)
        elif isinstance(record, ClusterRecord):
            self._live.put(_CLUSTER, position)
        elif isinstance(record, ConfigRecord) and record.resource.type is not ResourceType.TOPIC:
            keep = self._live.drop if record.value is None else self._live.put
            keep((record.resource, record.key), position)
        # Changes of a topic need no key: they lie behind its TopicRecord, and a renewed one contains them.
        self.catalog.apply(record, position)

    def next_deadline(self) -> float | None:
        """Nothing here happens by time."""
        return None

    def on_deadline(self, now: float) -> Sequence[CatalogRecord]:
        """Nothing here happens by time."""
        return ()

    def trim_before(self) -> int:
        """Records at positions below count for nothing any more."""
        return self._live.trim_before()

    def _renewed(self, written: int) -> list[CatalogRecord]:
        return [self._record(key) for key in self._live.stale(written)]

    def _record(self, key: _Key) -> CatalogRecord:
        kind, name = key
        if isinstance(kind, ConfigResource):
            return ConfigRecord(kind, name, self.catalog.configs(kind)[name])
        if kind == "deleted":
            # No logs: they went when it was deleted, or leaders find them as leftovers.
            return TopicDeletedRecord(name)
        topic = self.catalog.topic_by_id(name)
        return ClusterRecord(self.catalog.cluster_id) if topic is None else TopicRecord(topic)
