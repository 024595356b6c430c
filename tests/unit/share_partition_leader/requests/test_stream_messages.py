"""The send queue of a delivery stream."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AcquiredRange
from sharebroker_server.leader_calls.values import DeliverOutput, Problem
from sharebroker_server.share_partition_leader.requests.stream_messages import (
    MESSAGE_BYTES,
    UNSENT_ENTRIES,
    AckGroup,
    AckRequest,
    NextMessage,
    coalesce,
    group_acks,
)
from sharebroker_server.share_partition_leader.share_partition.reading import Fetched

PARTITION: Any = SimpleNamespace(topic_id="t", topic="topic", partition=1)


async def test_entries_of_one_loop_iteration_are_one_message() -> None:
    queue = NextMessage()
    queue.add_records(PARTITION, Fetched([AcquiredRange(0, 1, 1, 7, 0.0)], b"batch"))
    queue.add_results([AckRequest(0, 1, 1, 7, 5)], 0.0, None)
    queue.add_problem("t", 1, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"))
    assert (queue.filled.is_set(), queue.entries) == (True, 3)
    message = queue.pop()
    assert [sent.records for sent in message.deliveries] == [b"batch"]
    assert [(result.id, result.error_code) for result in message.results] == [(5, ErrorCode.NONE)]
    assert message.problems == [Problem("t", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved")]
    assert (queue.entries, queue.pop()) == (0, DeliverOutput([], [], [], []))


async def test_rejected_acknowledgement_has_no_lock_deadline() -> None:
    queue = NextMessage()
    queue.add_results([AckRequest(0, 1, 4, 7, 5)], 12.0, KafkaError(ErrorCode.INVALID_RECORD_STATE))
    queue.add_results([AckRequest(2, 3, 4, 7, 6)], 12.0, None)
    rejected, renewed = queue.pop().results
    assert (rejected.error_code, rejected.lock_deadline) == (ErrorCode.INVALID_RECORD_STATE, 0.0)
    assert (renewed.error_code, renewed.lock_deadline) == (ErrorCode.NONE, 12.0)


async def test_message_is_full_at_its_size_limit() -> None:
    queue = NextMessage()
    queue.add_records(PARTITION, Fetched([AcquiredRange(0, 0, 1, 7, 0.0)], bytes(MESSAGE_BYTES)))
    assert queue.full
    queue.pop()
    assert not queue.full


async def test_drained_waits_while_too_many_entries_are_unsent() -> None:
    queue = NextMessage()
    await queue.drained()
    queue.add_results([AckRequest(0, 0, 1, 7, 5)] * UNSENT_ENTRIES, 0.0, None)
    blocked = asyncio.ensure_future(queue.drained())
    await asyncio.sleep(0)
    assert not blocked.done()
    queue.pop()
    await blocked


def _ack(first: int, last: int | None, kind: int, token: int, **fields: int) -> delivery.Acknowledgement:
    return delivery.Acknowledgement(
        topic_id="t",
        first_offset=first,
        last_offset=last,
        type=kind,  # type: ignore[arg-type]  # any number
        lock_token=token,
        **fields,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("ranges", "batches"),
    [
        pytest.param("5", "5-5", id="one"),
        pytest.param("5 6 7", "5-7", id="side by side"),
        pytest.param("5-7 8-9 10", "5-10", id="runs side by side"),
        pytest.param("5 7 8", "5-5 7-8", id="apart"),
        pytest.param("5 5 6", "5-5 5-6", id="twice"),
        pytest.param("5-8 7-9", "5-8 7-9", id="overlapping"),
        pytest.param("5 6r 7r 8", "5-5 6-7r 8-8", id="kinds"),
        pytest.param("5 6+ 7+", "5-5 6-7+", id="tokens"),
        pytest.param("5 6-4 5", "5-5 6-4 5-5", id="a range that ends before it begins"),
        pytest.param("5-3 4 5", "5-3 4-5", id="the first range ends before it begins"),
    ],
)
def test_neighbours_with_equal_type_and_token_are_one_batch(ranges: str, batches: str) -> None:
    assert [
        _text(batch) for batch in coalesce([_request(text) for text in ranges.split()])
    ] == batches.split()


def _request(text: str) -> AckRequest:
    first, _, last = text.rstrip("r+").partition("-")
    return AckRequest(int(first), int(last or first), 2 if "r" in text else 1, 8 if "+" in text else 7, 0)


def _text(batch: AckBatch) -> str:
    return f"{batch.first}-{batch.last}" + "r" * (batch.types == (2,)) + "+" * (batch.token == 8)


def test_token_0_means_no_token() -> None:
    assert coalesce([AckRequest(5, 5, 1, 0, 9)]) == [AckBatch(5, 5, (1,), None)]


def test_ack_types_become_kafkas_numbers_and_unknown_ones_are_invalid() -> None:
    acks = [_ack(offset, None, kind, 7) for offset, kind in enumerate([-1, 0, 1, 2, 3, 4, 5, 6])]
    kinds = [one.type for requests in group_acks(acks).values() for one in requests]
    assert sorted(kinds) == [-1, -1, -1, 0, 1, 2, 3, 4]
    (gap,) = group_acks([_ack(0, None, delivery.ACKNOWLEDGE_TYPE_GAP, 7)]).values()
    assert gap[0].type == 0


def test_acks_are_grouped_by_partition_delay_and_renewal() -> None:
    acks = [
        _ack(1, None, 1, 7, id=1),
        _ack(2, None, 4, 7, id=2),
        _ack(3, None, 2, 7, id=3, delay_ms=100),
        _ack(4, None, 2, 7, id=4),
        _ack(5, None, 1, 7, id=5, partition=1),
    ]
    assert {group: [one.id for one in requests] for group, requests in group_acks(acks).items()} == {
        AckGroup("t", 0, False, None): [1, 4],
        AckGroup("t", 0, True, None): [2],
        AckGroup("t", 0, False, 100): [3],
        AckGroup("t", 1, False, None): [5],
    }


def test_repeated_acks_of_a_record_keep_their_order() -> None:
    acks = [_ack(5, None, kind, 7, id=index) for index, kind in enumerate((2, 1, 3))]
    (requests,) = group_acks([*acks, _ack(4, None, 1, 7, id=9)]).values()
    assert [one.id for one in requests] == [9, 0, 1, 2]


def test_absent_last_offset_means_one_record_even_at_0() -> None:
    (requests,) = group_acks([_ack(0, None, 1, 7), _ack(3, 0, 1, 7)]).values()
    assert [(one.first, one.last) for one in requests] == [(0, 0), (3, 0)]


@given(
    st.lists(
        st.builds(
            AckRequest,
            st.integers(0, 12),
            st.integers(0, 12),
            st.sampled_from([1, 2]),
            st.sampled_from([7, 8]),
            st.integers(0, 99),
        ),
        min_size=1,
    )
)
def test_coalesced_batches_cover_the_same_acks(requests: list[AckRequest]) -> None:
    requests.sort(key=lambda one: one.first)

    def spelt(first: int, last: int, kind: int, token: int) -> list[tuple[int, ...]]:
        return [(x, kind, token) for x in range(first, last + 1)] or [(first, last, kind, token)]

    batches = coalesce(requests)
    assert [x for b in batches for x in spelt(b.first, b.last, b.types[0], b.token or 0)] == [
        x for one in requests for x in spelt(*one[:4])
    ]
