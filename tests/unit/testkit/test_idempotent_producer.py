"""The model of librdkafka's idempotent producer: what it sends again, and under which epoch."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.testkit.idempotent_producer import MAX_IN_FLIGHT, IdempotentProducer, Request, encoded, values_of

GAP, STORED, RETRY = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.NONE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


def producer(*batches: str) -> IdempotentProducer:
    """A producer with one batch per string for partition 0, one record per letter."""
    made = IdempotentProducer(7, 2)
    for batch in batches:
        made.add(0, batch)
    return made


def sequences(requests: list[Request]) -> list[tuple[int, int]]:
    return [(request.epoch, request.sequence) for request in requests]


def test_at_most_five_batches_are_in_flight() -> None:
    one = producer(*"abcdefg")
    requests = one.to_send()
    assert len(requests) == MAX_IN_FLIGHT
    assert one.to_send() == []
    one.completed(requests[0], STORED)
    assert sequences(one.to_send()) == [(0, 5)]


@pytest.mark.parametrize("failure", [None, RETRY])
def test_failed_batches_are_sent_again_once_none_is_in_flight(failure: ErrorCode | None) -> None:
    one = producer("ab", "c", "d")
    first, second, third = one.to_send()
    one.completed(first, STORED)
    one.completed(second, failure)
    assert one.to_send() == []
    one.completed(third, failure)
    assert one.to_send() == [second, third]


def test_gap_renumbers_the_batches_of_all_partitions() -> None:
    one = producer("a", "b", "c")
    one.add(1, "z")
    first, second, third, other = one.to_send()
    one.completed(first, STORED)
    one.completed(second, RETRY)
    one.completed(third, GAP)
    assert one.to_send() == []
    one.completed(other, None)
    assert sequences(one.to_send()) == [(1, 0), (1, 1), (1, 0)]
    assert one.bumps == 1


def test_gap_before_the_first_batch_is_fatal() -> None:
    one = producer("a")
    one.completed(one.to_send()[0], GAP)
    assert one.fatal is GAP
    assert one.to_send() == []


def test_success_acknowledges_earlier_batches() -> None:
    one = producer("a", "b", "c")
    first, second, third = one.to_send()
    one.completed(second, STORED)
    one.completed(first, RETRY)
    one.completed(third, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert one.acknowledged[0] == ["a", "b", "c"]
    assert one.done


def test_encoded_batch_contains_the_values() -> None:
    (request,) = producer("abc").to_send()
    assert values_of([encoded(7, request)]) == ["a", "b", "c"]
