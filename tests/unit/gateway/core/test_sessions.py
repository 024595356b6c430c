"""Share sessions, row by row of Kafka's epoch table."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.core.fetch import (
    FetchContext,
    FetchIntent,
    begin_fetch,
)
from sharebroker_server.gateway.core.sessions import Session, SessionCache, next_epoch
from sharebroker_server.gateway.core.values import SessionKey

KEY = SessionKey("group", "member")


A, B, C = (TopicIdPartition("topic", index) for index in range(3))


LAST = 2**31 - 1


def opened(*partitions: TopicIdPartition, limit: int = 10) -> SessionCache:
    cache = SessionCache(limit, "gateway")
    cache.open(KEY, "connection", partitions, 0.0)
    return cache


def fetch(cache: SessionCache, epoch: int, *wanted: TopicIdPartition, **more: object) -> FetchContext:
    return begin_fetch(cache, FetchIntent(KEY, epoch, "connection", wanted, **more), 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epoch", "following"), [(-1, -1), (-7, -1), (0, 1), (1, 2), (LAST - 1, LAST), (LAST, 1)]
)
def test_next_epoch(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


def test_partitions_are_added_and_forgotten() -> None:
    cache = opened(A, B)
    assert fetch(cache, 1, C, A).partitions == [B, C, A]  # in turn: the epoch says who comes first
    assert fetch(cache, 2, A, forgotten=(A, B)).partitions == [C]
    assert fetch(cache, 3, forgotten=(C,)).partitions == []


@pytest.mark.parametrize(("epoch", "order"), [(0, [A, B, C]), (1, [B, C, A]), (2, [C, A, B]), (3, [A, B, C])])
def test_each_partition_is_first_in_its_turn(epoch: int, order: list[TopicIdPartition]) -> None:
    assert Session(KEY, "id", "connection", (A, B, C), 0.0).in_turn(epoch) == order


def test_partition_with_records_moves_to_the_end() -> None:
    session = Session(KEY, "id", "connection", (A, B, C), 0.0)
    session.reports(A, ErrorCode.NONE, has_records=True)
    session.reports(B, ErrorCode.NONE, has_records=False)
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
    cache.open(keys[1], "two", (), 0.0)  # opened anew elsewhere: the first connection owns it no more
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


def test_undo_advance_needs_that_no_request_followed() -> None:
    cache = opened(A)
    session = cache.advance(KEY, 1, 1.0)
    session.undo_advance(1)
    assert cache.advance(KEY, 1, 1.0).epoch == 2
    cache.advance(KEY, 2, 1.0)
    session.undo_advance(1)
    assert session.epoch == 3
    assert cache.get(KEY) is session
