"""The record buffer: batches, order, retries, limits."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from sharebroker.producer.buffer import PendingBatch, Publication, RecordBuffer
from sharebroker.producer.config import ProducerConfig
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.partitioner import partition_of
from sharebroker_protocol.records.record import message_id_header

AWAY = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
REFUSED = KafkaError(ErrorCode.INVALID_RECORD)


class Wakes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def filled(partitions: int = 1, wake: Wakes | None = None, **config: Any) -> RecordBuffer:
    buffer = RecordBuffer(ProducerConfig(**config), wake or Wakes(), lambda n: n - 1)
    buffer.set_partitions("t", partitions)
    return buffer


def add(
    buffer: RecordBuffer, value: bytes = b"v", partition: int | None = 0, now: float = 0.0
) -> Publication:
    return buffer.append("t", partition, (0, None, value, ()), now)


def values(batches: list[PendingBatch]) -> list[bytes]:
    return [record.value for batch in batches for record in DefaultRecordBatch(batch.data)]


def test_records_of_a_partition_are_one_batch_and_one_wake_up() -> None:
    buffer = filled(wake=(wakes := Wakes()))
    for value in (b"1", b"2", b"3"):
        add(buffer, value)
    assert wakes.count == 1
    (batches,) = buffer.drain(0.0, flush=False)
    assert values(batches) == [b"1", b"2", b"3"]
    assert buffer.drain(0.0, flush=False) == []


def test_a_message_id_chooses_the_partition_of_a_record_without_key() -> None:
    buffer = filled(partitions=8)
    header = message_id_header("an id")
    for key, chosen_by in ((None, b"an id"), (b"key", b"key")):
        publication = buffer.append("t", None, (0, key, b"v", (header,)), 0.0)
        assert publication._batch.partition == partition_of(chosen_by, 8)


def test_offsets_continue_over_batches_of_a_request() -> None:
    buffer = filled(batch_size=200)
    sent = [add(buffer, b"x" * 50) for _ in range(5)]
    (batches,) = buffer.drain(0.0, flush=False)
    assert [batch.builder.count for batch in batches] == [2, 2, 1]
    assert not sent[0].done
    buffer.complete(batches, 1000, 77)
    assert [publication.result(0).offset for publication in sent] == [1000, 1001, 1002, 1003, 1004]
    assert sent[0].result(0) == ("t", 0, 1000, 77)
    assert (buffer.size, buffer.unconfirmed) == (0, set())


def test_one_request_per_partition_in_flight() -> None:
    buffer = filled(partitions=2, wake=(wakes := Wakes()))
    add(buffer, b"1")
    (first,) = buffer.drain(0.0, flush=False)
    add(buffer, b"2")
    add(buffer, b"other", partition=1)
    assert wakes.count == 2  # not for the busy partition
    assert [values(batches) for batches in buffer.drain(0.0, flush=False)] == [[b"other"]]
    buffer.complete(first, 0, -1)
    assert [values(batches) for batches in buffer.drain(0.0, flush=False)] == [[b"2"]]


def test_retriable_batch_is_retried_first_with_back_off() -> None:
    buffer = filled(retry_backoff_ms=100, retry_backoff_max_ms=250)
    add(buffer, b"1")
    now = 0.0
    for wait in (0.1, 0.2, 0.25, 0.25):
        (batches,) = buffer.drain(now, flush=True)
        add(buffer, b"later")
        buffer.fail(batches, AWAY, now)
        assert buffer.drain(now, flush=True) == []
        assert buffer.next_deadline() == pytest.approx(now + wait)
        now += wait
    (batches,) = buffer.drain(now, flush=True)
    assert values(batches)[0] == b"1"


def test_fatal_error_fails_each_record() -> None:
    buffer = filled()
    sent = [add(buffer), add(buffer)]
    (batches,) = buffer.drain(0.0, flush=False)
    buffer.fail(batches, REFUSED, 0.0)
    for publication in sent:
        with pytest.raises(KafkaError) as caught:
            publication.result(0)
        assert caught.value is REFUSED
    assert buffer.unconfirmed == set()
    assert add(buffer) is not None
    assert len(buffer.drain(0.0, flush=False)) == 1


def test_retries_end_with_the_delivery_timeout() -> None:
    buffer = filled(delivery_timeout_ms=1000)
    sent = add(buffer)
    (batches,) = buffer.drain(0.5, flush=False)
    buffer.fail(batches, AWAY, 1.0)
    with pytest.raises(KafkaError) as caught:
        sent.result(0)
    assert caught.value is AWAY


def test_only_open_batches_linger() -> None:
    buffer = filled(linger_ms=100, batch_size=200)
    add(buffer, b"x" * 50)
    assert buffer.drain(0.05, flush=False) == []
    assert buffer.next_deadline() == pytest.approx(0.1)
    add(buffer, b"x" * 50)
    add(buffer, b"x" * 50, now=0.05)
    (batches,) = buffer.drain(0.05, flush=False)
    assert [batch.builder.count for batch in batches] == [2]
    buffer.complete(batches, 0, -1)
    assert buffer.next_deadline() == pytest.approx(0.15)
    assert len(buffer.drain(0.06, flush=True)) == 1
    assert buffer.next_deadline() is None


def test_request_size_is_limited_per_partition() -> None:
    buffer = filled(batch_size=200, max_request_size=250)
    for _ in range(6):
        add(buffer, b"x" * 50)
    (batches,) = buffer.drain(0.0, flush=False)
    assert len(batches) == 1
    buffer.complete(batches, 0, -1)
    assert len(buffer.drain(0.0, flush=False)) == 1


def test_invalid_records_are_rejected() -> None:
    buffer = filled(partitions=2, max_request_size=100)
    with pytest.raises(KafkaError) as caught:
        add(buffer, b"x" * 100)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    for partition in (-1, 2):
        with pytest.raises(KafkaError) as caught:
            add(buffer, partition=partition)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert buffer.size == 0


def test_buffer_is_full_until_batches_complete() -> None:
    buffer = filled(buffer_memory=100)
    add(buffer, b"x" * 90)
    assert buffer.full
    (batches,) = buffer.drain(0.0, flush=False)
    assert buffer.full
    buffer.complete(batches, 0, -1)
    assert not buffer.full


def test_added_partitions_are_used_at_once() -> None:
    buffer = filled(partitions=1)
    add(buffer)
    buffer.set_partitions("t", 3)
    add(buffer, partition=2)
    assert sorted(batches[0].partition for batches in buffer.drain(0.0, flush=False)) == [0, 2]


def test_abandon_fails_all_batches() -> None:
    buffer = filled()
    under_way = add(buffer)
    buffer.drain(0.0, flush=False)
    waiting = add(buffer)
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    buffer.abandon(error)
    for publication in (under_way, waiting):
        with pytest.raises(KafkaError) as caught:
            publication.result(0)
        assert caught.value is error


def begun(**config: Any) -> RecordBuffer:
    """A buffer whose producer has the id 7."""
    buffer = filled(**config)
    assert buffer.sequences is not None
    buffer.sequences.begin(7, 0)
    return buffer


def drained(buffer: RecordBuffer, now: float = 0.0) -> list[PendingBatch]:
    (batches,) = buffer.drain(now, flush=True)
    buffer.number(batches, now)
    return batches


def numbers(batches: list[PendingBatch]) -> list[tuple[int, int, int]]:
    headers = [DefaultRecordBatch(batch.data) for batch in batches]
    assert all(header.validate_crc() for header in headers)
    return [(header.producer_id, header.producer_epoch, header.base_sequence) for header in headers]


def test_batches_of_a_request_have_consecutive_sequences() -> None:
    buffer = begun(batch_size=200)
    for _ in range(5):
        add(buffer, b"x" * 50)
    batches = drained(buffer)
    assert numbers(batches) == [(7, 0, 0), (7, 0, 2), (7, 0, 4)]
    buffer.complete(batches, 0, -1)
    add(buffer)
    assert numbers(drained(buffer)) == [(7, 0, 5)]


def test_batches_have_no_sequence_without_idempotence() -> None:
    buffer = filled(enable_idempotence=False)
    add(buffer)
    assert numbers(drained(buffer)) == [(-1, -1, -1)]


def test_a_failed_request_is_sent_again_unchanged() -> None:
    """The leader compares the sequence numbers of whole requests."""
    buffer = begun(batch_size=200, delivery_timeout_ms=10_000)
    expired = add(buffer, b"x" * 50)
    for _ in range(4):
        add(buffer, b"x" * 50, now=5.0)
    first = drained(buffer, 5.0)
    sent = [batch.data for batch in first]
    buffer.expire(10.0)
    buffer.fail(first, AWAY, 10.0)
    add(buffer, b"later", now=10.0)
    assert [batch.data for batch in drained(buffer, 11.0)] == sent
    buffer.complete(first, 0, -1)
    assert numbers(drained(buffer, 11.0)) == [(7, 0, 5)]
    with pytest.raises(KafkaError, match="was not confirmed"):
        expired.result(0)


@pytest.mark.parametrize("error", [REFUSED, AWAY])
def test_sequences_begin_again_after_a_request_that_failed_for_good(error: KafkaError) -> None:
    buffer = begun(delivery_timeout_ms=1000)
    add(buffer, partition=0)
    buffer.fail(drained(buffer), error, 1.0)
    add(buffer, now=1.0)
    assert numbers(drained(buffer, 1.0)) == [(7, 1, 0)]


def test_sequences_begin_again_after_a_request_that_waited_for_too_long() -> None:
    buffer = begun(delivery_timeout_ms=1000)
    add(buffer)
    buffer.fail(drained(buffer), AWAY, 0.5)
    assert buffer.expire(1.0)
    assert buffer.next_deadline() is None
    add(buffer, now=1.0)
    assert numbers(drained(buffer, 1.0)) == [(7, 1, 0)]


def test_missing_state_of_a_producer_renumbers_the_request() -> None:
    buffer = begun()
    add(buffer)
    buffer.complete(drained(buffer), 0, -1)
    sent = add(buffer)
    batches = drained(buffer)
    assert numbers(batches) == [(7, 0, 1)]
    buffer.fail(batches, KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0.0)
    assert not sent.done
    assert numbers(drained(buffer, 1.0)) == [(7, 1, 0)]


@given(
    st.lists(st.integers(0, 2), max_size=40),
    st.lists(st.sampled_from(["ok", "away", "refused"]), max_size=20),
)
def test_partition_order_survives_failures(sent: list[int], outcomes: list[str]) -> None:
    buffer = filled(partitions=3, batch_size=150, max_request_size=300)
    stored: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    refused: set[bytes] = set()
    waiting = [(partition, b"%04d" % n) for n, partition in enumerate(sent)]
    results = iter(outcomes)
    now = 0.0
    while waiting or buffer.unconfirmed:
        now += 1.0
        for partition, value in waiting[:5]:
            add(buffer, value, partition, now)
        del waiting[:5]
        for batches in buffer.drain(now, flush=True):
            result = next(results, "ok")
            if result == "away":
                buffer.fail(batches, AWAY, now)
                continue
            if result == "refused":
                refused.update(values(batches))
                buffer.fail(batches, REFUSED, now)
                continue
            stored[batches[0].partition] += values(batches)
            buffer.complete(batches, 0, -1)
    for partition in range(3):
        expected = [b"%04d" % n for n, p in enumerate(sent) if p == partition]
        assert stored[partition] == [value for value in expected if value not in refused]


def test_request_of_several_partitions_is_bounded() -> None:
    """The server rejects a gRPC request above 16 MiB."""
    million = 1_000_000
    buffer = filled(partitions=4, max_request_size=15 * million, buffer_memory=100 * million)
    for partition, size in enumerate([4, 9, 9, 15]):
        add(buffer, b"v" * (size * million - 100), partition)
    requests = [buffer.drain(0.0, flush=True) for _ in range(4)]
    sizes = [sum(batch.size for batches in request for batch in batches) for request in requests]
    assert all(size <= 15 * 1024 * 1024 for size in sizes)
    assert sum(sizes) == buffer.size
    assert requests[-1] == []
