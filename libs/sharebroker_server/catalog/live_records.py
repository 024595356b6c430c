"""Which records of the catalog's log are current, and the records that replace old ones at its end."""

from __future__ import annotations

from typing import Final, NamedTuple

from sharebroker_server.catalog.acls import AclDeletedRecord, AclRecord
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.quotas import QuotaEntity, QuotaKey, QuotaRecord
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.catalog.users import ScramCredentialDeletedRecord, ScramCredentialRecord
from sharebroker_server.live_keys import LiveKeys
from sharebroker_server.security.acl import AclBinding
from sharebroker_server.security.authentication.scram import ScramMechanism


class _QuotaName(NamedTuple):
    """What identifies a quota."""

    entity: QuotaEntity
    key: QuotaKey


_Key = tuple[str, str] | tuple[ConfigResource, str] | tuple[ScramMechanism, str] | AclBinding | _QuotaName
_CLUSTER: Final = ("cluster", "")


class LiveRecords:
    """The position of each current record of `catalog`."""

    def __init__(self, catalog: TopicCatalog) -> None:
        self._catalog = catalog
        self._live: LiveKeys[_Key] = LiveKeys()

    def register(self, record: CatalogRecord, position: int) -> None:
        """Registers the record at `position`, which the catalog has not applied yet."""
        self._live.skip(position)
        if isinstance(record, TopicRecord):
            self._live.put(("topic", record.topic.topic_id), position)
        elif isinstance(record, TopicDeletedRecord):
            self._live.drop(("topic", record.topic_id), position)
            self._live.drop(("deleted", self._catalog.dropped_by(record.topic_id)), position)
            self._live.put(("deleted", record.topic_id), position)
        elif isinstance(record, ClusterRecord):
            self._live.put(_CLUSTER, position)
        elif isinstance(record, ConfigRecord) and record.resource.type is not ResourceType.TOPIC:
            keep = self._live.drop if record.value is None else self._live.put
            keep((record.resource, record.key), position)
        else:
            # Changes of a topic need no key: they follow its TopicRecord, and a rewritten TopicRecord
            # contains them.
            self._register_access(record, position)

    def trim_before(self) -> int:
        """Returns the position before which no record is current."""
        return self._live.trim_before()

    def rewritten(self, written: int) -> list[CatalogRecord]:
        """Returns old records to write again with `written` other ones, so that the log can be trimmed."""
        return [self._record(key) for key in self._live.stale(written)]

    def _register_access(self, record: CatalogRecord, position: int) -> None:
        if isinstance(record, ScramCredentialRecord):
            self._live.put((record.mechanism, record.user), position)
        elif isinstance(record, ScramCredentialDeletedRecord):
            self._live.drop((record.mechanism, record.user), position)
        elif isinstance(record, AclRecord):
            self._live.put(record.acl, position)
        elif isinstance(record, AclDeletedRecord):
            self._live.drop(record.acl, position)
        elif isinstance(record, QuotaRecord):
            keep = self._live.drop if record.value is None else self._live.put
            keep(_QuotaName(record.entity, record.key), position)

    def _record(self, key: _Key) -> CatalogRecord:
        if isinstance(key, AclBinding):
            return AclRecord(key)
        if isinstance(key, _QuotaName):
            return QuotaRecord(*key, self._catalog.quotas.of(key.entity)[key.key])
        kind, name = key
        if isinstance(kind, ConfigResource):
            return ConfigRecord(kind, name, self._catalog.configs(kind)[name])
        if isinstance(kind, ScramMechanism):
            users = self._catalog.users
            return ScramCredentialRecord(name, kind, users.credentials(name)[kind], users.is_super_user(name))
        if kind == "deleted":
            # Without partitions: its logs were removed with the topic, or leaders remove them as unknown
            # logs.
            return TopicDeletedRecord(name)
        topic = self._catalog.topic_by_id(name)
        return TopicRecord(topic) if topic is not None else self._catalog.cluster_record()
