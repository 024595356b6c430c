"""Retries of failed records: what the gateway checks, forwards and logs."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import ShareCoordinatorServiceStub
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.admin.failed_records import list_failed
from sharebroker_server.gateway.admin.retry import retry_failed
from tests.unit.gateway.admin.test_failed_records import Journals
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC
from tests.unit.record_log.harness import code_of


class Retries:
    """A leader that copies record n to n + 100, except for one offset."""

    def __init__(self) -> None:
        self.requests: list[leader.RetryRecordsRequest] = []
        self.failing = -1
        self.error = ErrorCode.NONE

    async def retry(self, request: leader.RetryRecordsRequest, _: Any) -> leader.RetryRecordsResponse:
        self.requests.append(request)
        response = leader.RetryRecordsResponse()
        for part in request.partitions:
            found = response.partitions.add(
                topic_id=part.topic_id, partition=part.partition, error_code=int(self.error)
            )
            for offset in () if self.error else part.offsets:
                if offset == self.failing:
                    code = int(ErrorCode.OFFSET_OUT_OF_RANGE)
                    found.results.add(offset=offset, error_code=code, error_message="deleted")
                else:
                    found.results.add(
                        offset=offset, copy_offset=-1 if request.validate_only else offset + 100
                    )
        return response

    async def inspect(self, request: leader.InspectRecordsRequest, _: Any) -> leader.InspectRecordsResponse:
        response = leader.InspectRecordsResponse()
        for part in request.partitions:
            found = response.partitions.add(topic_id=part.topic_id, partition=part.partition)
            if part.partition == 0:
                found.copied.add(first_offset=0, last_offset=3, copy_offset=20)
                found.copied.add(first_offset=9, last_offset=9, copy_offset=30)
        return response


@pytest.fixture
def journals(harness: Harness) -> Journals:
    """Partition 0 has the failed records 3, 4, 9 and 10, partition 1 5 and 6."""
    journals = Journals()
    journals.offsets = {0: [9, 3], 1: [5]}
    harness.router.register_local(ShareCoordinatorServiceStub, journals)
    return journals


@pytest.fixture
def retries(harness: Harness, journals: Journals) -> Retries:
    retries = Retries()
    harness.leader.RetryRecords = retries.retry  # type: ignore[attr-defined]
    harness.leader.InspectRecords = retries.inspect  # type: ignore[attr-defined]
    return retries


def request_of(offsets: dict[int, list[int]], **fields: Any) -> pb.RetryFailedRecordsRequest:
    partitions = [
        pb.RetryFailedRecordsRequest.Partition(partition=partition, offsets=some)
        for partition, some in offsets.items()
    ]
    return pb.RetryFailedRecordsRequest(
        **{"group_id": "g", "topic": TOPIC.name, "partitions": partitions} | fields
    )


async def outcomes(
    harness: Harness, offsets: dict[int, list[int]], **fields: Any
) -> list[tuple[int, int, int, ErrorCode]]:
    response = await retry_failed(harness.gateway, request_of(offsets, **fields), Deadline(5))
    return [
        (each.partition, each.offset, each.copy_offset, ErrorCode(each.error_code))
        for each in response.results
    ]


async def test_listed_records_are_retried(harness: Harness, retries: Retries) -> None:
    assert await outcomes(harness, {1: [6], 0: [10, 4, 7]}) == [
        (0, 4, 104, ErrorCode.NONE),
        (0, 7, -1, ErrorCode.RESOURCE_NOT_FOUND),
        (0, 10, 110, ErrorCode.NONE),
        (1, 6, 106, ErrorCode.NONE),
    ]
    assert {request.group_id for request in retries.requests} == {"g"}
    (identity,) = {request.request_id for request in retries.requests}
    assert len(identity) == 36


async def test_unlisted_records_are_retried_on_request(harness: Harness, retries: Retries) -> None:
    found = await outcomes(harness, {0: [7]}, include_unlisted=True, request_id="r-1")
    assert found == [(0, 7, 107, ErrorCode.NONE)]
    assert retries.requests[0].request_id == "r-1"


async def test_nothing_is_forwarded_without_a_listed_record(harness: Harness, retries: Retries) -> None:
    assert await outcomes(harness, {0: [8]}) == [(0, 8, -1, ErrorCode.RESOURCE_NOT_FOUND)]
    assert not retries.requests


async def test_an_error_of_a_partition_is_that_of_its_records(harness: Harness, retries: Retries) -> None:
    retries.error = ErrorCode.KAFKA_STORAGE_ERROR
    assert await outcomes(harness, {0: [3, 9]}) == [
        (0, 3, -1, ErrorCode.KAFKA_STORAGE_ERROR),
        (0, 9, -1, ErrorCode.KAFKA_STORAGE_ERROR),
    ]


@pytest.mark.parametrize(
    ("offsets", "fields", "code"),
    [
        ({}, {}, ErrorCode.INVALID_REQUEST),
        ({0: [*range(1001)]}, {}, ErrorCode.INVALID_REQUEST),
        ({0: [3]}, {"request_id": "a b"}, ErrorCode.INVALID_REQUEST),
        ({0: [3]}, {"request_id": "a" * 65}, ErrorCode.INVALID_REQUEST),
        ({0: [3]}, {"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({2: [3]}, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({0: [3]}, {"topic": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_invalid_requests_are_rejected(
    harness: Harness, retries: Retries, offsets: dict[int, list[int]], fields: dict[str, Any], code: ErrorCode
) -> None:
    assert await code_of(retry_failed(harness.gateway, request_of(offsets, **fields), Deadline(5))) is code
    assert not retries.requests


async def test_an_unknown_group_is_rejected(harness: Harness, retries: Retries) -> None:
    async def unknown(request: group.ShareGroupDescribeRequest, _: Any) -> group.ShareGroupDescribeResponse:
        response = group.ShareGroupDescribeResponse()
        response.groups.add(group_id="g", error_code=int(ErrorCode.GROUP_ID_NOT_FOUND))
        return response

    harness.coordinator.ShareGroupDescribe = unknown  # type: ignore[assignment]
    found = await code_of(retry_failed(harness.gateway, request_of({0: [3]}), Deadline(5)))
    assert found is ErrorCode.GROUP_ID_NOT_FOUND
    assert not retries.requests


async def test_retries_are_in_the_audit_log(harness: Harness, retries: Retries) -> None:
    retries.failing = 9
    with capture_logs() as lines:
        await outcomes(harness, {0: [3, 4, 9]})
        await outcomes(harness, {0: [3]}, validate_only=True)
    changes = [line for line in lines if line.get("operation") == "RetryFailedRecords"]
    assert [(line["outcome"], line.get("offsets")) for line in changes] == [
        ("success", [3, 4]),
        ("OFFSET_OUT_OF_RANGE", None),
    ]


async def test_the_list_of_failed_records_has_their_copies(harness: Harness, retries: Retries) -> None:
    request = pb.ListFailedRecordsRequest(group_id="g", topic=TOPIC.name, include_retried=True)
    entries = (await list_failed(harness.gateway, request, Deadline(5))).entries
    found = [
        [(run.first_offset, run.last_offset, run.copy_offset) for run in entry.retried] for entry in entries
    ]
    assert found == [[(3, 3, 23)], [(9, 9, 30)], []]
