"""What the client knows of a cluster: brokers, topics, and the leader of each partition.

A broker may answer with metadata that is older than what the client has. A partition therefore keeps the
leader with the highest epoch, as long as its topic has the same id (KIP-320). A topic without id that was
created again has lower epochs: `without_leaders`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sharebroker_server.kafka_wire.messages import MetadataResponse


class BrokerNode(NamedTuple):
    """A broker and its address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Leader(NamedTuple):
    """The leader of a partition; -1 is none, or an unknown epoch."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    """A topic. `id` is "" on clusters without topic ids."""

    name: str
    id: str
    leaders: Mapping[int, Leader]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The cluster at one time. `errors` has the error codes of topics that could not be described.

    `controller_id` is the broker that changes topics, -1 for none.
    """

    cluster_id: str = ""
    brokers: Mapping[int, BrokerNode] = field(default_factory=dict)
    topics: Mapping[str, TopicLeaders] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    controller_id: int = -1

    def leader(self, topic: str, partition: int) -> Leader | None:
        """Returns the leader of a partition, None if there is none or its broker is not known."""
        known = self.topics.get(topic)
        leader = None if known is None else known.leaders.get(partition)
        return leader if leader is not None and leader.node_id in self.brokers else None

    def without_leaders(self, topic: str) -> ClusterMetadata:
        """Returns the metadata without a topic, so that the next response counts, whatever its epochs."""
        topics = {name: known for name, known in self.topics.items() if name != topic}
        return replace(self, topics=topics)

    def updated(self, response: MetadataResponse, *, complete: bool = False) -> ClusterMetadata:
        """Returns the metadata after a response, which replaces all brokers and the topics in it.

        If it is `complete`, other topics do not exist.
        """
        topics = {} if complete else dict(self.topics)
        errors = {} if complete else dict(self.errors)
        for found in response.topics:
            name = found.name or ""
            errors.pop(name, None)
            known = self.topics.get(name)
            if found.error_code:
                errors[name] = found.error_code
                if known is not None:
                    topics[name] = known
            else:
                topics[name] = _newest(known, _topic(found))
        brokers = {
            broker.node_id: BrokerNode(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        return ClusterMetadata(response.cluster_id or "", brokers, topics, errors, response.controller_id)


def _topic(found: MetadataResponse.MetadataResponseTopic) -> TopicLeaders:
    leaders = {part.partition_index: Leader(part.leader_id, part.leader_epoch) for part in found.partitions}
    return TopicLeaders(found.name or "", found.topic_id, leaders)


def _newest(known: TopicLeaders | None, found: TopicLeaders) -> TopicLeaders:
    """Returns the found topic, with the leaders of the known one whose epochs are higher."""
    if known is None or known.id != found.id:
        return found
    later = {
        partition: known.leaders[partition]
        for partition, leader in found.leaders.items()
        if partition in known.leaders and known.leaders[partition].epoch > leader.epoch >= 0
    }
    return TopicLeaders(found.name, found.id, {**found.leaders, **later}) if later else found
