"""The topics and settings that an import creates: their names and ids in the cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.archive_selection import ArchiveRecord, Selection, check_state_is_apart
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.machine import AlterConfigs, CreateTopic, decide
from sharebroker_server.catalog.records import CatalogRecord, ConfigRecord, TopicRecord
from sharebroker_server.catalog.topics import ConfigResource, Topic, topic_id_text
from sharebroker_server.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class Choices:
    """The selection of an import, new names of topics, and whether existing topics are left out."""

    selection: Selection = field(default_factory=Selection)
    renamed: Mapping[str, str] = field(default_factory=dict)
    skip_existing: bool = False


@dataclass(frozen=True, slots=True)
class TargetCluster:
    """The cluster: its catalog, the config of its servers, and the time in Unix seconds."""

    catalog: TopicCatalog
    config: BrokerConfig
    now: float


@dataclass(slots=True)
class PlannedTopics:
    """The topics to create by their ids in the archive, those left out, and the records of the catalog."""

    topics: dict[str, Topic] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    records: list[CatalogRecord] = field(default_factory=list)


def plan_topics(
    archive_id: str, archived: Sequence[ArchiveRecord], choices: Choices, target: TargetCluster
) -> PlannedTopics:
    """Returns the topics and settings to create. The catalog of `target` has the topics afterwards.

    Raises ArchiveError for existing topics, and for what the cluster does not accept.
    """
    plan = PlannedTopics()
    _plan_topics(plan, archive_id, archived, choices, target)
    _plan_configs(plan, archived, choices, target)
    return plan


def _plan_topics(
    plan: PlannedTopics,
    archive_id: str,
    records: Sequence[ArchiveRecord],
    choices: Choices,
    target: TargetCluster,
) -> None:
    catalog = target.catalog
    topics = [record.topic for record in records if isinstance(record, TopicRecord)]
    missing = sorted(choices.renamed.keys() - {topic.name for topic in topics})
    if missing:
        raise ArchiveError(f"The archive has no topic {', '.join(map(repr, missing))}.")
    for topic in topics:
        name = choices.renamed.get(topic.name, topic.name)
        if not choices.selection.has_topic(topic.name):
            continue
        if choices.skip_existing and catalog.topic(name) is not None:
            plan.skipped.append(name)
            continue
        check_state_is_apart([topic])
        topic_id = _id_there(archive_id, topic.topic_id, catalog)
        command = CreateTopic(name, topic_id, topic.partitions, topic.configs)
        try:
            decide(catalog, target.config, command, target.now)
        except KafkaError as error:
            raise ArchiveError(
                f"{error.message} Use --rename {topic.name}=NEW, --skip-existing or --topic."
            ) from error
        created = replace(topic, topic_id=topic_id, name=name)
        plan.topics[topic.topic_id] = created
        plan.records.append(TopicRecord(created))
        catalog.apply(TopicRecord(created), catalog.position)


def _id_there(archive_id: str, topic_id: str, catalog: TopicCatalog) -> str:
    """Returns the id of a topic in the cluster: the same one, unless the cluster has used it.

    It depends on nothing else, so that a repeated import continues with the same topics.
    """
    if _is_new(topic_id, catalog):
        return topic_id
    drawn = (
        topic_id_text(hashlib.sha256(f"{archive_id}\0{topic_id}\0{number}".encode()).digest()[:16])
        for number in count()
    )
    return next(text for text in drawn if not text.startswith("-") and _is_new(text, catalog))


def _is_new(topic_id: str, catalog: TopicCatalog) -> bool:
    return catalog.topic_by_id(topic_id) is None and not catalog.is_deleted(topic_id)


def _plan_configs(
    plan: PlannedTopics, records: Sequence[ArchiveRecord], choices: Choices, target: TargetCluster
) -> None:
    """Adds the configs of groups, except for groups that have configs in the cluster."""
    configs: dict[ConfigResource, dict[str, str | None]] = {}
    for record in records:
        if isinstance(record, ConfigRecord) and choices.selection.has_group(record.resource.name):
            configs.setdefault(record.resource, {})[record.key] = record.value
    for resource, changes in configs.items():
        if target.catalog.configs(resource):
            continue
        try:
            decision = decide(target.catalog, target.config, AlterConfigs(resource, changes), target.now)
        except KafkaError as error:
            raise ArchiveError(
                f"The settings of group {resource.name} are invalid here: {error.message}"
            ) from error
        plan.records += decision.records
