"""Pages of failed records, read from the journals of the shards."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import ShareCoordinatorServiceStub
from sharebroker_server.gateway.admin.failed_records import list_failed
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC


class Journals:
    """A share coordinator with the first offsets of entries, and dropped records, by partition."""

    def __init__(self) -> None:
        self.offsets: dict[int, list[int]] = {}
        self.dropped: dict[int, int] = {}
        self.error = ErrorCode.NONE
        self.requests: list[state.ReadFailedRecordsRequest] = []

    async def ReadFailedRecords(
        self, request: state.ReadFailedRecordsRequest, _: Any
    ) -> state.ReadFailedRecordsResponse:
        self.requests.append(request)
        response = state.ReadFailedRecordsResponse()
        for topic in request.topics:
            found = response.results.add(topic_id=topic.topic_id)
            for number in topic.partitions:
                part = found.partitions.add(
                    partition=number, dropped=self.dropped.get(number, 0), error_code=int(self.error)
                )
                for offset in self.offsets.get(number, ()):
                    part.records.add(
                        first_offset=offset,
                        last_offset=offset + 1,
                        disposition=1,
                        delivery_count=2,
                        time_ms=7,
                        member_id="m1",
                        reason="bad",
                    )
        return response


@pytest.fixture
def journals(harness: Harness) -> Journals:
    journals = Journals()
    harness.router.register_local(ShareCoordinatorServiceStub, journals)
    return journals


async def listed(harness: Harness, **fields: Any) -> pb.ListFailedRecordsResponse:
    request = pb.ListFailedRecordsRequest(**{"group_id": "g", "topic": TOPIC.name} | fields)
    return await list_failed(harness.gateway, request, Deadline(5))


async def test_entries_are_in_order(harness: Harness, journals: Journals) -> None:
    journals.offsets = {0: [9, 3], 1: [5]}
    journals.dropped = {1: 4}
    page = await listed(harness)
    assert [(entry.partition, entry.first_offset) for entry in page.entries] == [(0, 3), (0, 9), (1, 5)]
    assert page.entries[0] == pb.ListFailedRecordsResponse.Entry(
        partition=0,
        first_offset=3,
        last_offset=4,
        disposition=pb.DISPOSITION_REJECTED,
        delivery_count=2,
        time_ms=7,
        member_id="m1",
        reason="bad",
    )
    assert [(each.partition, each.records) for each in page.dropped] == [(1, 4)]
    assert page.next_page_token == ""
    assert {request.group_id for request in journals.requests} == {"g"}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 1000])
async def test_pages_have_each_entry_once(harness: Harness, journals: Journals, size: int) -> None:
    journals.offsets = {0: [8, 0, 4], 1: [6, 2, 9]}
    journals.dropped = {0: 1, 1: 2}
    found, dropped, token = list[tuple[int, int]](), list[int](), ""
    while True:
        page = await listed(harness, page_size=size, page_token=token)
        assert len(page.entries) <= size
        found += [(entry.partition, entry.first_offset) for entry in page.entries]
        dropped += [each.records for each in page.dropped]
        token = page.next_page_token
        if not token:
            break
    assert found == [(0, 0), (0, 4), (0, 8), (1, 2), (1, 6), (1, 9)]
    assert dropped == [1, 2]


@pytest.mark.parametrize(
    "fields",
    [
        {"page_size": -1},
        {"page_size": 1001},
        {"page_token": "x"},
        {"page_token": "1"},
        {"page_token": "1:"},
        {"page_token": "-1:0"},
        {"page_token": "1:2:3"},
        {"page_token": "²:0"},
        {"page_token": "1:" + "9" * 40},
        {"group_id": ""},
    ],
)
async def test_invalid_requests_are_rejected(
    harness: Harness, journals: Journals, fields: dict[str, Any]
) -> None:
    with pytest.raises(KafkaError) as error:
        await listed(harness, **fields)
    assert error.value.code is ErrorCode.INVALID_REQUEST
    assert not journals.requests


async def test_an_unknown_topic_is_rejected(harness: Harness, journals: Journals) -> None:
    with pytest.raises(KafkaError) as error:
        await listed(harness, topic="nowhere")
    assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_error_of_a_partition_is_raised(harness: Harness, journals: Journals) -> None:
    journals.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as error:
        await listed(harness)
    assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_token_past_the_last_partition_ends(harness: Harness, journals: Journals) -> None:
    page = await listed(harness, page_token="999:0")
    assert (list(page.entries), page.next_page_token) == ([], "")
