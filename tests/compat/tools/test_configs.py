"""kafka-configs for topics, groups and brokers."""

from __future__ import annotations

import pytest

from tests.compat.tools.conftest import Tools
from tests.support.client import unique

OF_ALL = ("--entity-type", "brokers", "--entity-default")


def set_on(tools: Tools, *entity: str) -> dict[str, str]:
    """Returns the configs that kafka-configs lists for an entity, with the source of each value."""
    head, *lines = tools("kafka-configs", "--describe", *entity).lines
    assert head.endswith("are:")
    return dict(line.strip().split(" sensitive=false synonyms=") for line in lines)


def alter(tools: Tools, *arguments: str) -> list[str]:
    return tools("kafka-configs", "--alter", *arguments).lines


def test_topic_configs_are_set_and_deleted(tools: Tools) -> None:
    topic = tools.topic()
    entity = ("--entity-type", "topics", "--entity-name", topic)
    done = alter(tools, *entity, "--add-config", "max.message.bytes=20000,retention.bytes=7")
    assert done == [f"Completed updating config for topic {topic}."]
    own, default = "DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"
    assert set_on(tools, *entity) == {
        "max.message.bytes=20000": f"{{{own}:max.message.bytes=20000, {default}:message.max.bytes=1048588}}",
        "retention.bytes=7": f"{{{own}:retention.bytes=7, {default}:log.retention.bytes=-1}}",
    }
    alter(tools, *entity, "--delete-config", "retention.bytes", "--add-config", "cleanup.policy=[delete]")
    everything = set_on(tools, *entity, "--all")
    assert {"cleanup.policy=delete", "retention.bytes=-1", "segment.bytes=1073741824"} <= everything.keys()
    rejected = tools.attempt("kafka-configs", "--alter", *entity, "--add-config", "nonsense=1")
    assert rejected.code == 1
    assert "InvalidConfigurationException: Unknown topic config name: nonsense\n" in rejected.err


def test_group_configs_are_set_and_deleted(tools: Tools) -> None:
    group = unique("group")
    entity = ("--entity-type", "groups", "--entity-name", group)
    done = alter(tools, *entity, "--add-config", "share.auto.offset.reset=earliest")
    assert done == [f"Completed updating config for group {group}."]
    assert set_on(tools, *entity) == {
        "share.auto.offset.reset=earliest": "{DYNAMIC_GROUP_CONFIG:share.auto.offset.reset=earliest, "
        "DEFAULT_CONFIG:share.auto.offset.reset=latest}"
    }
    assert (
        f"Dynamic configs for group {group} are:"
        in tools("kafka-configs", "--describe", "--entity-type", "groups").lines
    )
    everything = set_on(tools, *entity, "--all")
    assert everything["share.record.lock.duration.ms=30000"] == (
        "{DEFAULT_CONFIG:group.share.record.lock.duration.ms=30000}"
    )
    rejected = tools.attempt(
        "kafka-configs", "--alter", *entity, "--add-config", "share.record.lock.duration.ms=1"
    )
    assert rejected.code == 1
    assert "InvalidConfigurationException" in rejected.err
    alter(tools, *entity, "--delete-config", "share.auto.offset.reset")
    nothing = f"The group '{group}' doesn't exist and doesn't have dynamic config."
    assert tools("kafka-configs", "--describe", *entity).lines == [nothing]


@pytest.fixture
def node(tools: Tools) -> str:
    head, *_ = tools("kafka-broker-api-versions").lines
    return head.split("(id: ")[1].split(" ")[0]


def test_broker_configs_are_set_for_one_and_for_all(tools: Tools, node: str) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", node)
    done = alter(tools, *entity, "--add-config", "message.max.bytes=2000000")
    assert done == [f"Completed updating config for broker {node}."]
    done = alter(tools, *OF_ALL, "--add-config", "message.max.bytes=1500000")
    assert done == ["Completed updating default config for brokers in the cluster."]
    heads: list[str] = []
    values: list[str] = []
    for line in tools("kafka-configs", "--describe", "--entity-type", "brokers").lines:
        (values if line.startswith("  ") else heads).append(line)
    assert heads == [
        f"Dynamic configs for broker {node} are:",
        "Default configs for brokers in the cluster are:",
    ]
    own = "DYNAMIC_BROKER_CONFIG:message.max.bytes=2000000"
    everyones = "DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=1500000"
    assert [line.split(" synonyms=")[1] for line in values] == [
        f"{{{own}, {everyones}, DEFAULT_CONFIG:message.max.bytes=1048588}}",
        f"{{{everyones}}}",
    ]
    for one in (entity, OF_ALL):
        alter(tools, *one, "--delete-config", "message.max.bytes")
    assert f"node.id={node}" in set_on(tools, *entity, "--all")
    assert set_on(tools, *entity) == {}
