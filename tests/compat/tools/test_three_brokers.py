"""The tools at three brokers: each lists all, leads its share, and accepts requests for the controller."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient

from tests.compat.tools.conftest import Tools
from tests.support.client import TIMEOUT, unique
from tests.testkit.brokers import three_brokers
from tests.testkit.waiting import until


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, Tools]]:
    """Provides the tools at each broker by its id, once every broker lists all others."""
    with three_brokers() as cluster:
        found = {str(node): Tools(serve.kafka) for node, serve in enumerate(cluster.processes, 1)}
        for tools in found.values():
            client = AdminClient({"bootstrap.servers": tools.address})
            until(partial(knows_all, client, len(found)))
        yield found


def knows_all(client: AdminClient, count: int) -> bool:
    return len(client.list_topics(timeout=TIMEOUT).brokers) == count


def test_partitions_and_records_spread_over_the_brokers(brokers: dict[str, Tools]) -> None:
    first, second, third = brokers.values()
    topic, group = unique("topic"), unique("group")
    first("kafka-topics", "--create", "--topic", topic, "--partitions", "12", "--replication-factor", "3")
    described = second("kafka-topics", "--describe", "--topic", topic).out
    assert set(re.findall(r"Leader: (\d+)", described)) == brokers.keys()
    of_group = ("--entity-type", "groups", "--entity-name", group)
    third("kafka-configs", "--alter", *of_group, "--add-config", "share.auto.offset.reset=earliest")
    sent = "".join(f"key {number}:{number}\n" for number in range(100))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    second("kafka-console-producer", "--topic", topic, *keyed, stdin=sent)
    counted = third("kafka-get-offsets", "--topic", topic).lines
    assert sum(int(line.rpartition(":")[2]) for line in counted) == 100
    read = first("kafka-console-share-consumer", "--topic", topic, "--group", group, "--max-messages", "100")
    assert sorted(read.lines, key=int) == [str(number) for number in range(100)]
    offsets = second("kafka-share-groups", "--describe", "--group", group).lines[1:]
    assert [line.split()[-1] for line in offsets] == ["0"] * 12
    sizes = json.loads(third("kafka-log-dirs", "--describe", "--topic-list", topic).lines[-1])
    assert {str(one["broker"]) for one in sizes["brokers"]} == brokers.keys()
    led = [part["partition"] for one in sizes["brokers"] for part in one["logDirs"][0]["partitions"]]
    assert sorted(led) == sorted(f"{topic}-{index}" for index in range(12))


def test_each_broker_has_its_own_config(brokers: dict[str, Tools]) -> None:
    (node, tools), *_ = brokers.items()
    entity = ("--entity-type", "brokers", "--entity-name", node)
    tools("kafka-configs", "--alter", *entity, "--add-config", "num.partitions=7")
    shown = tools("kafka-configs", "--describe", "--entity-type", "brokers").out
    _, *parts = re.split(r"Dynamic configs for broker (\d+) are:", shown)
    set_on = dict(zip(parts[::2], parts[1::2], strict=True))
    assert set_on.keys() == brokers.keys()
    assert [broker for broker, text in set_on.items() if "num.partitions=7 " in text] == [node]
    tools("kafka-configs", "--alter", *entity, "--delete-config", "num.partitions")
