"""The catalog as a state machine of the coordinator runtime: one shard, no deadlines.

Each command names one object, so that each has its own result. `decide` turns a command into records, or
raises KafkaError; only `TopicCatalog.apply` changes the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.client_rules import ClientCommand, ClientReply, decide_client
from sharebroker_server.catalog.live_records import LiveRecords
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import (
    INTERNAL_TOPIC_IDS,
    SHARE_STATE_STORAGE,
    ConfigResource,
    ResourceType,
    Topic,
    check_group_id,
    check_not_internal,
    check_topic_name,
)
from sharebroker_server.catalog.upstream_rules import (
    FollowCluster,
    UpstreamCommand,
    check_storage,
    decide_upstream,
    follow_cluster,
)
from sharebroker_server.config.broker import BROKER_KEYS, BrokerConfig
from sharebroker_server.config.group import GROUP_KEYS, check_group
from sharebroker_server.config.keys import Key, appended, render, subtracted, unknown
from sharebroker_server.config.topic import TOPIC_KEYS, check_topic
from sharebroker_server.coordinator_runtime.machine import Decision, WithoutSoftState


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Creates a topic. The caller draws `topic_id`.

    `partitions` 0 or -1 means the broker's `num.partitions`.
    """

    name: str
    topic_id: str
    partitions: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Deletes a topic by name, or by id if the name is empty."""

    name: str = ""
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Raises the number of partitions to `count`."""

    name: str
    count: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ListEdit:
    """Items to add to a list property, or to remove from it."""

    items: str
    subtract: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Sets each value, edits it, or resets it to its default (None).

    Other configs remain; if `replaces` is true, they are reset to their defaults.
    """

    resource: ConfigResource
    changes: Mapping[str, str | ListEdit | None]
    validate_only: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class NameCluster:
    """Sets the cluster id, the levels of the features, and where the records are, if there is no id.

    Without addresses it removes those at which no broker ever responded.
    """

    cluster_id: str
    feature_levels: Mapping[str, int] = field(default_factory=dict)
    upstream_addresses: str = ""


CatalogCommand = (
    CreateTopic
    | DeleteTopic
    | CreatePartitions
    | AlterConfigs
    | NameCluster
    | ClientCommand
    | UpstreamCommand
)


SHARD: Final = "catalog"
"""The name of the catalog's lease and log."""


class CatalogMachine(WithoutSoftState):
    """Decides on topics, configs, users, ACLs and quotas. `static` is the broker's own configuration."""

    def __init__(self, static: BrokerConfig) -> None:
        self.catalog = TopicCatalog()
        self._static = static
        self._live = LiveRecords(self.catalog)

    def decide(self, command: CatalogCommand, now: float) -> Decision[CatalogRecord, CatalogReply]:
        """Returns the records and the reply of a command; see `sharebroker_server.catalog.machine`."""
        decision = decide(self.catalog, self._static, command, now)
        # Rewritten records first: the records of this command must come last.
        return decision._replace(records=(*self._live.rewritten(len(decision.records)), *decision.records))

    def apply(self, record: CatalogRecord, position: int) -> None:
        """Applies the record at `position`."""
        self._live.register(record, position)
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


CatalogReply = Topic | ClusterRecord | Mapping[str, str | None] | ClientReply
"""The topic after the change (before it, for a deletion), cluster id and levels, changed configs or ACLs.

It is empty after a change of users and quotas.
"""

CatalogDecision = Decision[CatalogRecord, CatalogReply]

MAX_PARTITIONS: Final = 10_000
"""The largest number of partitions per topic, and of all topics that one request creates."""

MAX_CONFIGURED: Final = 100_000
"""The largest number of groups and brokers with configs, whether or not they exist."""

_KEYS: Final[Mapping[ResourceType, tuple[Mapping[str, Key], str]]] = {
    ResourceType.TOPIC: (TOPIC_KEYS, "topic config name"),
    ResourceType.GROUP: (GROUP_KEYS, "group config name"),
    ResourceType.BROKER: (BROKER_KEYS, "broker configuration"),
}


