"""The supervisor's view of topic and group; flights are published exactly once across restarts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sharebroker.aio.admin import Admin
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.records.partitioner import partition_of
from sharebroker_server.flights import cluster as module
from sharebroker_server.flights.cluster import Cluster, FlightPublisher, Job, unpublished
from sharebroker_server.flights.core.flight import Flight

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeAdmin:
    """An administration client; `failures` are raised first."""

    def __init__(self) -> None:
        self.failures: list[KafkaError] = []
        self.missing = 0
        """The number of requests for offsets that fail because the topic is not there yet."""
        self.created: list[tuple[str, int]] = []
        self.configs: dict[str, str] = {}
        self.lags: dict[TopicPartition, int | None] = {}

    async def create_topic(self, topic: str, partitions: int) -> None:
        self.created.append((topic, partitions))
        self._fail()

    async def alter_group_configs(self, group: str, configs: dict[str, str]) -> None:
        assert group == "g"
        self.configs = configs

    async def list_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        self.missing -= 1
        if self.missing >= 0:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return dict(zip(partitions, (3, None), strict=True))

    async def group_offsets(self, group: str) -> dict[TopicPartition, Any]:
        self._fail()
        return {partition: SimpleNamespace(lag=lag) for partition, lag in self.lags.items()}

    async def inspect_state(self, group: str, partition: TopicPartition) -> Any:
        accepted = SimpleNamespace(first_offset=2, last_offset=2, delivery_state=2)
        return SimpleNamespace(folded=SimpleNamespace(start_offset=-1, state_batches=[accepted]))

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


@pytest.fixture
def cluster(admin: FakeAdmin) -> Cluster:
    return Cluster(cast("Admin", admin), Job("s", "t", 2, "g", 15))


async def test_group_reads_from_the_start_with_the_runs_locks(cluster: Cluster, admin: FakeAdmin) -> None:
    await cluster.prepare()
    assert admin.created == [("t", 2)]
    assert admin.configs["share.auto.offset.reset"] == "earliest"
    assert admin.configs["share.record.lock.duration.ms"] == "15000"
    assert admin.configs["share.session.timeout.ms"] == "15000"


async def test_existing_topic_is_used(cluster: Cluster, admin: FakeAdmin) -> None:
    admin.failures = [KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS)]
    await cluster.prepare()
    assert admin.configs


async def test_only_retriable_failures_are_retried(
    cluster: Cluster, admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_PAUSE", 0.0)
    admin.failures = [KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 2
    await cluster.prepare()
    assert len(admin.created) == 3
    admin.failures = [KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)]
    with pytest.raises(KafkaError):
        await cluster.prepare()
    assert len(admin.created) == 4


async def test_topic_in_kafka_is_not_created_but_awaited(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_PAUSE", 0.0)
    admin.missing = 2
    await Cluster(cast("Admin", admin), Job("s", "t", 2, "g", 15, upstream="b1:9092")).prepare()
    assert (admin.created, admin.missing) == ([], -1)
    assert admin.configs


async def test_empty_partition_ends_at_0(cluster: Cluster) -> None:
    assert await cluster.ends() == {0: 3, 1: 0}


@pytest.mark.parametrize(
    ("lags", "total"),
    [({P0: 3, P1: 4}, 7), ({P0: 0, P1: 0}, 0), ({P0: 3}, None), ({P0: 3, P1: None}, None)],
)
async def test_lag_is_known_for_all_partitions_or_unknown(
    cluster: Cluster, admin: FakeAdmin, lags: dict[TopicPartition, int | None], total: int | None
) -> None:
    admin.lags = lags
    assert await cluster.lag() == total


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_lag_of_an_unknown_group_is_unknown(
    cluster: Cluster, admin: FakeAdmin, code: ErrorCode
) -> None:
    admin.failures = [KafkaError(code)]
    assert await cluster.lag() is None


async def test_final_failure_of_a_lag_request_is_raised(cluster: Cluster, admin: FakeAdmin) -> None:
    admin.failures = [KafkaError(ErrorCode.INVALID_GROUP_ID)]
    with pytest.raises(KafkaError):
        await cluster.lag()


async def test_finished_records_come_from_the_stored_state(cluster: Cluster) -> None:
    assert await cluster.finished() == {(0, 2)}


FLIGHT = Flight("2013-01-01", "UA", "1", "N1", "EWR", "IAH", 517, 2, 11)
FLIGHTS = [replace(FLIGHT, tailnum=f"N{number}") for number in range(12)]
PARTITIONS = 3


def in_partition(partition: int) -> list[Flight]:
    return [flight for flight in FLIGHTS if partition_of(flight.key, PARTITIONS) == partition]


def test_empty_log_lacks_every_flight() -> None:
    assert list(unpublished(FLIGHTS, dict.fromkeys(range(PARTITIONS), 0))) == FLIGHTS


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_partition_has_its_first_flights(partition: int) -> None:
    assert len(in_partition(partition)) > 1
    ends = {number: len(in_partition(number)) for number in range(PARTITIONS)} | {partition: 1}
    assert list(unpublished(FLIGHTS, ends)) == in_partition(partition)[1:]


def test_complete_log_lacks_none() -> None:
    ends = {number: len(in_partition(number)) for number in range(PARTITIONS)}
    assert list(unpublished(FLIGHTS, ends)) == []


def test_flights_in_the_log_count_as_published() -> None:
    assert FlightPublisher("s", "t", {0: 3, 1: 4}).published == 7
