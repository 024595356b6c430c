"""A catalog whose topics are in another cluster: what it follows, and what clients cannot change here."""

from __future__ import annotations

from uuid import NAMESPACE_DNS, uuid4, uuid5

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.machine import (
    AlterConfigs,
    CatalogCommand,
    CatalogMachine,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    NameCluster,
)
from sharebroker_server.catalog.records import (
    CatalogCodec,
    CatalogRecord,
    ClusterRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic, topic_id_text
from sharebroker_server.catalog.upstream_rules import (
    FollowCluster,
    FollowTopic,
    ForgetTopic,
    check_same_log,
    is_own_id,
)
from sharebroker_server.config.broker import BrokerConfig
from tests.testkit.tables import each

HERE = "b1:9092,b2:9092"
ONE, TWO = (topic_id_text(uuid5(NAMESPACE_DNS, name).bytes) for name in ("one", "two"))


class Catalog:
    """A catalog machine that applies the records of its commands."""

    def __init__(self, *settings: str) -> None:
        self.machine = CatalogMachine(BrokerConfig.parse(settings))
        self.state = self.machine.catalog
        self.position = 0
        self(NameCluster("c"))

    def __call__(self, command: CatalogCommand) -> tuple[CatalogRecord, ...]:
        records = self.machine.decide(command, 1.5).records
        for record in records:
            self.position += 1
            self.machine.apply(CatalogCodec().decode(CatalogCodec().encode(record)), self.position)
        return tuple(records)

    def refuses(self, command: CatalogCommand) -> KafkaError:
        with pytest.raises(KafkaError) as failure:
            self(command)
        return failure.value


@pytest.fixture
def catalog() -> Catalog:
    made = Catalog()
    made(FollowCluster(HERE, "kafka-1"))
    return made


def topic(topic_id: str = ONE, partitions: int = 3) -> Topic:
    return Topic(topic_id, "orders", partitions, created_ms=1500, upstream=True)


def test_the_cluster_is_stored_and_stays() -> None:
    catalog = Catalog()
    assert catalog(FollowCluster(HERE)) == (ClusterRecord("c", upstream_addresses=HERE),)
    named = ClusterRecord("c", upstream_addresses=HERE, upstream_cluster_id="kafka-1")
    assert catalog(FollowCluster(HERE, "kafka-1")) == (named,)
    assert catalog(FollowCluster(HERE, "kafka-1")) == ()
    assert catalog(FollowCluster(HERE)) == ()  # unreachable now
    assert catalog(FollowCluster("b3:9092", "kafka-1"))[0] == ClusterRecord(
        "c", upstream_addresses="b3:9092", upstream_cluster_id="kafka-1"
    )
    assert catalog.refuses(FollowCluster(HERE, "kafka-2")).code == ErrorCode.POLICY_VIOLATION
    assert catalog.state.upstream_cluster_id == "kafka-1"


def test_addresses_without_a_response_do_not_bind() -> None:
    catalog = Catalog()
    catalog(FollowCluster("misspelt:9092"))
    check_same_log(catalog.state, "")
    check_same_log(catalog.state, HERE, "kafka-1")
    assert catalog.refuses(CreateTopic("own", ONE, 1)).code == ErrorCode.POLICY_VIOLATION
    assert catalog(NameCluster("d", upstream_addresses=HERE)) == ()
    assert catalog(NameCluster("d")) == (ClusterRecord("c"),)
    catalog(CreateTopic("own", ONE, 1))


def test_addresses_without_a_response_keep_the_stored_ones(catalog: Catalog) -> None:
    assert catalog(FollowCluster("misspelt:9092")) == ()
    assert catalog.state.upstream_addresses == HERE
    assert catalog.refuses(NameCluster("d")).code == ErrorCode.POLICY_VIOLATION


def test_topics_bind_to_a_cluster_without_id() -> None:
    catalog = Catalog()
    catalog(FollowCluster(HERE))
    catalog(FollowTopic("orders", ONE, 3))
    assert catalog.refuses(NameCluster("d")).code == ErrorCode.POLICY_VIOLATION
    assert catalog(FollowCluster("b3:9092")) == (ClusterRecord("c", upstream_addresses="b3:9092"),)


def test_a_cluster_without_id_follows_later() -> None:
    catalog = CatalogMachine(BrokerConfig.parse(()))
    with pytest.raises(KafkaError) as failure:
        catalog.decide(FollowCluster(HERE), 0.0)
    assert failure.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@each(
    "addresses, cluster_id, reason",
    [
        (HERE, "", None),
        (HERE, "kafka-1", None),
        ("b3:9092", "kafka-1", None),
        ("", "", f"This data belongs to topics of the Kafka cluster at {HERE}; use --log kafka://{HERE}."),
        (
            "b3:9092",
            "kafka-2",
            f"This data belongs to topics of the Kafka cluster kafka-1 (at {HERE}), and b3:9092 is the "
            "cluster kafka-2; correct --log, or use an empty data folder.",
        ),
    ],
)
def test_stored_data_belongs_to_one_cluster(
    catalog: Catalog, addresses: str, cluster_id: str, reason: str | None
) -> None:
    if reason is None:
        check_same_log(catalog.state, addresses, cluster_id)
        return
    with pytest.raises(KafkaError) as failure:
        check_same_log(catalog.state, addresses, cluster_id)
    assert (failure.value.code, failure.value.message) == (ErrorCode.POLICY_VIOLATION, reason)


def test_data_with_records_of_its_own_gets_no_other_log() -> None:
    catalog = Catalog()
    check_same_log(catalog.state, HERE)
    catalog(CreateTopic("own", ONE, 1))
    check_same_log(catalog.state, "")
    with pytest.raises(KafkaError, match="This data has 1 topics with records of its own"):
        check_same_log(catalog.state, HERE)
    assert catalog.refuses(FollowCluster(HERE)).code == ErrorCode.POLICY_VIOLATION


def test_topics_are_followed(catalog: Catalog) -> None:
    assert catalog(FollowTopic("orders", ONE, 3)) == (TopicRecord(topic()),)
    assert catalog(FollowTopic("orders", ONE, 3)) == ()
    assert catalog(FollowTopic("orders", ONE, 5)) == (PartitionsRecord(ONE, 5),)
    assert catalog(FollowTopic("orders", ONE, 4)) == ()  # an older response
    recreated = (TopicDeletedRecord(ONE, 5), TopicRecord(topic(TWO, 1)))
    assert catalog(FollowTopic("orders", TWO, 1)) == recreated
    assert catalog.refuses(FollowTopic("orders", ONE, 5)).code == ErrorCode.UNKNOWN_TOPIC_ID
    assert catalog.state.topic("orders") == topic(TWO, 1)
    assert catalog(ForgetTopic(TWO)) == (TopicDeletedRecord(TWO, 1),)
    assert catalog.refuses(ForgetTopic(TWO)).code == ErrorCode.UNKNOWN_TOPIC_ID
    assert catalog.state.partitions == 0


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__share_group_state", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("or.ders", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("dlq.own", ErrorCode.POLICY_VIOLATION),
    ],
)
def test_a_topic_that_cannot_be_followed_is_named(catalog: Catalog, name: str, code: ErrorCode) -> None:
    catalog(FollowTopic("or_ders", ONE, 1))
    catalog(CreateTopic("dlq.own", TWO, 1))
    assert catalog.refuses(FollowTopic(name, topic_id_text(uuid4().bytes), 1)).code == code


