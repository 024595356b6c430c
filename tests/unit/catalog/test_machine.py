"""The catalog's rules by command: its records, its replies and its errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.features import (
    SHARE,
    TRANSACTION,
    FeatureUpdate,
    UpdateFeatures,
    UpgradeType,
)
from sharebroker_server.catalog.machine import (
    MAX_PARTITIONS,
    AlterConfigs,
    CatalogCommand,
    CatalogMachine,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ListEdit,
    NameCluster,
    check_request,
)
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.config.broker import BrokerConfig

TOPIC = ConfigResource(ResourceType.TOPIC, "orders")
GROUP = ConfigResource(ResourceType.GROUP, "g")
BROKERS = ConfigResource(ResourceType.BROKER, "")


class Catalog:
    """A catalog machine that runs commands and applies their records at once."""

    def __init__(self, *settings: str) -> None:
        self.machine = CatalogMachine(BrokerConfig.parse(settings))
        self.position = 0

    def __call__(self, command: CatalogCommand, now: float = 1.5) -> tuple[tuple[CatalogRecord, ...], object]:
        records, reply, *_ = self.machine.decide(command, now)
        for record in records:
            self.position += 1
            self.machine.apply(record, self.position)
        return records, reply

    def refuses(self, command: CatalogCommand) -> KafkaError:
        before = self.position
        with pytest.raises(KafkaError) as caught:
            self(command)
        assert self.position == before
        return caught.value


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    catalog(CreateTopic("orders", "T1", 4))
    return catalog


def test_created_topic_is_found_by_name_and_id() -> None:
    catalog = Catalog()
    topic = Topic("T9", "flights", 8, {"retention.ms": "1000"}, created_ms=1500)
    assert catalog(CreateTopic("flights", "T9", 8, {"retention.ms": "1000"})) == (
        (TopicRecord(topic),),
        topic,
    )
    assert catalog.machine.catalog.topic("flights") == catalog.machine.catalog.topic_by_id("T9") == topic


@pytest.mark.parametrize("partitions", [0, -1])
def test_topic_without_a_partition_count_gets_the_default(partitions: int) -> None:
    _, topic = Catalog("num.partitions=7")(CreateTopic("a", "T1", partitions))
    assert isinstance(topic, Topic)
    assert topic.partitions == 7


def test_cluster_config_changes_the_default_partition_count() -> None:
    catalog = Catalog("num.partitions=7")
    catalog(AlterConfigs(BROKERS, {"num.partitions": "9"}))
    _, topic = catalog(CreateTopic("a", "T1"))
    assert isinstance(topic, Topic)
    assert topic.partitions == 9


@pytest.mark.parametrize("partitions", [1, 10_000])
def test_valid_partition_count_is_accepted(partitions: int) -> None:
    assert Catalog()(CreateTopic("a", "T1", partitions))[0]


@pytest.mark.parametrize("partitions", [-2, 10_001])
def test_invalid_partition_count_is_rejected(partitions: int) -> None:
    assert Catalog().refuses(CreateTopic("a", "T1", partitions)).code is ErrorCode.INVALID_PARTITIONS


def test_partitions_of_all_topics_are_limited() -> None:
    catalog = Catalog("cluster.max.partitions=10")
    catalog(CreateTopic("a", "T1", 4))
    assert catalog.refuses(CreateTopic("b", "T2", 7)).code is ErrorCode.POLICY_VIOLATION
    catalog(CreateTopic("b", "T2", 5))
    assert catalog.refuses(CreatePartitions("a", 6)).code is ErrorCode.POLICY_VIOLATION
    catalog(CreatePartitions("a", 5))
    assert catalog.refuses(CreateTopic("c", "T3", 1)).code is ErrorCode.POLICY_VIOLATION
    catalog(DeleteTopic("b"))
    catalog(AlterConfigs(BROKERS, {"cluster.max.partitions": "11"}))
    catalog(CreateTopic("b", "T4", 6))
    assert catalog.machine.catalog.partitions == 11


def test_number_of_groups_with_configs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharebroker_server.catalog.machine.MAX_CONFIGURED", 1)
    catalog = Catalog()
    other = ConfigResource(ResourceType.GROUP, "other")
    catalog(AlterConfigs(GROUP, {"share.session.timeout.ms": "50000"}))
    catalog(AlterConfigs(GROUP, {"share.session.timeout.ms": "51000"}))
    assert catalog.refuses(AlterConfigs(other, {"share.session.timeout.ms": "50000"})).code is (
        ErrorCode.POLICY_VIOLATION
    )
    catalog(AlterConfigs(GROUP, {"share.session.timeout.ms": None}))
    catalog(AlterConfigs(other, {"share.session.timeout.ms": "50000"}))


@pytest.mark.parametrize("name", ["a", "A.b", "a_b", "a-b", "0", "...", "x" * 249])
def test_valid_topic_name_is_accepted(name: str) -> None:
    assert Catalog()(CreateTopic(name, "T1"))[0]


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a:b"])
def test_invalid_topic_name_is_rejected(name: str) -> None:
    error = Catalog().refuses(CreateTopic(name, "T1"))
    assert error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert error.violations[0].field == "name"


def test_existing_name_is_rejected(catalog: Catalog) -> None:
    error = catalog.refuses(CreateTopic("orders", "T2"))
    assert (error.code, error.message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists.")


def test_names_equal_in_metrics_collide() -> None:
    catalog = Catalog()
    catalog(CreateTopic("a.b_c", "T1"))
    error = catalog.refuses(CreateTopic("a_b.c", "T2"))
    assert error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "collides with existing topic: a.b_c" in error.message
    catalog(DeleteTopic("a.b_c"))
    assert catalog(CreateTopic("a_b.c", "T2"))[0]


def test_invalid_config_rejects_the_topic() -> None:
    error = Catalog().refuses(CreateTopic("a", "T1", 1, {"cleanup.policy": "compact"}))
    assert error.code is ErrorCode.INVALID_CONFIG


def test_validating_only_writes_nothing(catalog: Catalog) -> None:
    assert catalog(CreateTopic("b", "T2", 3, validate_only=True))[0] == ()
    assert catalog(CreatePartitions("orders", 5, validate_only=True))[0] == ()
    assert catalog(AlterConfigs(TOPIC, {"retention.ms": "5"}, validate_only=True)) == (
        (),
        {"retention.ms": "5"},
    )
    assert catalog.refuses(CreateTopic("orders", "T2", 3, validate_only=True)).code is (
        ErrorCode.TOPIC_ALREADY_EXISTS
    )


@pytest.mark.parametrize("command", [DeleteTopic(name="orders"), DeleteTopic(topic_id="T1")])
def test_deleted_topic_is_listed_as_deleted(catalog: Catalog, command: DeleteTopic) -> None:
    records, topic = catalog(command)
    assert records == (TopicDeletedRecord("T1", 4),)
    assert isinstance(topic, Topic)
    state = catalog.machine.catalog
    assert state.topic("orders") is state.topic_by_id("T1") is None
    assert state.is_deleted("T1")
    assert not state.is_deleted("T2")
    assert catalog(CreateTopic("orders", "T2"))[0]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (DeleteTopic(name="nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (DeleteTopic(topic_id="T9"), ErrorCode.UNKNOWN_TOPIC_ID),
        (DeleteTopic(), ErrorCode.INVALID_REQUEST),
        (DeleteTopic(name="orders", topic_id="T1"), ErrorCode.INVALID_REQUEST),
        (CreatePartitions("nope", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (CreatePartitions("orders", 4), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitions("orders", 3), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitions("orders", 10_001), ErrorCode.INVALID_PARTITIONS),
        (AlterConfigs(ConfigResource(ResourceType.TOPIC, "nope"), {}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (AlterConfigs(TOPIC, {"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (AlterConfigs(TOPIC, {"nope": None}), ErrorCode.INVALID_CONFIG),
        (AlterConfigs(TOPIC, {"nope": ListEdit("1")}), ErrorCode.INVALID_CONFIG),
        (AlterConfigs(TOPIC, {"retention.ms": ListEdit("1")}), ErrorCode.INVALID_CONFIG),
        (AlterConfigs(GROUP, {"nope": "1"}), ErrorCode.INVALID_CONFIG),
        (AlterConfigs(GROUP, {"share.auto.offset.reset": "by_duration:-PT1H"}), ErrorCode.INVALID_CONFIG),
        (AlterConfigs(ConfigResource(ResourceType.GROUP, ""), {}), ErrorCode.INVALID_REQUEST),
        (AlterConfigs(ConfigResource(ResourceType.GROUP, "x" * 32_768), {}), ErrorCode.INVALID_REQUEST),
        (AlterConfigs(ConfigResource(ResourceType.BROKER, "x"), {}), ErrorCode.INVALID_REQUEST),
        (AlterConfigs(BROKERS, {"node.id": "3"}), ErrorCode.INVALID_REQUEST),
        (AlterConfigs(BROKERS, {"nope": "3"}), ErrorCode.INVALID_CONFIG),
        (AlterConfigs(BROKERS, {"num.partitions": "x"}), ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_command_is_rejected(catalog: Catalog, command: CatalogCommand, code: ErrorCode) -> None:
    assert catalog.refuses(command).code is code


def test_deletion_can_be_forbidden() -> None:
    catalog = Catalog("delete.topic.enable=false")
    catalog(CreateTopic("a", "T1"))
    assert catalog.refuses(DeleteTopic("a")).code is ErrorCode.TOPIC_DELETION_DISABLED


def test_partitions_are_added(catalog: Catalog) -> None:
    assert catalog(CreatePartitions("orders", 6))[0] == (PartitionsRecord("T1", 6),)
    topic = catalog.machine.catalog.topic("orders")
    assert topic is not None
    assert topic.partitions == 6


def test_fingerprint_covers_name_id_and_partitions() -> None:
    prints = {
        Topic("T1", "a", 1).fingerprint,
        Topic("T2", "a", 1).fingerprint,
        Topic("T1", "b", 1).fingerprint,
        Topic("T1", "a", 2).fingerprint,
    }
    assert len(prints) == 4
    assert Topic("T1", "a", 1, {"retention.ms": "1"}).fingerprint in prints


@pytest.mark.parametrize(
    ("resource", "key", "value"),
    [
        (TOPIC, "retention.ms", "1000"),
        (GROUP, "share.auto.offset.reset", "earliest"),
        (BROKERS, "num.partitions", "3"),
        (ConfigResource(ResourceType.BROKER, "1"), "num.partitions", "4"),
    ],
)
def test_configs_are_set_kept_and_reset(
    catalog: Catalog, resource: ConfigResource, key: str, value: str
) -> None:
    state = catalog.machine.catalog
    record = ConfigRecord(resource, key, value)
    assert catalog(AlterConfigs(resource, {key: value})) == ((record,), {key: value})
    assert state.configs(resource) == {key: value}
    assert catalog(AlterConfigs(resource, {key: value}))[0] == ()
    assert catalog(AlterConfigs(resource, {key: None}))[0] == (ConfigRecord(resource, key, None),)
    assert catalog(AlterConfigs(resource, {key: None}))[0] == ()
    assert state.configs(resource) == {}


def test_lists_are_edited_in_their_current_state(catalog: Catalog) -> None:
    name, state = "leader.replication.throttled.replicas", catalog.machine.catalog
    assert catalog(AlterConfigs(TOPIC, {name: ListEdit("0:1,1:2")}))[1] == {name: "0:1,1:2"}
    assert catalog(AlterConfigs(TOPIC, {name: ListEdit("1:2,2:3")}))[1] == {name: "0:1,1:2,2:3"}
    assert catalog(AlterConfigs(TOPIC, {name: ListEdit("0:1,7:7", subtract=True)}))[1] == {name: "1:2,2:3"}
    assert state.configs(TOPIC) == {name: "1:2,2:3"}
    assert catalog(AlterConfigs(TOPIC, {"cleanup.policy": ListEdit("delete")}))[1] == {
        "cleanup.policy": "delete"
    }


def test_replace_resets_other_configs(catalog: Catalog) -> None:
    catalog(AlterConfigs(TOPIC, {"retention.ms": "5", "segment.ms": "6", "flush.ms": "7"}))
    records, now = catalog(AlterConfigs(TOPIC, {"segment.ms": "6", "flush.ms": "8"}, replaces=True))
    assert now == {"retention.ms": None, "segment.ms": "6", "flush.ms": "8"}
    assert set(records) == {ConfigRecord(TOPIC, "retention.ms", None), ConfigRecord(TOPIC, "flush.ms", "8")}
    assert catalog.machine.catalog.configs(TOPIC) == {"segment.ms": "6", "flush.ms": "8"}


STORAGE = "share.state.storage"


def test_storage_of_share_state_is_set_when_a_topic_is_created() -> None:
    catalog = Catalog("group.share.state.storage=log")
    catalog(CreateTopic("orders", "T1"))
    catalog(CreateTopic("own", "T2", configs={STORAGE: "coordinator"}))
    catalog(AlterConfigs(BROKERS, {"group.share.state.storage": "coordinator"}))
    catalog(CreateTopic("later", "T3"))
    topics = [catalog.machine.catalog.topic(name) for name in ("orders", "own", "later")]
    assert [topic and topic.state_in_log for topic in topics] == [True, False, False]
    assert [topic and topic.configs for topic in topics] == [{STORAGE: "log"}, {STORAGE: "coordinator"}, {}]


@pytest.mark.parametrize(
    ("before", "after"), [("log", "coordinator"), ("log", None), ("coordinator", "log"), (None, "log")]
)
def test_storage_of_share_state_does_not_change(before: str | None, after: str | None) -> None:
    catalog = Catalog()
    catalog(CreateTopic("orders", "T1", configs={} if before is None else {STORAGE: before}))
    refused = catalog.refuses(AlterConfigs(TOPIC, {STORAGE: after}))
    assert refused.code is ErrorCode.INVALID_CONFIG
    assert catalog(AlterConfigs(TOPIC, {STORAGE: before or "coordinator", "segment.ms": "6"}))


def test_replace_keeps_the_storage_of_share_state() -> None:
    catalog = Catalog()
    catalog(CreateTopic("orders", "T1", configs={STORAGE: "log", "segment.ms": "6"}))
    catalog(AlterConfigs(TOPIC, {}, replaces=True))
    assert catalog.machine.catalog.configs(TOPIC) == {STORAGE: "log"}


def test_state_is_not_in_the_log_if_the_persister_stores_none() -> None:
    catalog = Catalog("group.share.persister.class.name=NoOpStatePersister")
    refused = catalog.refuses(CreateTopic("orders", "T1", configs={STORAGE: "log"}))
    assert refused.code is ErrorCode.INVALID_CONFIG


def test_configured_resources_are_listed_by_kind(catalog: Catalog) -> None:
    catalog(AlterConfigs(GROUP, {"share.auto.offset.reset": "earliest"}))
    catalog(AlterConfigs(BROKERS, {"num.partitions": "3"}))
    assert catalog.machine.catalog.configured(ResourceType.GROUP) == ["g"]
    assert catalog.machine.catalog.configured(ResourceType.BROKER) == [""]


def test_group_configs_are_validated_together(catalog: Catalog) -> None:
    catalog(AlterConfigs(BROKERS, {"group.share.max.size": "100"}))
    catalog(AlterConfigs(GROUP, {"share.session.timeout.ms": "45000"}))
    assert catalog.refuses(AlterConfigs(GROUP, {"share.heartbeat.interval.ms": "20000"})).code is (
        ErrorCode.INVALID_CONFIG
    )


def test_stored_texts_have_no_spaces_and_booleans_are_in_lower_case(catalog: Catalog) -> None:
    changes = {"errors.deadletterqueue.topic.name": " dlq.t ", "share.renew.acknowledge.enable": "TRUE"}
    catalog(AlterConfigs(GROUP, changes))
    assert catalog.machine.catalog.configs(GROUP) == {
        "errors.deadletterqueue.topic.name": "dlq.t",
        "share.renew.acknowledge.enable": "true",
    }


def test_configs_are_deleted_with_their_topic(catalog: Catalog) -> None:
    catalog(AlterConfigs(TOPIC, {"retention.ms": "1000"}))
    catalog(DeleteTopic("orders"))
    assert catalog.machine.catalog.configs(TOPIC) == {}
    catalog(CreateTopic("orders", "T2"))
    assert catalog.machine.catalog.configs(TOPIC) == {}


def test_cluster_is_named_once() -> None:
    catalog = Catalog()
    record = ClusterRecord("one", {SHARE: 1})
    assert catalog(NameCluster("one", {SHARE: 1})) == ((record,), record)
    assert catalog(NameCluster("two", {SHARE: 0})) == ((), record)


def test_feature_levels_have_a_new_epoch_with_each_change() -> None:
    catalog = Catalog()
    catalog(NameCluster("one", {SHARE: 1, TRANSACTION: 1}))
    upgrade = UpdateFeatures((FeatureUpdate(TRANSACTION, 2, UpgradeType.UPGRADE),), {})
    record = ClusterRecord("one", {SHARE: 1, TRANSACTION: 2}, 2)
    assert catalog(replace(upgrade, validate_only=True))[0] == ()
    assert catalog(upgrade) == ((record,), record)
    assert catalog(upgrade) == ((), record)
    assert catalog.refuses(UpdateFeatures((FeatureUpdate(SHARE, 0, UpgradeType.UPGRADE),), {})).code is (
        ErrorCode.INVALID_UPDATE_VERSION
    )


def test_a_cluster_of_an_earlier_release_stores_levels_once_one_changes() -> None:
    catalog = Catalog()
    downgrade = UpdateFeatures((FeatureUpdate(SHARE, 0, UpgradeType.SAFE_DOWNGRADE),), {SHARE: 1})
    assert catalog.refuses(downgrade).code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    catalog.machine.apply(ClusterRecord("old", {}, 0), 1)
    record = ClusterRecord("old", {SHARE: 0}, 2)
    assert catalog(downgrade) == ((record,), record)
    assert catalog.machine.catalog.feature_levels == {SHARE: 0}


def test_topics_are_listed_by_name(catalog: Catalog) -> None:
    catalog(CreateTopic("a", "T2"))
    assert [topic.name for topic in catalog.machine.catalog.topics()] == ["a", "orders"]


def test_catalog_has_no_deadlines(catalog: Catalog) -> None:
    assert catalog.machine.next_deadline() is None
    assert catalog.machine.on_deadline(10.0) == ((), None, (), ())


@pytest.mark.parametrize(
    "counts",
    [[], [MAX_PARTITIONS], [MAX_PARTITIONS - 6, -1, 0], [1] * MAX_PARTITIONS, [MAX_PARTITIONS + 1, 1]],
)
def test_a_request_may_create_as_many_partitions_as_one_topic_has(counts: list[int]) -> None:
    check_request(counts, 3)


@pytest.mark.parametrize(
    "counts", [[MAX_PARTITIONS, 1], [MAX_PARTITIONS - 5, -1, 0], [1] * (MAX_PARTITIONS + 1)]
)
def test_a_request_with_too_many_partitions_is_rejected(counts: list[int]) -> None:
    with pytest.raises(KafkaError) as caught:
        check_request(counts, 3)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
