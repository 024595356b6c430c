"""Share sessions: each row of Kafka's epoch table, and their part in ShareFetch and ShareAcknowledge."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AcquiredRange, TopicIdPartition
from sharebroker_server.gateway.core.share_sessions import (
    FetchContext,
    SessionCache,
    SessionKey,
    ShareSession,
    begin_acknowledge,
    begin_fetch,
    next_epoch,
    shown_error,
)
from sharebroker_server.leader_calls.values import AcquireResult
from tests.testkit.tables import each

KEY = SessionKey("group", "member")


A, B, C = (TopicIdPartition("topic", index) for index in range(3))


LAST = 2**31 - 1


def opened(*partitions: TopicIdPartition, limit: int = 10) -> SessionCache:
    cache = SessionCache(limit, "gateway")
    cache.open(KEY, "connection", partitions, 0.0)
    return cache


def fetch(
    cache: SessionCache,
    epoch: int,
    *wanted: TopicIdPartition,
    acks: Sequence[AckBatch] = (),
    forgotten: Sequence[TopicIdPartition] = (),
) -> FetchContext:
    return begin_fetch(cache, KEY, epoch, "connection", dict.fromkeys(wanted, acks), forgotten, 1.0)


def result(
    partition: TopicIdPartition, has_records: bool, error: ErrorCode = ErrorCode.NONE
) -> AcquireResult:
    acquired = [AcquiredRange(0, 9, 1, 1, 30.0)] if has_records else []
    return AcquireResult(*partition, error, acquired=acquired)


def results(**found: bool) -> dict[TopicIdPartition, AcquireResult]:
    return {part: result(part, found[name]) for name, part in (("a", A), ("b", B)) if name in found}


@pytest.mark.parametrize(
    ("epoch", "following"), [(-1, -1), (-7, -1), (0, 1), (1, 2), (LAST - 1, LAST), (LAST, 1)]
)
def test_next_epoch_follows_kafkas_rule(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


def test_partitions_are_added_and_forgotten() -> None:
    cache = opened(A, B)
    assert fetch(cache, 1, C, A).partitions == [B, C, A]  # in turn: the epoch determines the first
    assert fetch(cache, 2, A, forgotten=(A, B)).partitions == [C]
    assert fetch(cache, 3, forgotten=(C,)).partitions == []


@pytest.mark.parametrize(("epoch", "order"), [(0, [A, B, C]), (1, [B, C, A]), (2, [C, A, B]), (3, [A, B, C])])
def test_each_partition_is_first_in_its_turn(epoch: int, order: list[TopicIdPartition]) -> None:
    assert ShareSession(KEY, "id", "connection", (A, B, C), 0.0).in_turn(epoch) == order


def test_partition_with_records_moves_to_the_end() -> None:
    session = ShareSession(KEY, "id", "connection", (A, B, C), 0.0)
    session.reports(A, result(A, True, ErrorCode.NONE))
    session.reports(B, result(B, False, ErrorCode.NONE))
    assert list(session.partitions) == [B, C, A]


def test_session_limit_does_not_apply_to_reopening() -> None:
    cache = opened(A, limit=1)
    other = SessionKey("group", "other")
    with pytest.raises(KafkaError) as refused:
        cache.open(other, "connection", (), 0.0)
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    reopened = cache.open(KEY, "another", (B,), 0.0)
    assert (len(cache), reopened.epoch, list(reopened.partitions)) == (1, 1, [B])
    assert cache.close(reopened)
    assert cache.open(other, "connection", (), 0.0).key == other


@pytest.mark.parametrize(
    "key", [SessionKey("", "member"), SessionKey("group", ""), SessionKey("group", "m" * 37)]
)
def test_the_ids_of_a_missing_session_are_checked(key: SessionKey) -> None:
    cache = opened(A)
    cache.check(KEY)
    cache.check(SessionKey("group", "other"))
    with pytest.raises(KafkaError) as refused:
        cache.check(key)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_close_of_a_replaced_session_has_no_effect() -> None:
    cache = opened(A)
    old = cache.find(KEY)
    new = cache.open(KEY, "connection", (A,), 0.0)
    assert not cache.close(old)
    assert cache.find(KEY) is new


def test_session_inherits_id_and_partitions_of_the_replaced_one() -> None:
    cache = opened(A, B)
    first = cache.find(KEY)
    first.change((), (A,))
    second = cache.open(KEY, "another", (C,), 0.0)
    assert (second.id, second.forgotten) == (first.id, {A, B})
    cache.close(second)
    third = cache.open(KEY, "another", (C,), 0.0)
    assert third.id != second.id
    assert third.forgotten == set()


def test_disconnect_removes_the_sessions_of_the_connection() -> None:
    cache = SessionCache(10, "gateway")
    keys = [SessionKey("group", name) for name in ("a", "b", "c")]
    for key, connection in zip(keys, ("one", "one", "two"), strict=True):
        cache.open(key, connection, (), 0.0)
    cache.open(keys[1], "two", (), 0.0)  # opened again on another connection, which now owns it
    assert [session.key for session in cache.disconnect("one")] == [keys[0]]
    assert [session.key for session in cache.disconnect("two")] == keys[1:]
    assert cache.disconnect("two") == []
    assert (len(cache), cache.disconnected, cache.expired) == (0, 3, 0)


def test_expire_removes_idle_sessions() -> None:
    cache = SessionCache(10, "gateway")
    keys = [SessionKey("group", name) for name in ("a", "b", "c")]
    for at, key in enumerate(keys):
        cache.open(key, "connection", (), float(at))
    cache.advance(keys[0], 1, 5.0)
    assert [session.key for session in cache.expire(before=2.0)] == [keys[1]]
    assert cache.expire(before=2.0) == []
    assert [session.key for session in cache.expire(before=9.0)] == [keys[0], keys[2]]
    assert (cache.disconnected, cache.expired) == (0, 3)


def test_undo_advance_has_no_effect_after_a_later_request() -> None:
    cache = opened(A)
    session = cache.advance(KEY, 1, 1.0)
    session.undo_advance(1)
    assert cache.advance(KEY, 1, 1.0).epoch == 2
    cache.advance(KEY, 2, 1.0)
    session.undo_advance(1)
    assert session.epoch == 3
    assert cache.get(KEY) is session


A, B, C = (TopicIdPartition("topic", index) for index in range(3))


# The result of each request with a session at epoch 3, and without one: the error, or the next epoch.
EPOCHS = [
    ("fetch", -1, 3, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ("fetch", 0, 1, 1),
    ("fetch", 1, ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ("fetch", 3, 4, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ("fetch", 4, ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ("fetch", -2, ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ("acknowledge", -1, 3, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ("acknowledge", 0, ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    ("acknowledge", 2, ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ("acknowledge", 3, 4, ErrorCode.SHARE_SESSION_NOT_FOUND),
]


def request(cache: SessionCache, kind: str, epoch: int) -> int | ErrorCode:
    try:
        context = fetch(cache, epoch) if kind == "fetch" else begin_acknowledge(cache, KEY, epoch, 1.0)
    except KafkaError as error:
        return error.code
    return context.session.epoch


@each("kind, epoch, expected, without", EPOCHS)
def test_epoch_of_each_kind_of_request_is_checked(
    kind: str, epoch: int, expected: int | ErrorCode, without: int | ErrorCode
) -> None:
    cache = opened(A)
    cache.advance(KEY, 1, 0.0)
    cache.advance(KEY, 2, 0.0)
    assert request(cache, kind, epoch) == expected
    assert request(SessionCache(1, "gateway"), kind, epoch) == without


def test_rejected_request_does_not_change_the_session() -> None:
    cache = opened(A)
    for epoch in (2, 7):
        with pytest.raises(KafkaError) as refused:
            fetch(cache, epoch, B, forgotten=(A,))
        assert refused.value.metadata == {"expected_epoch": "1", "epoch": str(epoch)}
    assert list(cache.find(KEY).partitions) == [A]
    assert fetch(cache, 1).session.epoch == 2


def test_acknowledgements_cannot_open_a_session() -> None:
    cache = opened(A)
    before = cache.find(KEY)
    with pytest.raises(KafkaError) as refused:
        fetch(cache, 0, A, acks=[AckBatch(0, 1, (1,))])
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.violations
    assert cache.find(KEY) is before


def test_first_response_has_every_partition() -> None:
    context = fetch(SessionCache(1, "gateway"), 0, A, B)
    assert context.reported(results(a=True, b=False)) == [A, B]


def test_final_request_fetches_and_reports_nothing() -> None:
    context = fetch(opened(A), -1)
    assert context.final
    assert context.partitions == ()
    assert context.reported(results(a=True)) == []


# Outcomes of a partition that was in the first request, and whether each response includes it.
INCREMENTAL = [
    ([(False, ErrorCode.NONE)], [False]),
    ([(True, ErrorCode.NONE), (False, ErrorCode.NONE)], [True, False]),
    (
        [(False, ErrorCode.UNKNOWN_TOPIC_ID), (False, ErrorCode.NONE), (False, ErrorCode.NONE)],
        [True, True, False],
    ),
    ([(False, ErrorCode.UNKNOWN_TOPIC_ID)] * 3 + [(False, ErrorCode.NONE)], [True] * 4),
]


@pytest.mark.parametrize(("outcomes", "included"), INCREMENTAL)
def test_incremental_response_omits_unchanged_partitions(
    outcomes: list[tuple[bool, ErrorCode]], included: list[bool]
) -> None:
    session = ShareSession(KEY, "id", "connection", (A,), 0.0)
    reported = [session.reports(A, result(A, has, error)) for has, error in outcomes]
    assert reported == included


def test_added_partition_is_reported_once_without_records() -> None:
    cache = opened(A)
    assert fetch(cache, 1, B).reported(results(a=False, b=False)) == [B]
    assert fetch(cache, 2).reported(results(a=False, b=False)) == []


@pytest.mark.parametrize(
    ("has_records", "error", "included"),
    [(True, ErrorCode.NONE, True), (False, ErrorCode.UNKNOWN_TOPIC_ID, True), (False, ErrorCode.NONE, False)],
)
def test_partition_forgotten_during_the_fetch_stays_forgotten(
    has_records: bool, error: ErrorCode, included: bool
) -> None:
    session = ShareSession(KEY, "id", "connection", (A,), 0.0)
    assert session.reports(B, result(B, has_records, error)) is included
    assert list(session.partitions) == [A]


def test_overtaken_request_is_rejected() -> None:
    cache = opened(A)
    context = fetch(cache, 1)
    begin_acknowledge(cache, KEY, 2, 1.0)
    with pytest.raises(KafkaError) as refused:
        context.reported(results(a=True))
    assert refused.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH


@each("code", ErrorCode)
def test_returned_error_is_expected_by_kafkas_client(code: ErrorCode) -> None:
    known = {-1, 0, 2, 3, 6, 9, 29, 56, 74, 78, 100, 103}
    assert shown_error(code) == (code if code in known else ErrorCode.OFFSET_NOT_AVAILABLE)
