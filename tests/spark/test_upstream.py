"""The source in a real Spark over a topic of a real Kafka."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest

from tests.spark.environment import START_SECONDS, needs_spark
from tests.spark.transfers import PARTITIONS, RECORDS, Transfer
from tests.support.client import connected
from tests.support.kafka_server import running_kafka
from tests.support.kafka_tools import needs_kafka
from tests.support.kafka_topics import SECONDS, create_topic
from tests.testkit.brokers import one_process


@needs_kafka
@needs_spark
@pytest.mark.slow
@pytest.mark.timeout(3 * START_SECONDS)
async def test_every_record_of_a_topic_in_kafka_is_accepted_once(tmp_path: Path) -> None:
    with running_kafka(tmp_path / "kafka") as kafka:
        topic = create_topic(kafka, PARTITIONS)
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 50})
        for partition in range(PARTITIONS):
            for number in range(RECORDS):
                producer.produce(topic, str(number), partition=partition)
        assert not producer.flush(SECONDS)
        with one_process("--log", f"kafka://{kafka.bootstrap}") as cluster:
            async with connected(cluster.address) as client:
                topic_id, group = await client.known(topic), await client.group()
                transfer = Transfer(cluster.processes[0], client, tmp_path, topic, topic_id, group)
                with transfer.run() as program:
                    await transfer.ends(program)
