"""The catalog as a state machine of the coordinator runtime: one shard, no deadlines."""

from __future__ import annotations

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
from sharebroker_server.compaction import LiveKeys
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.machine import Decision, WithoutSoftState

SHARD: Final = "catalog"
"""The name of the catalog's lease and log."""

_Key = tuple[str, str] | tuple[ConfigResource, str]
_CLUSTER: Final = ("cluster", "")


class CatalogMachine(WithoutSoftState):
    """Decides on topics and configs. `static` is the broker's own configuration."""

    def __init__(self, static: BrokerConfig) -> None:
        self.catalog = TopicCatalog()
        self._static = static
        self._live: LiveKeys[_Key] = LiveKeys()

    def decide(self, command: CatalogCommand, now: float) -> Decision[CatalogRecord, CatalogReply]:
        """Returns the records and the reply of a command; see `sharebroker_server.catalog.decide`."""
        decision = decide(self.catalog, self._static, command, now)
        # Rewritten records first: the records of this command must come last.
        return decision._replace(records=(*self._rewritten(len(decision.records)), *decision.records))

    def apply(self, record: CatalogRecord, position: int) -> None:
        """Applies the record at `position`."""
        self._live.skip(position)
        if isinstance(record, TopicRecord):
            self._live.put(("topic", record.topic.topic_id), position)
        elif isinstance(record, TopicDeletedRecord):
            self._live.drop(("topic", record.topic_id), position)
            self._live.drop(("deleted", self.catalog.dropped_by(record.topic_id)), position)
            self._live.put(("deleted", record.topic_id), position)
        elif isinstance(record, ClusterRecord):
            self._live.put(_CLUSTER, position)
        elif isinstance(record, ConfigRecord) and record.resource.type is not ResourceType.TOPIC:
            keep = self._live.drop if record.value is None else self._live.put
            keep((record.resource, record.key), position)
        # Changes of a topic need no key: they follow its TopicRecord, and a rewritten TopicRecord contains
        # them.
        self.catalog.apply(record, position)

    def next_deadline(self) -> float | None:
        """Returns None: the catalog has no deadlines."""
        return None

    def on_deadline(self, now: float) -> Decision[CatalogRecord, None]:
        """Returns no records: the catalog has no deadlines."""
        return Decision((), None)

    def trim_before(self) -> int:
        """Returns the position before which no record is current."""
        return self._live.trim_before()

    def _rewritten(self, written: int) -> list[CatalogRecord]:
        return [self._record(key) for key in self._live.stale(written)]

    def _record(self, key: _Key) -> CatalogRecord:
        kind, name = key
        if isinstance(kind, ConfigResource):
            return ConfigRecord(kind, name, self.catalog.configs(kind)[name])
        if kind == "deleted":
            # Without partitions: its logs were removed with the topic, or leaders remove them as unknown
            # logs.
            return TopicDeletedRecord(name)
        topic = self.catalog.topic_by_id(name)
        return ClusterRecord(self.catalog.cluster_id) if topic is None else TopicRecord(topic)
