"""Groups on a running server: those that a circuit breaker pauses, and consumer groups of Kafka clients."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from tests.integration.client.cli.commands.commands import create_group, taken
from tests.integration.client.cli.commands.conftest import Command
from tests.testkit.brokers import Cluster
from tests.testkit.waiting import until


def test_a_group_whose_records_fail_is_paused_until_it_is_resumed(
    server: str, sharebroker: Command, topic: str, group: str
) -> None:
    create_group(server, topic, group)
    limits = ("--set", "share.breaker.failed.percent=50", "--set", "share.breaker.min.records=5")
    assert sharebroker("groups", "config", group, *limits).code == 0
    assert sharebroker("produce", topic, stdin=b"record\n" * 1000).code == 0

    def paused() -> str:
        """Rejects more records, and returns why the group is paused."""
        consume("--reject")
        described = sharebroker("groups", "describe", group, "--json").data
        return str(described.get("paused", ""))

    def consume(response: str) -> str:
        """Returns up to five records, one a line."""
        options = ("--max", "5", "--timeout", "0.5", "--json", response)
        return sharebroker("consume", topic, "-g", group, *options).out

    until(paused)
    assert paused().endswith("records failed within 60 s; share.breaker.failed.percent is 50.")
    assert consume("--accept") == ""
    assert sharebroker("groups", "resume", group).err == f"Resumed group {group}.\n"
    assert "paused" not in sharebroker("groups", "describe", group, "--json").data
    taken(sharebroker, topic, group, 8, "--accept")


def test_a_consumer_group_is_listed_and_described_with_its_offsets(
    cluster: Cluster, sharebroker: Command, topic: str, group: str
) -> None:
    assert sharebroker("produce", topic, "--partition", "1", stdin=b"record\n" * 5).code == 0
    settings = {"bootstrap.servers": cluster.kafka, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer(settings | {"client.id": "ledger", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.5) is not None)
        consumer.commit(offsets=[TopicPartition(topic, 1, 3)], asynchronous=False)
        described = sharebroker("groups", "describe", group, "--json").data
        (listed,) = (row for row in sharebroker("groups", "list", "--json").data if row["group"] == group)
    finally:
        consumer.close()
    assert (listed["type"], listed["state"], listed["members"], listed["lag"]) == ("consumer", "Stable", 1, 2)
    facts = [described[name] for name in ("type", "state", "topics", "lag")]
    assert facts == ["consumer", "Stable", [topic], 2]
    shown = sharebroker("groups", "describe", group)
    assert (shown.code, "consumer" in shown.out) == (0, True)
