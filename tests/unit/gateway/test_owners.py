"""Calls whose owner is not there, moved, or does not answer."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.gateway.v1 import share_pb2
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.gateway.clients.deadline import Backoff, Deadline
from tests.unit.gateway.conftest import Bench
from tests.unit.gateway.fakes import TOPIC, member


def produced(timeout_ms: int, *partitions: int) -> pb.ProduceRequest:
    parts = [pb.ProduceRequest.PartitionData(index=index, records=b"batch") for index in partitions]
    topic = pb.ProduceRequest.TopicData(name="flights", partition_data=parts)
    return pb.ProduceRequest(timeout_ms=timeout_ms, topic_data=[topic])


async def codes(bench: Bench, request: pb.ProduceRequest) -> list[int]:
    (response,) = (await bench.produce.Produce(request)).responses
    return [part.error_code for part in response.partition_responses]


async def test_nobody_leads(bench: Bench) -> None:
    bench.ownership.nobody = True
    assert await codes(bench, produced(50, 0)) == [ErrorCode.LEADER_NOT_AVAILABLE]


async def test_a_leader_that_is_not_reached_is_asked_again_for_as_long_as_there_is_time(bench: Bench) -> None:
    bench.ownership.give(1, member(9, "127.0.0.1:1"))
    assert await codes(bench, produced(100, 0, 1)) == [0, ErrorCode.LEADER_NOT_AVAILABLE]


async def test_a_leader_that_goes_away_may_have_done_it(bench: Bench) -> None:
    fake = bench.local_leader(9, partition=1)

    def dies(request: object) -> None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    fake.answer = dies
    assert await codes(bench, produced(5_000, 0, 1)) == [0, ErrorCode.REQUEST_TIMED_OUT]
    assert len(fake.asked) == 1


async def test_a_fetch_does_without_a_leader_that_cannot_be_reached(bench: Bench) -> None:
    bench.ownership.give(1, member(9, "127.0.0.1:1"))
    part = share_pb2.ShareFetchRequest.FetchPartition(partition_index=1)
    topic = share_pb2.ShareFetchRequest.FetchTopic(topic_id=TOPIC.topic_id, partitions=[part])
    request = share_pb2.ShareFetchRequest(group_id="g", member_id="m", max_records=1, topics=[topic])
    (answer,) = (await bench.share.ShareFetch(request)).responses[0].partitions
    assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert any(TOPIC.topic_id in resource for resource in bench.ownership.forgotten)


@pytest.mark.parametrize("in_band", [False, True])
async def test_a_heartbeat_follows_its_coordinator(bench: Bench, in_band: bool) -> None:
    if in_band:
        bench.coordinator.answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    else:
        bench.coordinator.refusals = [KafkaError(ErrorCode.NOT_COORDINATOR)]
    request = group.ShareGroupHeartbeatRequest(group_id="group", member_id="me")
    answer = await bench.share.ShareGroupHeartbeat(request)
    assert (answer.member_epoch, len(bench.coordinator.heartbeats)) == (1, 2)
    assert bench.coordinator.heartbeats[0].client_host.startswith("ipv4:")


async def test_backoff_ends_at_the_deadline() -> None:
    backoff = Backoff(Deadline(0.05))
    pauses = 0
    while await backoff.pause():
        pauses += 1
    assert 1 <= pauses <= 3


@pytest.mark.parametrize(
    ("number", "code"), [(6, ErrorCode.NOT_LEADER_OR_FOLLOWER), (9999, ErrorCode.UNKNOWN_SERVER_ERROR)]
)
def test_codes_of_messages(number: int, code: ErrorCode) -> None:
    assert ErrorCode(number) is code


class Context:
    def __init__(self, left: float | None) -> None:
        self._left = left

    def time_remaining(self) -> float | None:
        return self._left


@pytest.mark.parametrize(("left", "low", "high"), [(None, 29.0, 30.0), (10.0, 9.8, 9.9), (0.1, 0.0, 0.09)])
def test_the_caller_hears_our_error_before_its_own_deadline(
    left: float | None, low: float, high: float
) -> None:
    assert low <= Deadline.of(Context(left)).left() <= high
