"""Planning and commits of one session; locks of a batch are tested with a server in tests/spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_spark.core.offsets import PlannedBatch, Range
from sharebroker_spark.core.options import Options
from sharebroker_spark.core.verdicts import BatchToken
from sharebroker_spark.driver import Driver, FencedError, LeaseLostError
from tests.unit.spark.fake_client import FakeClient

START = PlannedBatch("s")
FIRST = PlannedBatch("s", 1, (Range("t", 0, 0, 4, 1), Range("t", 1, 0, 0, 2)), 99)
LOG_START = 2


class Harness:
    """A driver, and a gateway that plans FIRST."""

    def __init__(self, *, fails_on_lost_lease: bool = True) -> None:
        self.fake = FakeClient(
            OpenSession=self.open_session,
            Plan=self.plan,
            Commit=self.commit,
            Renew=lambda _: pb.RenewResponse(),
            Metadata=self.metadata,
            ListOffsets=self.offsets,
        )
        options = Options("h:1", "g", ("t",), max_records=100, fails_on_lost_lease=fails_on_lost_lease)
        self.driver = Driver(options, self.fake.client)
        self.sessions = 0
        self.left: list[pb.PlanLeft] = []
        self.empty = self.repeated = False
        self.errors: list[KafkaError] = []

    def open_session(self, request: pb.OpenSessionRequest) -> pb.OpenSessionResponse:
        self.sessions += 1
        return pb.OpenSessionResponse(epoch=6 + self.sessions, lock_duration_ms=30_000)

    def plan(self, request: pb.PlanRequest) -> pb.PlanResponse:
        if self.errors:
            raise self.errors.pop()
        response = pb.PlanResponse(left=self.left, repeated=self.repeated)
        if not self.empty:
            columns: Any = {
                "partitions": [1, 0],
                "first_offsets": [0, 0],
                "last_offsets": [0, 4],
                "delivery_counts": [2, 1],
                "lock_deadlines_ms": [100, 99],
            }
            response.columns.add(topic="t", **columns)
        return response

    def commit(self, request: pb.CommitRequest) -> pb.CommitResponse:
        return pb.CommitResponse(left=self.left, repeated=self.repeated)

    def metadata(self, request: admin.MetadataRequest) -> admin.MetadataResponse:
        response = admin.MetadataResponse()
        topic = response.topics.add(name="t", topic_id="T")
        for index in range(2):
            topic.partitions.add(partition_index=index)
        return response

    def offsets(self, request: leader.ListOffsetsRequest) -> leader.ListOffsetsResponse:
        response = leader.ListOffsetsResponse()
        for part in request.partitions:
            response.partitions.add(topic_id="T", partition=part.partition, offset=LOG_START)
        return response

    def lose(self, first: int, last: int, reason: str = "LEFT_REASON_FINISHED") -> None:
        """Makes commits leave offsets of partition 0 out."""
        lost = pb.PlanRange(topic="t", partition=0, first_offset=first, last_offset=last)
        self.left.append(pb.PlanLeft(range=lost, reason=delivery.LeftReason.Value(reason)))

    def requests(self, kind: Callable[..., Any]) -> list[Any]:
        return [request for request in self.fake.requests if isinstance(request, kind)]  # type: ignore[arg-type]


@pytest.fixture
def harness() -> Iterator[Harness]:
    harness = Harness()
    yield harness
    harness.driver.close()


def test_a_plan_is_the_next_batch_in_order_with_the_first_deadline(harness: Harness) -> None:
    assert harness.driver.plan(START, None, 0) == FIRST
    (request,) = harness.requests(pb.PlanRequest)
    assert (request.session.group_id, request.session.session_id, request.session.epoch) == ("g", "s", 7)
    assert ([topic.name for topic in request.topics], request.max_records) == (["t"], 100)
    assert not request.accepted


def test_a_plan_without_records_keeps_the_batch(harness: Harness) -> None:
    harness.empty = True
    assert harness.driver.plan(START, None, 0) == START


def test_planning_can_be_limited_to_partitions(harness: Harness) -> None:
    harness.driver.plan(START, {("t", 1): 5, ("u", 3): 5, ("t", 0): 5}, 0)
    topics = [(topic.name, list(topic.partitions)) for topic in harness.requests(pb.PlanRequest)[0].topics]
    assert topics == [("t", [0, 1]), ("u", [3])]


def test_a_plan_without_partitions_only_commits(harness: Harness) -> None:
    assert harness.driver.plan(FIRST, {}, 0) == FIRST
    assert harness.requests(pb.PlanRequest) == []
    assert len(harness.requests(pb.CommitRequest)) == 1


def test_a_plan_commits_the_completed_batch_once(harness: Harness) -> None:
    harness.driver.plan(harness.driver.plan(START, None, 0), None, 0)
    harness.driver.plan(FIRST, None, 0)
    harness.driver.commit(FIRST)
    accepted = [
        [list(columns.last_offsets) for columns in r.accepted] for r in harness.requests(pb.PlanRequest)
    ]
    assert accepted == [[], [[4, 0]], []]
    assert harness.requests(pb.CommitRequest) == []


def test_an_expired_session_is_opened_again(harness: Harness) -> None:
    harness.errors.append(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID))
    assert harness.driver.plan(START, None, 0) == FIRST
    assert [request.session.epoch for request in harness.requests(pb.PlanRequest)] == [8, 8]


def test_a_fenced_driver_makes_no_more_calls(harness: Harness) -> None:
    harness.errors.append(KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "epoch 8 is current."))
    with pytest.raises(FencedError, match="Another driver reads with this checkpoint: epoch 8 is current"):
        harness.driver.plan(START, None, 0)
    made = len(harness.fake.requests)
    with pytest.raises(FencedError):
        harness.driver.commit(FIRST)
    assert len(harness.fake.requests) == made


def test_other_errors_reach_the_caller(harness: Harness) -> None:
    harness.errors.append(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND))
    with pytest.raises(KafkaError) as caught:
        harness.driver.plan(START, None, 0)
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_records_that_lost_their_locks_fail_the_query(harness: Harness) -> None:
    harness.driver.plan(START, None, 0)
    harness.lose(0, 1)
    harness.lose(3, 4)
    with pytest.raises(LeaseLostError, match=r"2 of its 6 records lost their locks .*t-0 3\.\.4"):
        harness.driver.commit(FIRST)
    assert (harness.driver.lost, harness.driver.taken) == (2, 2), "retention deleted the first two"


def test_records_that_retention_deleted_do_not_fail_the_query(harness: Harness) -> None:
    harness.driver.plan(START, None, 0)
    harness.lose(0, 1)
    harness.driver.commit(FIRST)
    assert (harness.driver.lost, harness.driver.taken) == (2, 0)


def test_lost_locks_are_only_logged_with_the_option() -> None:
    harness = Harness(fails_on_lost_lease=False)
    harness.driver.plan(START, None, 0)
    harness.lose(3, 4)
    harness.driver.commit(FIRST)
    assert harness.driver.taken == 2
    harness.driver.close()


@pytest.mark.parametrize("cause", ["the gateway retried", "the client retried", "the driver is new"])
def test_finished_records_after_a_retry_may_be_our_own(harness: Harness, cause: str) -> None:
    if cause != "the driver is new":
        harness.driver.plan(START, None, 0)
    harness.repeated = cause == "the gateway retried"
    harness.fake.first_attempt = cause != "the client retried"
    harness.lose(3, 4)
    harness.driver.commit(FIRST)
    assert (harness.driver.lost, harness.driver.taken) == (0, 0)


def test_a_new_driver_renews_the_locks_of_a_batch_it_resumes(harness: Harness) -> None:
    harness.driver.resume(FIRST)
    harness.driver.resume(FIRST)
    (request,) = harness.requests(pb.RenewRequest)
    assert [list(columns.partitions) for columns in request.columns] == [[0, 1]]


def test_a_token_names_session_epoch_and_batch(harness: Harness) -> None:
    assert harness.driver.token(FIRST) == BatchToken("h:1", "g", "s", 7, FIRST.name, True)
