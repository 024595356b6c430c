"""The settings of dead letters come from configs; a missing topic is created by the owner of the catalog."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.records import CatalogRecord, ConfigRecord, TopicRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import GroupConfig
from sharebroker_server.share_partition_leader.dead_letters.catalog_settings import (
    CREATED_WITH,
    CatalogGroups,
    CatalogLetterSettings,
)
from sharebroker_server.share_partition_leader.dead_letters.target import (
    DeadLetterTarget,
    DeadLetterTopic,
    FailurePolicy,
)
from tests.unit.gateway.fakes import catalog

PREFIX = "errors.deadletterqueue."
GROUP = ConfigResource(ResourceType.GROUP, "g")


class Owner:
    """The router and the owner of the catalog in one: returns one result for each topic."""

    def __init__(self) -> None:
        self.cache = catalog(())
        self.code = ErrorCode.NONE
        self.failure: KafkaError | None = None
        self.forgotten = 0
        self.settings = CatalogLetterSettings(self.cache, self)  # type: ignore[arg-type]  # a part of the router

    async def catalog(self) -> Any:
        return self

    def forget_catalog(self) -> None:
        self.forgotten += 1

    async def CreateTopics(self, request: pb.CreateTopicsRequest, timeout: float) -> pb.CreateTopicsResponse:
        if self.failure is not None:
            raise self.failure
        (topic,) = request.topics
        if not self.code:
            self.apply(TopicRecord(Topic("D" * 22, topic.name, 1, dict(topic.configs))))
        result = pb.CreateTopicsResponse.Topic(name=topic.name, error_code=int(self.code))  # type: ignore[arg-type]  # the number
        return pb.CreateTopicsResponse(topics=[result])

    async def IncrementalAlterConfigs(
        self, request: pb.IncrementalAlterConfigsRequest, timeout: float
    ) -> pb.IncrementalAlterConfigsResponse:
        if self.failure is not None:
            raise self.failure
        (resource,) = request.resources
        group = ConfigResource(ResourceType.GROUP, resource.resource_name)
        if not self.code:
            self.apply(*(ConfigRecord(group, config.name, config.value) for config in resource.configs))
        result = pb.IncrementalAlterConfigsResponse.Resource(error_code=int(self.code))  # type: ignore[arg-type]  # the number
        return pb.IncrementalAlterConfigsResponse(responses=[result])

    def apply(self, *records: CatalogRecord) -> None:
        for record in records:
            self.cache.catalog.apply(record, self.cache.catalog.position + 1)


@pytest.fixture
async def owner() -> Owner:
    return Owner()


async def test_the_configs_of_a_group_are_its_target(owner: Owner) -> None:
    assert owner.settings.target("g") == DeadLetterTarget("", False, FailurePolicy.HOLD)
    owner.apply(
        ConfigRecord(GROUP, PREFIX + "topic.name", "dlq.t"),
        ConfigRecord(GROUP, PREFIX + "copy.record.enable", "true"),
        ConfigRecord(GROUP, PREFIX + "failure.policy", "archive"),
    )
    assert owner.settings.target("g") == DeadLetterTarget("dlq.t", True, FailurePolicy.ARCHIVE)
    assert owner.settings.target("another").topic == ""


async def test_the_broker_has_the_other_settings(owner: Owner) -> None:
    assert (owner.settings.auto_create, owner.settings.prefix) == (False, "dlq.")
    owner.cache.broker = BrokerConfig(
        errors_deadletterqueue_auto_create_topics_enable=True,
        errors_deadletterqueue_topic_name_prefix="",
        group_share_dead_letter_copy_default=True,
    )
    assert (owner.settings.auto_create, owner.settings.prefix) == (True, "")
    assert owner.settings.target("g").copy


async def test_topics_are_enabled_by_their_config(owner: Owner) -> None:
    assert owner.settings.topic("t") is None
    owner.apply(TopicRecord(Topic("T", "t", 3, {"max.message.bytes": "5000"})))
    assert owner.settings.topic("t") == DeadLetterTopic("T", 3, False, 5000)


@pytest.mark.parametrize(
    ("broker", "retention"),
    [
        (BrokerConfig(), {"retention.ms": "1209600000"}),
        (BrokerConfig(log_retention_ms=60_000), {}),
        (BrokerConfig(log_retention_ms=-1), {}),
    ],
)
async def test_a_created_topic_is_enabled(
    owner: Owner, broker: BrokerConfig, retention: dict[str, str]
) -> None:
    owner.cache.broker = broker
    await owner.settings.create("dlq.t")
    created = owner.settings.topic("dlq.t")
    assert created is not None
    assert created.enabled
    topic = owner.cache.topic("dlq.t")
    assert topic is not None
    assert topic.configs == {**CREATED_WITH, **retention}


async def test_errors_of_a_creation_are_raised(owner: Owner) -> None:
    owner.code = ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(KafkaError) as refused:
        await owner.settings.create("dlq.a b")
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not owner.forgotten


@pytest.mark.parametrize(
    ("code", "forgotten"), [(ErrorCode.NOT_COORDINATOR, 1), (ErrorCode.REQUEST_TIMED_OUT, 0)]
)
async def test_an_owner_that_moved_is_found_again(owner: Owner, code: ErrorCode, forgotten: int) -> None:
    owner.failure = KafkaError(code)
    with pytest.raises(KafkaError):
        await owner.settings.create("dlq.t")
    assert owner.forgotten == forgotten


async def test_a_group_is_paused_by_its_configs(owner: Owner) -> None:
    groups = CatalogGroups(owner.cache, owner)  # type: ignore[arg-type]  # a part of the router
    owner.apply(ConfigRecord(ConfigResource(ResourceType.GROUP, "resumed"), "share.paused", "false"))
    assert not list(groups.paused())
    await groups.pause("g", "too many failures")
    assert list(groups.paused()) == ["g"]
    assert owner.cache.group_config("g").share_pause_reason == "too many failures"


async def test_only_groups_with_a_limit_are_read_for_the_circuit_breaker(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"limited": "20", "unlimited": "0", "reset": None}
    for group, limit in limits.items():
        resource = ConfigResource(ResourceType.GROUP, group)
        owner.apply(ConfigRecord(resource, "share.breaker.failed.percent", "10"))
        owner.apply(ConfigRecord(resource, "share.breaker.failed.percent", limit))
    for number in range(100):
        other = ConfigResource(ResourceType.GROUP, f"other{number}")
        owner.apply(ConfigRecord(other, "share.isolation.level", "read_committed"))
    read, resolve = set[str](), owner.cache.group_config

    def group_config(group: str) -> GroupConfig:
        read.add(group)
        return resolve(group)

    monkeypatch.setattr(owner.cache, "group_config", group_config)
    groups = CatalogGroups(owner.cache, owner)  # type: ignore[arg-type]  # a part of the router
    ((group, config),) = groups.limited()
    assert (group, config.share_breaker_failed_percent) == ("limited", 20)
    assert read == {"limited", "unlimited"}


async def test_errors_of_a_pause_are_raised(owner: Owner) -> None:
    groups = CatalogGroups(owner.cache, owner)  # type: ignore[arg-type]  # a part of the router
    owner.code = ErrorCode.INVALID_CONFIG
    with pytest.raises(KafkaError) as refused:
        await groups.pause("g", "")
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    owner.failure = KafkaError(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(KafkaError):
        await groups.pause("g", "")
    assert owner.forgotten == 1
