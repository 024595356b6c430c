"""The format in a real Spark against a real server: tables, streams, writing, refusals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from libs.testkit.brokers import one_process
from sharebroker.gateway.v1 import produce_pb2 as produce
from sharebroker.gateway.v1 import share_pb2 as share
from tests.spark.environment import START_SECONDS, Program, needs_spark, running
from tests.support.client import TIMEOUT, Client, connected

PARTITIONS, RECORDS = 3, 400
pytestmark = [
    needs_spark,
    pytest.mark.slow,
    pytest.mark.timeout(3 * START_SECONDS),
    pytest.mark.xdist_group("spark tour"),
]


class Tour:
    """What the program said, and what the server knows afterwards."""

    def __init__(self, program: Program, finished: list[set[int]], target: list[str]) -> None:
        self.program = program
        self.finished = finished
        self.target = target


async def prepare(client: Client) -> tuple[str, str, str, str, str]:
    topic, topic_id = await client.create(PARTITIONS)
    target, _ = await client.create(2)
    empty, _ = await client.create(2)
    for partition in range(PARTITIONS):
        records = [
            produce.PublishRecord(
                text=f"value {number}",
                partition=partition,
                key=b"key",
                headers=[share.RecordHeader(key="from", value=b"test")] if number == 7 else [],
            )
            for number in range(RECORDS)
        ]
        await client.produce.Publish(produce.PublishRequest(topic=topic, records=records), timeout=TIMEOUT)
    return topic, topic_id, target, empty, await client.group()


async def take_tour(folder: Path) -> Tour:
    with one_process() as cluster:
        async with connected(cluster.address) as client:
            topic, topic_id, target, empty, group = await prepare(client)
            arguments = (cluster.address, topic, group, target, empty, str(folder))
            with running("tour", folder / "tour", *arguments) as program:
                await asyncio.to_thread(program.says, "done")
                await asyncio.to_thread(program.ends)
            finished = [await client.finished(group, topic_id, index) for index in range(PARTITIONS)]
            written = await client.acquire_all(await client.group(), target, 50, "reader")
            return Tour(program, finished, sorted(record.text for record in written))


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    return asyncio.run(take_tour(tmp_path_factory.mktemp("spark")))


def test_the_columns(tour: Tour) -> None:
    assert tour.program.value("columns") == [
        "key binary",
        "value binary",
        "topic string",
        "partition int",
        "offset bigint",
        "timestamp timestamp",
        "headers array<struct<key:string,value:binary>>",
        "delivery_count int",
        "lock_deadline timestamp",
    ]


EVERYTHING = [[p, offset, f"value {offset}"] for p in range(PARTITIONS) for offset in range(RECORDS)]


def test_a_table_takes_nothing_and_has_as_many_tasks_as_asked(tour: Tour) -> None:
    assert tour.program.value("table") == EVERYTHING
    assert tour.program.value("tasks") == 3
    assert tour.program.value("unacquired")


def test_a_stream_gets_every_record_once_in_batches(tour: Tour) -> None:
    batches = tour.program.value("batches")
    assert [len(batch["records"]) for batch in batches] == [500, 500, 200]
    assert sorted(record for batch in batches for record in batch["records"]) == EVERYTHING
    assert [batch["again"] for batch in batches] == [500, 500, 200]


def test_rows_tell_of_their_delivery(tour: Tour) -> None:
    for batch in tour.program.value("batches"):
        assert (batch["counts"], batch["locked"], batch["keys"]) == ([1], True, ["key"])
    assert ["from", "test"] in tour.program.value("batches")[0]["headers"]


def test_the_last_batch_is_committed_too(tour: Tour) -> None:
    assert tour.finished == [set(range(RECORDS))] * PARTITIONS
    assert tour.program.value("idle") == 0


def test_rows_are_published(tour: Tour) -> None:
    assert tour.program.value("written") == 50
    assert tour.target == sorted(f"out {number}" for number in range(50))


def test_a_topic_without_records_is_an_empty_table(tour: Tour) -> None:
    assert tour.program.value("empty") == 0


def test_what_cannot_be_is_refused_by_name(tour: Tour) -> None:
    number, address, column = tour.program.value("refusals")
    assert "option maxRecordsPerTrigger is 0; 1 to 1000000 is allowed" in number
    assert "option bootstrap" in address
    assert "column value is missing" in column
