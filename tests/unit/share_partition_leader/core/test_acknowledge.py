"""Acknowledgements: accepted holders and records, and the resulting transitions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_server.share_partition_leader.core.acknowledge import RejectReason
from sharebroker_server.share_partition_leader.core.events import (
    AcquireRequest,
    Completed,
    SharePartitionSettings,
)
from tests.testkit.tables import each
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    ack,
    acks,
    check,
    compact,
    done,
    fetch,
    opened,
    picture,
    show,
)

KINDS = {"gap": GAP, "accept": ACCEPT, "release": RELEASE, "reject": REJECT, "renew": RENEW}
AFTER = {
    "gap": "archived",
    "accept": "acknowledged",
    "release": "available",
    "reject": "archived",
    "renew": "acquired",
}


def _reason(refused: pytest.ExceptionInfo[KafkaError]) -> tuple[ErrorCode, str, str]:
    error = refused.value
    return error.code, error.metadata.get("offset", ""), error.metadata.get("reason", "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("log", "part", "window"),
    [
        pytest.param("0-9", "5", "0-4 acquired 1, 5 {} 1, 6-9 acquired 1", id="one"),
        pytest.param("0-9", "3-6", "0-2 acquired 1, 3-6 {} 1, 7-9 acquired 1", id="middle"),
        pytest.param("0-9", "5-9", "0-4 acquired 1, 5-9 {} 1", id="tail"),
        pytest.param("0-9 10-19", "8-12", "0-7 acquired 1, 8-12 {} 1, 13-19 acquired 1", id="across"),
        pytest.param("0-9 10-19", "10-19", "0-9 acquired 1, 10-19 {} 1", id="whole batch"),
        pytest.param("0-9 10-19", "1-19", "0 acquired 1, 1-19 {} 1", id="all but the first"),
    ],
)
def test_every_type_applies_to_every_shape_of_range(kind: str, log: str, part: str, window: str) -> None:
    share = opened()
    fetch(share, log, size=10)
    untouched = picture(share)
    written = ack(share, part, KINDS[kind])
    if kind == "renew":
        assert (picture(share), written) == (untouched, None)
    else:
        assert picture(share) == window.format(AFTER[kind])
        assert show(written) == f"0: {part} {AFTER[kind]} 1"


@pytest.mark.parametrize(
    ("types", "window", "written"),
    [
        pytest.param((1, 1, 1, 1), "", "4:", id="accepted"),
        pytest.param((2, 2, 2, 2), "0-3 available 1", "0: 0-3 available 1", id="all released"),
        pytest.param((1, 2, 1, 2), "1 available 1, 2 acknowledged 1, 3 available 1", "", id="alternating"),
        pytest.param((1, 1, 2, 3), "2 available 1, 3 archived 1", "2: 2 available 1, 3 archived 1", id="mix"),
        pytest.param((0, 3, 2, 1), "2 available 1, 3 acknowledged 1", "", id="gap and reject are equal"),
        pytest.param((4, 1, 1, 4), "0 acquired 1, 1-2 acknowledged 1, 3 acquired 1", "", id="renew ends"),
        pytest.param((1, 4, 4, 1), "1-2 acquired 1, 3 acknowledged 1", "1: 3 acknowledged 1", id="renew mid"),
        pytest.param((4, 4, 4, 4), "0-3 acquired 1", "", id="renew all"),
    ],
)
def test_each_offset_may_have_its_own_type(types: tuple[int, ...], window: str, written: str) -> None:
    share = opened()
    fetch(share, "0-3")
    result = ack(share, "0-3", types)
    assert picture(share) == window
    if written:
        assert show(result) == written


# --- rejections: one row per situation, for every type


def _held(member: str = "m1") -> SteppedPartition:
    share = opened()
    fetch(share, "0-9", member)
    return share


def _never_acquired() -> SteppedPartition:
    return opened(0, "6-9 available 1")


def _after_ack(kind: int) -> SteppedPartition:
    share = _held()
    ack(share, "5", kind)
    return share


def _expired() -> SteppedPartition:
    share = _held()
    share.expire(30.0)
    return share


def _passed_on() -> SteppedPartition:
    share = _after_ack(RELEASE)
    fetch(share, "0-9", "m2")
    return share


def _pending() -> SteppedPartition:
    share = _held()
    share.acknowledge("m1", acks("5", RELEASE), 0.0)
    return share


def _compacted() -> SteppedPartition:
    share = _after_ack(RELEASE)
    compact(share, 5, 5)
    return share


SITUATIONS = {
    "never acquired": (_never_acquired, RejectReason.NEVER_ACQUIRED),
    "nothing fetched": (opened, RejectReason.NOT_IN_FLIGHT),
    "released": (lambda: _after_ack(RELEASE), RejectReason.LOCK_LOST),
    "lock timed out": (_expired, RejectReason.LOCK_LOST),
    "another's": (lambda: _held("m2"), RejectReason.HELD_BY_ANOTHER_MEMBER),
    "released, then acquired by another member": (_passed_on, RejectReason.HELD_BY_ANOTHER_MEMBER),
    "accepted": (lambda: _after_ack(ACCEPT), RejectReason.ALREADY_ACKNOWLEDGED),
    "rejected": (lambda: _after_ack(REJECT), RejectReason.ALREADY_ACKNOWLEDGED),
    "pending": (_pending, RejectReason.ACKNOWLEDGEMENT_PENDING),
    "compacted": (_compacted, RejectReason.ALREADY_ACKNOWLEDGED),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("prepare", "reason"), SITUATIONS.values(), ids=SITUATIONS)
def test_record_not_held_by_the_member_is_rejected_with_the_reason(
    prepare: Callable[[], SteppedPartition], reason: RejectReason, kind: str
) -> None:
    share = prepare()
    before = picture(share, members=True)
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m1", acks("5", KINDS[kind]), 0.0)
    assert _reason(refused) == (ErrorCode.INVALID_RECORD_STATE, "5", reason.value)
    assert picture(share, members=True) == before
    check(share)


@each("kind", KINDS)
@each("back", ["release", "timeout"])
def test_token_of_an_earlier_acquisition_is_rejected(kind: str, back: str) -> None:
    share = opened()
    early = fetch(share, "0-9")[0].token
    if back == "release":
        ack(share, "5", RELEASE)
    else:
        share.expire(30.0)
    late = fetch(share, "0-9", now=30.0)[0].token
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m1", acks("5", KINDS[kind], token=early), 31.0)
    assert _reason(refused) == (ErrorCode.INVALID_RECORD_STATE, "5", "stale_token")
    share.acknowledge("m1", acks("5", KINDS[kind], token=late), 31.0)


def test_without_a_token_the_member_alone_is_checked() -> None:
    share = opened()
    fetch(share, "0-9")
    ack(share, "5", RELEASE)
    fetch(share, "0-9")
    assert show(ack(share, "5")) == "0: 5 acknowledged 2"


@pytest.mark.parametrize(
    ("start", "stored", "log", "part", "code"),
    [
        pytest.param(0, "", "0-9", "10", ErrorCode.INVALID_REQUEST, id="first past the window"),
        pytest.param(0, "", "0-9", "10-20", ErrorCode.INVALID_REQUEST, id="all past the window"),
        pytest.param(0, "", "0-9", "5-10", ErrorCode.INVALID_REQUEST, id="last past the window"),
        pytest.param(0, "", "0-9", "0-100", ErrorCode.INVALID_REQUEST, id="far past the window"),
        pytest.param(10, "", "", "5-12", ErrorCode.INVALID_REQUEST, id="over the SPSO of an empty window"),
        pytest.param(10, "", "", "10", ErrorCode.INVALID_RECORD_STATE, id="on an empty window"),
        pytest.param(10, "", "", "15-20", ErrorCode.INVALID_RECORD_STATE, id="after an empty window"),
    ],
)
def test_ranges_beyond_the_acquired_records_are_rejected(
    start: int, stored: str, log: str, part: str, code: ErrorCode
) -> None:
    share = opened(start, stored)
    fetch(share, log)
    before = picture(share)
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m1", acks(part), 0.0)
    assert refused.value.code is code
    assert picture(share) == before


@pytest.mark.parametrize(
    ("part", "fine"),
    [("0-9", True), ("0-29", True), ("15-29", True), ("0-15", False), ("12-15", False), ("20-29", True)],
)
def test_ranges_over_a_gap_in_the_log_end_on_a_record(part: str, fine: bool) -> None:
    share = opened()
    fetch(share, "0-9")
    fetch(share, "20-29")
    if fine:
        assert share.acknowledge("m1", acks(part), 0.0) is not None
    else:
        with pytest.raises(KafkaError, match="past the acquired records"):
            share.acknowledge("m1", acks(part), 0.0)


def test_types_for_offsets_in_a_gap_are_ignored() -> None:
    share = opened()
    fetch(share, "0-1")
    fetch(share, "4-5")
    assert show(ack(share, "0-5", (2, 2, 1, 3, 2, 2))) == "0: 0-1 available 1, 4-5 available 1"


# --- below the SPSO


@each("kind", KINDS)
@each("part", ["0-2", "2-5"])
def test_with_a_token_offsets_below_the_spso_are_rejected(part: str, kind: str) -> None:
    share = opened()
    token = fetch(share, "0-9")[0].token
    ack(share, "0-3")
    untouched = picture(share)
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m1", acks(part, KINDS[kind], token=token), 0.0)
    assert _reason(refused) == (ErrorCode.INVALID_RECORD_STATE, part[0], "not_in_flight")
    assert picture(share) == untouched


@each("kind", KINDS.values())
@each("part", ["0", "0-9", "3-5", "9"])
def test_without_a_token_offsets_below_the_spso_are_ignored(part: str, kind: int) -> None:
    share = opened()
    fetch(share, "0-9")
    fetch(share, "10-19")
    ack(share, "0-9")
    assert share.acknowledge("m1", acks(part, kind), 0.0) is None
    assert share.acknowledge("a stranger", acks(part, kind), 0.0) is None
    assert picture(share) == "10-19 acquired 1"


@pytest.mark.parametrize("types", [(ACCEPT,), (GAP,) * 10 + (ACCEPT,) * 10, (RENEW,) * 10 + (ACCEPT,) * 10])
def test_the_part_below_the_spso_is_skipped(types: tuple[int, ...]) -> None:
    share = opened()
    fetch(share, "0-9")
    fetch(share, "10-29")
    ack(share, "0-9")
    assert show(ack(share, "0-19", types)) == "20:"


def test_types_count_from_the_first_offset_even_if_it_is_skipped() -> None:
    share = opened()
    fetch(share, "0-9")
    ack(share, "0-3")
    assert show(ack(share, "2-5", (REJECT, REJECT, RELEASE, ACCEPT))) == "4: 4 available 1, 5 acknowledged 1"


# --- all or nothing


@each("bad", ["20", "25-27", "40-45"])
@each("good", ["0-9", "5", "0-3 7", "0-19"])
@each("kind", [ACCEPT, RELEASE, RENEW])
def test_one_rejected_batch_rejects_the_request(good: str, bad: str, kind: int) -> None:
    share = opened()
    fetch(share, "0-9 10-19", now=0.0)
    fetch(share, "20-29", "m2", now=0.0)
    with pytest.raises(KafkaError):
        share.acknowledge("m1", acks(f"{good} {bad}", kind), 10.0)
    assert picture(share, members=True) == "0-19 acquired 1 m1, 20-29 acquired 1 m2"
    check(share)
    # Nothing was renewed either.
    assert {lost.token for lost in share.expire(30.0).lost if lost.member == "m1"} != set()


def test_duplicate_offset_is_rejected() -> None:
    share = opened()
    fetch(share, "0-9")
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m1", acks("0-5 5-9"), 0.0)
    assert _reason(refused) == (ErrorCode.INVALID_RECORD_STATE, "5", "acknowledgement_pending")
    assert picture(share) == "0-9 acquired 1"


def test_an_offset_renewed_and_accepted_in_one_request_is_accepted() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", [AckBatch(0, 5, (RENEW,)), AckBatch(5, 9, (ACCEPT,))], 0.0)
    assert transition is not None
    done(share, transition)
    assert picture(share) == "0-4 acquired 1, 5-9 acknowledged 1"


def test_empty_request_writes_nothing() -> None:
    share = opened()
    fetch(share, "0-9")
    assert share.acknowledge("m1", [], 0.0) is None


# --- the delivery limit


@each("limit, count", [*product((2, 3, 5), range(1, 6))])
def test_a_release_at_the_limit_succeeds_and_archives(limit: int, count: int) -> None:
    settings = SharePartitionSettings(delivery_count_limit=limit)
    stored = f"0 available {count - 1}" if count > 1 else ""
    share = opened(stored=stored, settings=settings)
    fetch(share, "0")
    written = ack(share, "0", RELEASE)
    if count >= limit:
        assert (show(written), share.start_offset, picture(share)) == ("1:", 1, "")
    else:
        assert show(written) == f"0: 0 available {count}"


# --- sessions


def test_end_of_a_session_releases_its_records() -> None:
    share = opened()
    fetch(share, "0-9", "m1")
    fetch(share, "10-19", "m2")
    fetch(share, "20-29", "m1")
    ack(share, "5")
    transition = share.release_member("m1")
    assert transition is not None
    assert show(done(share, transition)) == "0: 0-4 available 1, 6-9 available 1, 20-29 available 1"
    assert picture(share, members=True) == (
        "0-4 available 1, 5 acknowledged 1, 6-9 available 1, 10-19 acquired 1 m2, 20-29 available 1"
    )


def test_the_end_of_a_session_keeps_locks_of_other_sessions() -> None:
    share = opened()
    for session, offset in (("a", 0), ("b", 10), ("", 20)):
        share.acquire(AcquireRequest("m1", 10, 10, session=session), offset, [(offset, offset + 9)], 0.0)
    share.acknowledge("m1", acks("0-4", RENEW), 1.0)  # from whichever session, they are the same acquisition
    transition = share.release_member("m1", "a")
    assert transition is not None
    assert show(done(share, transition)) == "0: 0-9 available 1"
    assert share.release_member("m1", "a") is None
    assert [(lock.first, lock.last) for lock in share.in_flight.held()] == [(10, 19), (20, 29)]


def test_a_foreign_record_in_the_batch_does_not_stop_the_release() -> None:
    """KAFKA-19953."""
    share = opened()
    fetch(share, "0-9", "m1")
    ack(share, "4-5", RELEASE)
    fetch(share, "0-9", "m2")
    transition = share.release_member("m1")
    assert transition is not None
    assert show(done(share, transition)) == "0: 0-3 available 1, 6-9 available 1"


def test_closed_session_archives_records_at_the_delivery_limit() -> None:
    share = opened(stored="0 available 4, 1-9 available 1")
    fetch(share, "0-9")
    transition = share.release_member("m1")
    assert transition is not None
    assert show(done(share, transition)) == "1:"


@pytest.mark.parametrize("member", ["m2", ""])
def test_a_member_without_records_releases_nothing(member: str) -> None:
    share = opened()
    fetch(share, "0-9")
    assert share.release_member(member) is None


def test_records_with_a_pending_acknowledgement_are_not_released() -> None:
    share = opened()
    fetch(share, "0-9")
    accepted = share.acknowledge("m1", acks("0-4"), 0.0)
    released = share.release_member("m1")
    assert accepted is not None
    assert released is not None
    assert show(done(share, released)) == "0: 5-9 available 1"
    assert show(done(share, accepted)) == "5:"
    assert share.release_member("m1") is None


def test_every_held_lock_can_be_listed() -> None:
    share = opened()
    first, second = fetch(share, "0-9", "m1")[0].token, fetch(share, "10-19", "m2")[0].token
    ack(share, "3")
    share.acknowledge("m2", acks("10-12"), 0.0)
    assert [(x.member, x.token, x.first, x.last) for x in share.in_flight.held()] == [
        ("m1", first, 0, 2),
        ("m1", first, 4, 9),
        ("m2", second, 10, 12),
        ("m2", second, 13, 19),
    ]


# --- renewal


def test_a_renewal_extends_the_lock_and_writes_nothing() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    assert ack(share, "0-4", RENEW, now=20.0) is None
    assert picture(share) == "0-9 acquired 1"
    assert [(x.first, x.last) for x in share.expire(30.0).lost] == [(5, 9)]
    assert share.next_deadline() == 50.0
    assert [(x.first, x.last) for x in share.expire(50.0).lost] == [(0, 4)]


def test_a_renewed_record_keeps_its_token_and_count() -> None:
    share = opened()
    token = fetch(share, "0-9")[0].token
    for now in (10.0, 20.0, 30.0):
        assert share.acknowledge("m1", acks("0-9", RENEW, token=token), now) is None
    assert share.acknowledge("m1", acks("0-9", ACCEPT, token=token), 40.0) is not None


def test_renewing_records_of_several_acquisitions_keeps_them_apart() -> None:
    share = opened()
    tokens = [fetch(share, part)[0].token for part in ("0-9", "10-19")]
    ack(share, "0-19", RENEW, now=10.0)
    assert [x.token for x in share.expire(40.0).lost] == tokens


def test_renewal_uses_the_current_lock_duration() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    share.settings = SharePartitionSettings(lock_duration=5.0)
    ack(share, "0-9", RENEW, now=10.0)
    assert share.expire(14.0).lost == ()
    assert len(share.expire(15.0).lost) == 1


@pytest.mark.parametrize("types", [(RENEW,), (ACCEPT, RENEW, ACCEPT)])
def test_renewals_can_be_disabled(types: tuple[int, ...]) -> None:
    share = opened(settings=SharePartitionSettings(renew_enabled=False))
    fetch(share, "0-2")
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m1", acks("0-2", types), 0.0)
    assert _reason(refused)[::2] == (ErrorCode.INVALID_RECORD_STATE, "renew_disabled")
    assert picture(share) == "0-2 acquired 1"


# --- results of a completion


@pytest.mark.parametrize(
    ("types", "completed"),
    [
        pytest.param((1, 1, 1, 1), Completed(True, 4, 0, 0), id="accepted: the SPSO moves"),
        pytest.param((2, 1, 1, 1), Completed(True, 3, 1, 0), id="one released"),
        pytest.param((0, 3, 2, 1), Completed(True, 1, 1, 2), id="one of each"),
        pytest.param((4, 1, 0, 3), Completed(False, 1, 0, 2), id="the first is still held"),
    ],
)
def test_a_completion_counts_changed_offsets(types: tuple[int, ...], completed: Completed) -> None:
    share = opened()
    fetch(share, "0-3")
    transition = share.acknowledge("m1", acks("0-3", types), 0.0)
    assert transition is not None
    assert share.complete([transition]) == completed
    assert share.complete([transition]) == Completed(False, 0, 0, 0)
