"""Which changes of the catalog follow from the metadata of the cluster that has the records."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import count
from typing import Final
from uuid import UUID, uuid5

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.topics import topic_id_text
from sharebroker_server.catalog.upstream_rules import FollowTopic, ForgetTopic, is_own_id
from sharebroker_server.kafka_client.core.metadata import ClusterMetadata, TopicLeaders

GRACE: Final = 300.0
"""Seconds for which a topic must be absent before it is deleted here: a cluster may lose sight of topics."""

LOOKS: Final = 3
"""How often at least a topic must have been absent."""

INTERNAL: Final = "__"
"""The prefix of topics that are not followed."""

_NAMESPACE: Final = UUID("6f2f4a5e-3a0b-5c8e-9a51-0a4d7f1b2c33")


class FollowedTopics:
    """Compares the catalog with metadata; remembers since when topics are absent.

    Only new topics must match `pattern`: a topic that is followed stays.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)
        self._absent: dict[str, tuple[float, int]] = {}

    def unlisted(self, catalog: TopicCatalog, metadata: ClusterMetadata) -> list[str]:
        """Returns the followed topics that complete metadata does not have.

        A cluster leaves out topics that the client may not describe. Metadata of the topics by name has the
        reason.
        """
        names = [topic.name for topic in catalog.topics() if topic.upstream]
        return [name for name in names if name not in metadata.topics and name not in metadata.errors]

    def commands(
        self,
        catalog: TopicCatalog,
        metadata: ClusterMetadata,
        now: float,
        deleted: Collection[str] = (),
    ) -> list[FollowTopic | ForgetTopic]:
        """Returns the changes, in the order of names. `metadata` has the errors of unlisted topics.

        `deleted` are the ids of topics that were deleted through this cluster.
        """
        return [
            *self._forgotten(catalog, metadata, now, deleted),
            *(
                command
                for name in sorted(metadata.topics)
                for command in self._followed(catalog, metadata, metadata.topics[name])
            ),
        ]

    def _followed(
        self, catalog: TopicCatalog, metadata: ClusterMetadata, found: TopicLeaders
    ) -> Iterator[FollowTopic]:
        known = catalog.topic(found.name)
        partitions = len(found.leaders)
        if known is None:
            if found.name.startswith(INTERNAL) or not self._pattern.fullmatch(found.name) or not partitions:
                return
            topic_id = found.id or own_id(catalog, metadata.cluster_id, found.name)
        elif not found.id or is_own_id(known.topic_id):
            topic_id = known.topic_id
        else:
            topic_id = found.id
        if catalog.is_deleted(topic_id):
            return  # the response of a broker that has not seen the deletion
        if known is None or known.topic_id != topic_id or known.partitions < partitions:
            yield FollowTopic(found.name, topic_id, partitions)

    def _forgotten(
        self, catalog: TopicCatalog, metadata: ClusterMetadata, now: float, deleted: Collection[str]
    ) -> Iterator[ForgetTopic]:
        gone = {
            topic.topic_id
            for topic in catalog.topics()
            if topic.upstream and metadata.errors.get(topic.name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        self._keep(gone)
        for topic_id in sorted(gone):
            since, looks = self._absent.get(topic_id, (now, 0))
            self._absent[topic_id] = since, looks + 1
            if topic_id in deleted or (looks + 1 >= LOOKS and now - since >= GRACE):
                yield ForgetTopic(topic_id)

    def _keep(self, gone: Iterable[str]) -> None:
        self._absent = {topic_id: seen for topic_id, seen in self._absent.items() if topic_id in gone}


def own_id(catalog: TopicCatalog, cluster_id: str, name: str) -> str:
    """Returns a stable id for a topic of a cluster without ids; another one after each deletion."""
    drawn = (topic_id_text(uuid5(_NAMESPACE, f"{cluster_id}/{name}/{n}").bytes) for n in count())
    return next(text for text in drawn if not text.startswith("-") and not catalog.is_deleted(text))