def decide(state: TopicCatalog, static: BrokerConfig, command: CatalogCommand, now: float) -> CatalogDecision:
    """Returns the records and the reply of `command`.

    `static` is the broker's own configuration, `now` is in seconds. Raises INVALID_TOPIC_EXCEPTION,
    TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_CONFIG,
    INVALID_REQUEST, TOPIC_DELETION_DISABLED, INVALID_UPDATE_VERSION, those of `decide_client`;
    POLICY_VIOLATION if the catalog would become too large, and for topics that are in another cluster.
    """
    if isinstance(command, AlterConfigs):
        return _alter_configs(state, static, command)
    if isinstance(command, NameCluster):
        return _name_cluster(state, command)
    if isinstance(command, ClientCommand):
        return Decision(*decide_client(state, command, static.node_id))
    broker = effective_broker(state, static)
    if isinstance(command, UpstreamCommand):
        return Decision(*decide_upstream(state, command, broker.cluster_max_partitions, now))
    if isinstance(command, CreateTopic):
        return _create_topic(state, broker, command, now)
    if isinstance(command, DeleteTopic):
        return _delete_topic(state, broker, command)
    return _create_partitions(state, broker, command)


def effective_broker(state: TopicCatalog, static: BrokerConfig, node: str | None = None) -> BrokerConfig:
    """Returns a broker's effective config: static values, then cluster-wide and per-broker dynamic configs.

    Dynamic configs that another broker accepted and that conflict with this broker's static values are
    ignored as a whole.
    """
    effective = static
    for name in ("", str(static.node_id) if node is None else node):
        try:
            effective = effective.override(state.configs(ConfigResource(ResourceType.BROKER, name)))
        except KafkaError:
            continue
    return effective


def _create_topic(
    state: TopicCatalog, broker: BrokerConfig, command: CreateTopic, now: float
) -> CatalogDecision:
    _check_new_name(state, command.name)
    state.check_may_create(command.name, broker.errors_deadletterqueue_topic_name_prefix)
    partitions = broker.num_partitions if command.partitions in (0, -1) else command.partitions
    _check_count(partitions)
    _check_capacity(state, broker, partitions)
    configs = _with_storage(command.configs, broker)
    check_topic(configs)
    topic = Topic(command.topic_id, command.name, partitions, configs, int(now * 1000))
    return Decision(() if command.validate_only else (TopicRecord(topic),), topic)


def _with_storage(configs: Mapping[str, str], broker: BrokerConfig) -> dict[str, str]:
    """Returns the configs of a new topic with the storage of share state: it does not change later."""
    found, default = dict(configs), broker.group_share_state_storage
    if SHARE_STATE_STORAGE not in found and default != TOPIC_KEYS[SHARE_STATE_STORAGE].default:
        found[SHARE_STATE_STORAGE] = default
    if found.get(SHARE_STATE_STORAGE) == "log" and not broker.stores_share_state:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{SHARE_STATE_STORAGE}=log has no effect: group.share.persister.class.name stores nothing.",
        )
    return found


def _check_new_name(state: TopicCatalog, name: str) -> None:
    check_topic_name(name)
    if name in INTERNAL_TOPIC_IDS:
        raise _exists(name, INTERNAL_TOPIC_IDS[name])
    similar = state.topic_like(name)
    if similar is None:
        return
    if similar.name == name:
        raise _exists(name, similar.topic_id)
    raise KafkaError(
        ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {similar.name}"
    )


def _exists(name: str, topic_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.", metadata={"topic_id": topic_id}
    )


def _check_count(partitions: int) -> None:
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"A topic must have 1 to {MAX_PARTITIONS} partitions, not {partitions}.",
        )


def check_request(counts: Iterable[int], default: int) -> None:
    """Limits the partitions that one request creates, as Kafka does, since each costs time.

    `counts` are those of the topics; up to 0 means `default`. A topic with more than MAX_PARTITIONS is
    rejected by itself.

    Raises:
        KafkaError: POLICY_VIOLATION for more than MAX_PARTITIONS in total.
    """
    total = sum(count if count > 0 else default for count in counts if count <= MAX_PARTITIONS)
    if total > MAX_PARTITIONS:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"A request may create {MAX_PARTITIONS} partitions at most, not {total}; send several requests.",
        )


def _check_capacity(state: TopicCatalog, broker: BrokerConfig, added: int) -> None:
    limit = broker.cluster_max_partitions
    if state.partitions + added > limit:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The cluster has {state.partitions} partitions; {added} more would exceed "
            f"cluster.max.partitions={limit}.",
        )


def _delete_topic(state: TopicCatalog, broker: BrokerConfig, command: DeleteTopic) -> CatalogDecision:
    if bool(command.name) == bool(command.topic_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "A request must contain the topic's name or its id, and not both."
        )
    check_not_internal(command.name, command.topic_id)
    topic = _existing(state, command.name) if command.name else state.topic_by_id(command.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"Topic id {command.topic_id} does not exist.")
    state.check_own(topic)
    if not broker.delete_topic_enable:
        raise KafkaError(
            ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled (delete.topic.enable=false)."
        )
    return Decision((TopicDeletedRecord(topic.topic_id, topic.partitions),), topic)


