"""The session cache against a naive one: a list of sessions, each a plain dict."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquiredRange, TopicIdPartition
from sharebroker_server.gateway.core.share_sessions import (
    SessionCache,
    SessionKey,
    begin_acknowledge,
    begin_fetch,
)
from sharebroker_server.leader_calls.values import AcquireResult

LIMIT = 2
MEMBERS = st.sampled_from(["a", "b", "c"])
EPOCHS = st.one_of(st.integers(-1, 4), st.just("right"))
PARTS = st.lists(st.integers(0, 3), max_size=3, unique=True)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("fetch"), MEMBERS, EPOCHS, PARTS, PARTS, PARTS, PARTS),
        st.tuples(st.just("acknowledge"), MEMBERS, EPOCHS),
        st.tuples(st.just("disconnect"), st.sampled_from(["one", "two"])),
    ),
    max_size=40,
)


class Naive:
    """Sessions as dicts: `order` and `fresh` (returned in any case) hold indexes of partitions."""

    def __init__(self) -> None:
        self.sessions: list[dict[str, Any]] = []

    def of(self, member: str) -> dict[str, Any] | None:
        return next((session for session in self.sessions if session["member"] == member), None)

    def admit(self, member: str, epoch: int) -> dict[str, Any] | ErrorCode:
        session = self.of(member)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == -1:
            return session
        if session["epoch"] != epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session["epoch"] += 1
        return session

    def fetch(
        self, member: str, epoch: int, wanted: list[int], forgotten: list[int]
    ) -> tuple[str, dict[str, Any]] | ErrorCode:
        if epoch == 0:
            self.sessions = [session for session in self.sessions if session["member"] != member]
            if len(self.sessions) >= LIMIT:
                return ErrorCode.SHARE_SESSION_LIMIT_REACHED
            connection = "one" if member == "a" else "two"
            self.sessions.append(
                {
                    "member": member,
                    "connection": connection,
                    "epoch": 1,
                    "order": list(wanted),
                    "fresh": set(),
                }
            )
            return "first", self.sessions[-1]
        session = self.admit(member, epoch)
        if isinstance(session, ErrorCode):
            return session
        if epoch == -1:
            return "final", session
        for part in wanted:
            if part not in session["order"]:
                session["order"].append(part)
                session["fresh"].add(part)
        session["order"] = [part for part in session["order"] if part not in forgotten]
        session["fresh"] -= set(forgotten)
        return "next", session

    @staticmethod
    def answer(
        kind: str, session: dict[str, Any], full: list[int], bad: list[int], asked: list[int]
    ) -> list[int]:
        if kind == "final":
            return []
        returned = [part for part in asked if part in full or part in bad or part in session["fresh"]]
        for part in asked:
            if part in full:
                session["order"].remove(part)
                session["order"].append(part)
            session["fresh"].discard(part)
            if part in bad:
                session["fresh"].add(part)
        return asked if kind == "first" else returned


@given(STEPS)
def test_sessions_equal_the_naive_model(steps: list[tuple[Any, ...]]) -> None:
    cache, naive = SessionCache(LIMIT, "gateway"), Naive()
    for step in steps:
        play(cache, naive, *step)
        assert len(cache) == len(naive.sessions)
        for session in naive.sessions:
            present = cache.find(SessionKey("group", session["member"]))
            assert present.epoch == session["epoch"]
            assert [part.partition for part in present.partitions] == session["order"]


def play(cache: SessionCache, naive: Naive, kind: str, member: str, *more: Any) -> None:
    if kind == "disconnect":
        gone = {session.key.member_id for session in cache.disconnect(member)}
        assert gone == {session["member"] for session in naive.sessions if session["connection"] == member}
        naive.sessions = [session for session in naive.sessions if session["connection"] != member]
        return
    session = naive.of(member)
    epoch = more[0] if more[0] != "right" else (session["epoch"] if session else 1)
    if kind == "acknowledge":
        acknowledge(cache, naive, member, epoch)
    else:
        fetch(cache, naive, member, epoch, more[1:])


def acknowledge(cache: SessionCache, naive: Naive, member: str, epoch: int) -> None:
    expected = ErrorCode.INVALID_SHARE_SESSION_EPOCH if epoch == 0 else naive.admit(member, epoch)
    if isinstance(expected, ErrorCode):
        with pytest.raises(KafkaError) as rejected:
            begin_acknowledge(cache, SessionKey("group", member), epoch, 0.0)
        assert rejected.value.code is expected
        return
    context = begin_acknowledge(cache, SessionKey("group", member), epoch, 0.0)
    if context.final:
        assert cache.close(context.session)
        naive.sessions.remove(expected)


def fetch(cache: SessionCache, naive: Naive, member: str, epoch: int, lists: tuple[list[int], ...]) -> None:
    wanted, forgotten, full, bad = lists
    expected = naive.fetch(member, epoch, wanted, forgotten)
    begin = partial(
        begin_fetch,
        cache,
        SessionKey("group", member),
        epoch,
        "one" if member == "a" else "two",
        {TopicIdPartition("t", part): () for part in wanted},
        [TopicIdPartition("t", part) for part in forgotten],
        0.0,
    )
    if isinstance(expected, ErrorCode):
        with pytest.raises(KafkaError) as rejected:
            begin()
        assert rejected.value.code is expected
        return
    context = begin()
    kind, session = expected
    assert sorted(part.partition for part in context.partitions) == (
        [] if kind == "final" else sorted(session["order"])
    )
    results = {
        part: AcquireResult(
            *part,
            ErrorCode.UNKNOWN_TOPIC_ID if part.partition in bad else ErrorCode.NONE,
            acquired=[AcquiredRange(0, 9, 1, 1, 30.0)] if part.partition in full else [],
        )
        for part in context.partitions
    }
    asked = [part.partition for part in context.partitions]
    returned = [part.partition for part in context.reported(results)]
    assert returned == naive.answer(kind, session, full, bad, asked)
    if context.final:
        assert cache.close(context.session)
        naive.sessions.remove(session)
