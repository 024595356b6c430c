"""Reads for one Fetch: waits, limits and errors."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.names import OFFSETS_TOPIC
from sharebroker_server.gateway.kafka.helpers.partition_fetch import FetchReader, failed
from sharebroker_server.gateway.kafka.helpers.topics import Located, Rejected, locate
from sharebroker_server.kafka_wire.messages import FetchRequest
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

Partition = FetchRequest.FetchPartition


def reader(harness: Harness, *names: str, **fields: Any) -> tuple[FetchReader, list[Any]]:
    defaults = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 100}
    call = harness.call_of(FetchRequest(**{**defaults, **fields}))
    parts = [Partition(partition=number, partition_max_bytes=100) for number in range(len(names))]
    located: list[Located[Partition] | Rejected[Partition]] = [
        locate(call, part, part.partition, name=name) for part, name in zip(parts, names, strict=True)
    ]
    return FetchReader(call, located), located


async def test_a_moved_partition_ends_the_wait(harness: Harness) -> None:
    waiting, _ = reader(harness, TOPIC.name, "unknown")
    assert waiting._wait == 0.5, "an unknown topic does not end the wait"
    harness.lead_elsewhere()
    moved, _ = reader(harness, TOPIC.name)
    assert moved._wait == 0.0


async def test_records_of_internal_topics_end_the_wait_for_ordinary_ones(harness: Harness) -> None:
    shard = state.FetchShareGroupStateResponse(record_batches=b"x" * 80)
    harness.services.reply("FetchGroupLog", shard)
    harness.services.reply_each("Fetch", pb.FetchResponse, records=b"y")
    mixed, located = reader(harness, OFFSETS_TOPIC, TOPIC.name)
    (internal,) = await mixed.internal([located[0]])
    (ordinary,) = await mixed.ordinary([located[1]])
    assert (internal.records, ordinary.records) == (b"x" * 80, b"y")
    assert mixed._wait == 0.0


async def test_the_response_limit_omits_records_after_the_first(harness: Harness) -> None:
    harness.services.reply("FetchGroupLog", state.FetchShareGroupStateResponse(record_batches=b"x" * 80))
    both, located = reader(harness, OFFSETS_TOPIC, OFFSETS_TOPIC)
    first, second = await both.internal(located)
    assert (len(first.records or b""), len(second.records or b"")) == (80, 0)


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_errors_that_java_does_not_expect_are_replaced(code: ErrorCode, sent: ErrorCode) -> None:
    result = failed(3, code, 12)
    assert (result.partition_index, result.error_code, result.high_watermark) == (3, sent, -1)