def _create_partitions(
    state: TopicCatalog, broker: BrokerConfig, command: CreatePartitions
) -> CatalogDecision:
    check_not_internal(command.name)
    topic = _existing(state, command.name)
    state.check_own(topic)
    if command.count == topic.partitions:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {topic.partitions} partition(s).")
    if command.count < topic.partitions:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {topic.partitions} partition(s); "
            f"{command.count} would not be an increase.",
        )
    _check_count(command.count)
    _check_capacity(state, broker, command.count - topic.partitions)
    records = () if command.validate_only else (PartitionsRecord(topic.topic_id, command.count),)
    return Decision(records, topic)


def _existing(state: TopicCatalog, name: str) -> Topic:
    topic = state.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
    return topic


def _alter_configs(state: TopicCatalog, static: BrokerConfig, command: AlterConfigs) -> CatalogDecision:
    resource, current = command.resource, state.configs(command.resource)
    changes = _changes(command, current)
    merged = {**current, **changes}
    _check_same_storage(current.get(SHARE_STATE_STORAGE), merged.get(SHARE_STATE_STORAGE))
    _check_resource(
        state, static, resource, {key: value for key, value in merged.items() if value is not None}
    )
    if merged and not current and resource.type is not ResourceType.TOPIC:
        _check_configured(state)
    # An unknown property cannot be reset either: that would hide a misspelling.
    for key in command.changes:
        _key(resource, key)
    if command.validate_only:
        return Decision((), changes)
    return Decision(
        tuple(
            ConfigRecord(resource, key, value) for key, value in changes.items() if value != current.get(key)
        ),
        changes,
    )


def _check_same_storage(*storages: str | None) -> None:
    """Raises INVALID_CONFIG if the storage of share state would change; None is the default."""
    default = TOPIC_KEYS[SHARE_STATE_STORAGE].default
    if len({default if storage is None else storage for storage in storages}) > 1:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{SHARE_STATE_STORAGE} cannot change after the topic was created."
        )


def _check_configured(state: TopicCatalog) -> None:
    if state.configured_count() >= MAX_CONFIGURED:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The limit of {MAX_CONFIGURED} groups and brokers with configs is reached; remove unused ones.",
        )


def _changes(command: AlterConfigs, current: Mapping[str, str]) -> dict[str, str | None]:
    reset = [name for name in current if name != SHARE_STATE_STORAGE] if command.replaces else []
    changes: dict[str, str | None] = dict.fromkeys(reset)
    keys, _ = _KEYS[command.resource.type]
    for name, change in command.changes.items():
        if isinstance(change, ListEdit):
            key = _key(command.resource, name)
            edited = subtracted if change.subtract else appended
            changes[name] = edited(key, current.get(name, render(key.default)), change.items)
        elif change is not None and name in keys:
            changes[name] = keys[name].normal(change)
        else:
            changes[name] = change
    return changes


def _key(resource: ConfigResource, name: str) -> Key:
    keys, what = _KEYS[resource.type]
    if name not in keys:
        raise unknown(name, keys, what)
    return keys[name]


def _check_resource(
    state: TopicCatalog, static: BrokerConfig, resource: ConfigResource, settings: Mapping[str, str]
) -> None:
    if resource.type is ResourceType.TOPIC:
        check_not_internal(resource.name)
        state.check_own(_existing(state, resource.name))
        check_topic(settings)
    elif resource.type is ResourceType.GROUP:
        check_group_id(resource.name, "resource_name")
        check_group(settings, effective_broker(state, static))
    else:
        if resource.name and not resource.name.isdecimal():
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A broker resource must be a number, or empty for all brokers; not {resource.name!r}.",
            )
        try:
            changed = static.override(settings)
            if state.upstream_addresses:
                check_storage(changed.group_share_state_storage)
        except KafkaError as error:
            if error.metadata.get("config") not in BROKER_KEYS:
                raise
            # The code of Kafka for an invalid value of a broker property.
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.message, metadata=error.metadata) from None


def _name_cluster(state: TopicCatalog, command: NameCluster) -> CatalogDecision:
    if state.cluster_id and state.upstream_addresses and not command.upstream_addresses:
        return Decision(*follow_cluster(state, FollowCluster("")))
    if state.cluster_id:
        return Decision((), state.cluster_record())
    record = ClusterRecord(
        command.cluster_id, command.feature_levels, upstream_addresses=command.upstream_addresses
    )
    return Decision((record,), record)
