"""The answers to a batch that leaves a gap in its producer's sequence."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core import sequence_gaps
from sharebroker_server.record_log.core.batch import BatchHeader, parse_headers
from sharebroker_server.record_log.core.producers import ProducerState, after_batch
from sharebroker_server.record_log.core.sequence_gaps import GAP_TIMEOUT_MS, SequenceGaps
from tests.unit.record_log.batches import LIMIT, batch

TOP = 2**31 - 1


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 7) -> BatchHeader:
    return parse_headers(batch(count, producer=(producer, epoch, sequence)), LIMIT)[0]


def sent(*batches: BatchHeader) -> ProducerState | None:
    state = None
    for one in batches:
        state = after_batch(state, one, 0, 0)
    return state


def is_rejected(gaps: SequenceGaps, state: ProducerState | None, batch: BatchHeader, now: int = 0) -> bool:
    try:
        gaps.check(state, batch, now)
    except KafkaError as error:
        return error.code is ErrorCode.KAFKA_STORAGE_ERROR
    return False


CASES = [
    ("the first", None, header(0), False),
    ("a first batch that is not the first of its producer", None, header(1), True),
    ("the next", sent(header(0, 3)), header(3), False),
    ("one after the next", sent(header(0, 3)), header(4), True),
    ("an earlier one", sent(header(0, 3)), header(1), False),
    ("the next over the top", sent(header(TOP - 1, 2)), header(0), False),
    ("one after the next over the top", sent(header(TOP - 1, 2)), header(1), True),
    ("the first of a new epoch", sent(header(0, 3)), header(0, epoch=1), False),
    ("another one of a new epoch", sent(header(0, 3)), header(3, epoch=1), True),
    ("one of an older epoch", sent(header(0, epoch=4)), header(9, epoch=3), False),
]


@pytest.mark.parametrize(
    ("state", "batch", "rejected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_batches_that_leave_a_gap_are_rejected(
    state: ProducerState | None, batch: BatchHeader, rejected: bool
) -> None:
    assert is_rejected(SequenceGaps(), state, batch) is rejected


def test_gap_is_no_longer_rejected_after_its_timeout() -> None:
    gaps, state = SequenceGaps(), sent(header(0))
    assert is_rejected(gaps, state, header(2), now=100)
    assert is_rejected(gaps, state, header(3), now=100 + GAP_TIMEOUT_MS - 1)
    assert not is_rejected(gaps, state, header(2), now=100 + GAP_TIMEOUT_MS)
    assert not is_rejected(gaps, state, header(3), now=100 + GAP_TIMEOUT_MS)


def test_the_next_gap_begins_after_a_batch_in_order() -> None:
    gaps, state = SequenceGaps(), sent(header(0))
    assert is_rejected(gaps, state, header(2), now=0)
    assert not is_rejected(gaps, state, header(1), now=1)
    assert is_rejected(gaps, sent(header(0, 2)), header(3), now=GAP_TIMEOUT_MS)


def test_gap_of_a_new_epoch_has_its_own_time() -> None:
    gaps, state = SequenceGaps(), sent(header(0))
    assert is_rejected(gaps, state, header(2), now=0)
    assert is_rejected(gaps, state, header(1, epoch=1), now=GAP_TIMEOUT_MS)


def test_restart_gives_a_gap_the_whole_time_again() -> None:
    gaps, state = SequenceGaps(), sent(header(0))
    assert is_rejected(gaps, state, header(2), now=0)
    gaps.restart()
    assert is_rejected(gaps, state, header(2), now=GAP_TIMEOUT_MS)


def test_gap_ends_even_if_the_clock_is_set_back() -> None:
    gaps, state = SequenceGaps(), sent(header(0))
    assert is_rejected(gaps, state, header(2), now=10**9)
    assert is_rejected(gaps, state, header(2), now=0)
    assert not is_rejected(gaps, state, header(2), now=GAP_TIMEOUT_MS)


@pytest.mark.patches
def test_the_oldest_gap_is_replaced_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_gaps, "MAX_GAPS", 2)
    gaps = SequenceGaps()
    for producer in (1, 2, 3):
        assert is_rejected(gaps, None, header(5, producer=producer), now=0)
    later = GAP_TIMEOUT_MS
    outcomes = {n: is_rejected(gaps, None, header(5, producer=n), now=later) for n in (2, 3, 1)}
    assert outcomes == {1: True, 2: False, 3: False}
