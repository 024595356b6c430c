"""The batches a partition accepts from idempotent and transactional producers, by case."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import BatchHeader, parse_headers
from sharebroker_server.record_log.core.producers import (
    RETAINED_BATCHES,
    Marker,
    ProducerState,
    UnverifiedError,
    Verified,
    after_batch,
    after_marker,
    check_batch,
    find_repeated,
)
from tests.unit.record_log.batches import LIMIT, batch

P = 7
TOP = 2**31 - 1
FRESH = Verified(0, renews_epoch=True)


def header(sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False) -> BatchHeader:
    data = batch(count, producer=(P, epoch, sequence), transactional=transactional)
    return parse_headers(data, LIMIT)[0]


def sent(*batches: BatchHeader, state: ProducerState | None = None) -> ProducerState:
    """The producer after these batches, one offset behind the other."""
    offset = 0
    for one in batches:
        state = after_batch(state, one, offset, 1000 + offset)
        offset += one.record_count
    assert state is not None
    return state


def code(state: ProducerState | None, batch: BatchHeader, verified: Verified | None = None) -> ErrorCode:
    if find_repeated(state, batch) is not None:
        return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    try:
        check_batch(state, batch, verified)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


GAP, OLD = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER
FINE, FENCED = ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH

SEQUENCES = [
    ("the first", None, header(0), FINE),
    ("any first batch of an unknown producer", None, header(40), FINE),
    ("the next", sent(header(0, 3)), header(3), FINE),
    ("a gap", sent(header(0, 3)), header(4), GAP),
    ("the same again with fewer records", sent(header(0, 3)), header(0, 2), GAP),
    ("one that overlaps", sent(header(0, 3)), header(2, 3), GAP),
    ("one that was never here, before the first", sent(header(5)), header(4), GAP),
    ("a batch no longer stored", sent(*(header(n) for n in range(6))), header(0), OLD),
    ("a batch that overlaps a stored one", sent(*(header(n) for n in range(6))), header(0, 2), GAP),
    ("over the top", sent(header(TOP - 1, 2)), header(0), FINE),
    ("within a batch over the top", sent(header(TOP, 3)), header(2), FINE),
    ("not over the top", sent(header(TOP - 1, 2)), header(TOP), GAP),
    ("an older epoch", sent(header(0, epoch=4)), header(1, epoch=3), FENCED),
    ("a new epoch from 0", sent(header(0, 3)), header(0, epoch=1), FINE),
    ("a new epoch not from 0", sent(header(0, 3)), header(3, epoch=1), GAP),
]


@pytest.mark.parametrize(
    ("state", "batch", "outcome"), [case[1:] for case in SEQUENCES], ids=[c[0] for c in SEQUENCES]
)
def test_sequence_of_a_batch_is_checked(
    state: ProducerState | None, batch: BatchHeader, outcome: ErrorCode
) -> None:
    assert code(state, batch) is outcome


def test_duplicates_of_the_last_batches_return_their_offsets() -> None:
    state = sent(*(header(2 * n, 2) for n in range(7)))
    assert len(state.batches) == RETAINED_BATCHES
    for n in range(2, 7):
        earlier = find_repeated(state, header(2 * n, 2))
        assert earlier is not None
        assert (earlier.base_offset, earlier.last_offset, earlier.timestamp) == (
            2 * n,
            2 * n + 1,
            1000 + 2 * n,
        )
    assert find_repeated(state, header(2, 2)) is None
    assert find_repeated(state, header(12, 2, epoch=1)) is None
    assert find_repeated(None, header(0)) is None


def test_new_epoch_drops_batches_of_the_old_one() -> None:
    state = sent(header(0, 3), header(0, 2, epoch=1))
    assert (state.epoch, [b.last_sequence for b in state.batches]) == (1, [1])


TXN = sent(header(0, 2, transactional=True))
ENDED = after_marker(TXN, Marker(P, 0, 9, commit=True), 2, 2000)

UNVERIFIED = ErrorCode.INVALID_TXN_STATE

TRANSACTIONS = [
    ("an unverified first batch", None, header(0, transactional=True), None, UNVERIFIED),
    ("a verified first batch", None, header(0, transactional=True), FRESH, FINE),
    ("the next of an open transaction", TXN, header(2, transactional=True), None, FINE),
    ("one outside, while it is open", TXN, header(2), None, UNVERIFIED),
    ("one outside, when it is over", ENDED, header(2), None, FINE),
    ("one late, when it is over", ENDED, header(2, transactional=True), None, UNVERIFIED),
    ("verified before the marker", ENDED, header(2, transactional=True), Verified(2, True), UNVERIFIED),
    ("verified after the marker", ENDED, header(2, transactional=True), Verified(3, False), FINE),
    ("a new epoch in an open one", TXN, header(0, epoch=1, transactional=True), None, UNVERIFIED),
    ("not from 0, with an epoch of its own", None, header(2, transactional=True), FRESH, GAP),
    ("not from 0, with a lasting epoch", None, header(2, transactional=True), Verified(0, False), FINE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "batch", "verified", "outcome"), [c[1:] for c in TRANSACTIONS], ids=[c[0] for c in TRANSACTIONS]
)
def test_transactional_batch_is_accepted_or_rejected(
    state: ProducerState | None, batch: BatchHeader, verified: Verified | None, outcome: ErrorCode
) -> None:
    assert code(state, batch, verified) is outcome


def test_missing_verification_raises_its_own_error() -> None:
    with pytest.raises(UnverifiedError):
        check_batch(None, header(0, transactional=True), None)


def test_a_transaction_begins_with_its_first_batch() -> None:
    state = sent(header(0, 3), header(3, transactional=True), header(4, transactional=True))
    assert (state.transaction_start, state.in_transaction) == (3, True)


def test_marker_ends_the_transaction_and_keeps_sequences_of_its_epoch() -> None:
    assert (ENDED.in_transaction, ENDED.marker, ENDED.coordinator_epoch) == (False, 2, 9)
    assert code(ENDED, header(2), None) is FINE
    assert code(ENDED, header(0), None) is GAP


def test_marker_with_a_new_epoch_restarts_sequences() -> None:
    state = after_marker(TXN, Marker(P, 1, 9, commit=False), 2, 2000)
    assert code(state, header(0, epoch=1)) is FINE
    assert code(state, header(1, epoch=1)) is GAP
    assert code(state, header(2)) is FENCED


def test_marker_creates_an_unknown_producer() -> None:
    state = after_marker(None, Marker(P, 3, 9, commit=False), 0, 2000)
    assert code(state, header(0, epoch=2)) is FENCED


@pytest.mark.parametrize(
    ("marker", "refusal"),
    [
        (Marker(P, 0, 8, commit=True), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (Marker(P, -1, 9, commit=True), FENCED),
    ],
)
def test_late_marker_is_rejected(marker: Marker, refusal: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        after_marker(ENDED, marker, 3, 3000)
    assert refused.value.code is refusal
