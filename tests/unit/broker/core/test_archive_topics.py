"""The topics and settings that an import creates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.archive_selection import Selection
from sharebroker_server.broker.core.archive_topics import Choices, PlannedTopics, TargetCluster, plan_topics
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.records import ConfigRecord, TopicDeletedRecord, TopicRecord
from sharebroker_server.catalog.topics import Topic
from tests.unit.broker.core.archives import BILLS, CONFIG, GROUP, ORDERS, SETTING, TOPICS, catalog

ARCHIVE = "an archive"
EMPTY = Choices()


def planned(there: TopicCatalog, choices: Choices = EMPTY) -> PlannedTopics:
    return plan_topics(ARCHIVE, [*TOPICS, SETTING], choices, TargetCluster(there, CONFIG, 5.0))  # type: ignore[list-item]


def test_topics_keep_ids_settings_and_times_in_an_empty_cluster() -> None:
    there = catalog()
    plan = planned(there)
    assert plan.records == [*TOPICS, SETTING]
    assert plan.topics == {topic.topic_id: topic for topic in (ORDERS, BILLS)}
    assert [topic.name for topic in there.topics()] == ["bills", "orders"]


def test_an_existing_topic_is_rejected_with_remedies() -> None:
    with pytest.raises(
        ArchiveError, match=r"'orders' already exists\. Use --rename orders=NEW, --skip-existing"
    ):
        planned(catalog(TopicRecord(ORDERS)))


def test_an_existing_topic_is_left_out_on_request() -> None:
    plan = planned(catalog(TopicRecord(ORDERS)), Choices(skip_existing=True))
    assert (plan.skipped, list(plan.topics)) == (["orders"], [BILLS.topic_id])


def test_a_topic_with_another_name_gets_another_id_beside_the_original() -> None:
    choices = Choices(Selection(["orders"]), {"orders": "old"})
    plan = planned(catalog(TopicRecord(ORDERS)), choices)
    created = plan.topics[ORDERS.topic_id]
    assert (created.name, created.partitions, created.configs) == ("old", 2, ORDERS.configs)
    assert created.topic_id != ORDERS.topic_id
    assert planned(catalog(TopicRecord(ORDERS)), choices) == plan, "a repeated import has the same id"


def test_the_id_of_a_deleted_topic_is_not_used_again() -> None:
    plan = planned(catalog(TopicDeletedRecord(ORDERS.topic_id)))
    assert plan.topics[ORDERS.topic_id].topic_id != ORDERS.topic_id
    assert plan.topics[BILLS.topic_id] == BILLS


def test_settings_of_a_group_that_has_some_remain() -> None:
    there = ConfigRecord(GROUP, "share.record.lock.duration.ms", "15000")
    assert planned(catalog(there)).records == TOPICS


@pytest.mark.parametrize(
    ("changed", "choices", "text"),
    [
        (replace(BILLS, configs={"retention.ms": "x"}), EMPTY, "retention.ms"),
        (
            replace(BILLS, configs={"share.state.storage": "log"}),
            EMPTY,
            "bills: with share.state",
        ),
        (replace(BILLS, partitions=20_000), EMPTY, "1 to 10000 partitions"),
        (replace(BILLS, name="orders"), EMPTY, "already exists"),
        (BILLS, Choices(renamed={"none": "x"}), "The archive has no topic 'none'"),
        (BILLS, Choices(renamed={"bills": "a b"}), "Topic name is invalid"),
    ],
)
def test_invalid_topics_and_options_are_rejected(changed: Topic, choices: Choices, text: str) -> None:
    records = [TopicRecord(ORDERS), TopicRecord(changed)]
    with pytest.raises(ArchiveError, match=text):
        plan_topics(ARCHIVE, records, choices, TargetCluster(catalog(), CONFIG, 5.0))


def test_an_invalid_setting_of_a_group_is_rejected() -> None:
    wrong = ConfigRecord(GROUP, "share.delivery.count.limit", "0")
    with pytest.raises(ArchiveError, match="The settings of group g are invalid here"):
        plan_topics(ARCHIVE, [wrong], EMPTY, TargetCluster(catalog(), CONFIG, 5.0))