def test_topics_beyond_the_limit_are_not_followed() -> None:
    catalog = Catalog("cluster.max.partitions=4")
    catalog(FollowCluster(HERE))
    catalog(FollowTopic("orders", ONE, 3))
    for partitions, topic_id, name in ((5, ONE, "orders"), (2, TWO, "others"), (5, TWO, "orders")):
        refused = catalog.refuses(FollowTopic(name, topic_id, partitions))
        assert (refused.code, "cluster.max.partitions=4" in refused.message) == (
            ErrorCode.POLICY_VIOLATION,
            True,
        )
    catalog(FollowTopic("orders", TWO, 4))


def test_data_with_its_own_records_follows_no_topic() -> None:
    assert Catalog().refuses(FollowTopic("orders", ONE, 1)).code == ErrorCode.POLICY_VIOLATION


def test_clients_create_dead_letter_topics_only(catalog: Catalog) -> None:
    refused = catalog.refuses(CreateTopic("orders", ONE, 1))
    assert refused.code == ErrorCode.POLICY_VIOLATION
    assert refused.message == (
        f"Create topic 'orders' in the Kafka cluster at {HERE}. Here are dead letter topics only; their "
        "names start with 'dlq.'."
    )
    (created,) = catalog(CreateTopic("dlq.orders", ONE, 1))
    assert isinstance(created, TopicRecord)
    assert not created.topic.upstream
    catalog(CreatePartitions("dlq.orders", 2))
    assert catalog.refuses(ForgetTopic(ONE)).code == ErrorCode.UNKNOWN_TOPIC_ID
    catalog(DeleteTopic("dlq.orders"))


@each(
    "command",
    [
        DeleteTopic("orders"),
        DeleteTopic(topic_id=ONE),
        CreatePartitions("orders", 9),
        AlterConfigs(ConfigResource(ResourceType.TOPIC, "orders"), {"retention.ms": "1"}),
    ],
)
def test_a_topic_of_another_cluster_is_changed_there(catalog: Catalog, command: CatalogCommand) -> None:
    catalog(FollowTopic("orders", ONE, 3))
    refused = catalog.refuses(command)
    assert refused.code == ErrorCode.POLICY_VIOLATION
    assert f"Topic 'orders' is in the Kafka cluster at {HERE}" in refused.message
    assert catalog.state.topic("orders") == topic()


def test_ids_of_kafka_and_derived_ids_differ() -> None:
    assert is_own_id(ONE)
    assert not is_own_id(topic_id_text(uuid4().bytes))
    assert not is_own_id("")


def test_share_state_is_not_in_the_logs_of_another_cluster(catalog: Catalog) -> None:
    brokers = ConfigResource(ResourceType.BROKER, "")
    refused = catalog.refuses(AlterConfigs(brokers, {"group.share.state.storage": "log"}))
    assert refused.code is ErrorCode.INVALID_CONFIG
    assert "with --log use coordinator" in refused.message
    assert catalog(AlterConfigs(brokers, {"num.partitions": "3"}))
