"""Fetch sessions against a model of a broker that loses responses, evicts sessions and restarts."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.fetch_session import (
    FetchSession,
    Partition,
    Position,
    SessionRequest,
)
from tests.testkit.tables import each

A, B, C = ("t", 0), ("t", 1), ("u", 0)
LAST_EPOCH = 2**31 - 1


class Broker:
    """The session cache of a broker, with room for one session (Kafka: FetchManager, FetchSessionCache)."""

    def __init__(self) -> None:
        self.next_id = 1
        self.room = True
        self.session: tuple[int, int, dict[Partition, Position]] | None = None

    def serve(self, request: SessionRequest) -> tuple[int, int, Collection[Partition]]:
        """Returns the error, the session id and the partitions of the response."""
        session_id, epoch, changed, forgotten = request
        if epoch == 0:
            if self.session is not None and self.session[0] == session_id:
                self.session = None
            if not self.room:
                return 0, 0, list(changed)
            self.session = (self.next_id, 1, dict(changed))
            self.next_id += 1
            return 0, self.session[0], list(changed)
        if self.session is None or self.session[0] != session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, ()
        if self.session[1] != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, ()
        kept = {p: at for p, at in self.session[2].items() if p not in forgotten} | dict(changed)
        self.session = (session_id, epoch + 1, kept)
        return 0, session_id, list(kept)[::2]


positions = st.builds(Position, st.integers(0, 3), st.just(100), st.integers(0, 1))
wanted_sets = st.dictionaries(st.sampled_from([A, B, C]), positions)
events = st.sampled_from(["served", "served", "served", "request lost", "response lost", "evicted", "full"])


@given(st.lists(st.tuples(events, wanted_sets), max_size=30))
def test_the_broker_has_the_wanted_partitions_after_each_response(
    steps: list[tuple[str, dict[Partition, Position]]],
) -> None:
    broker, session, doubts = Broker(), FetchSession(), 0
    for event, wanted in steps:
        if event == "evicted":
            broker.session = None
        broker.room = event != "full"
        request = session.request(wanted)
        if event == "request lost":
            session.failed()
            continue
        error, session_id, partitions = broker.serve(request)
        if event == "response lost":
            session.failed()
            continue
        try:
            session.responded(error, session_id, partitions)
        except KafkaError:
            doubts += 1
            assert error
            assert event == "evicted" or not broker.room or not request.full
            assert session.request(wanted).full
        else:
            held = broker.session[2] if broker.session and broker.session[0] == session_id else None
            assert held == (wanted if session_id else None)
            if request.full:
                assert request.changed == wanted


@given(wanted_sets, wanted_sets)
def test_an_incremental_request_has_only_differences(
    first: dict[Partition, Position], second: dict[Partition, Position]
) -> None:
    session = FetchSession()
    session.request(first)
    session.responded(0, 7, list(first))
    request = session.request(second)
    assert request[:2] == (7, 1)
    assert dict(request.changed) == {p: at for p, at in second.items() if first.get(p) != at}
    assert set(request.forgotten) == first.keys() - second.keys()


@each(
    "error, session_id",
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7), (106, 7)],
)
def test_after_an_error_a_full_request_closes_the_session(error: int, session_id: int) -> None:
    session = FetchSession()
    session.request({A: Position(0, 1)})
    session.responded(0, 7, [A])
    session.request({A: Position(0, 1)})
    with pytest.raises(KafkaError):
        session.responded(error, 0, ())
    assert session.request({A: Position(0, 1)}) == (session_id, 0, {A: Position(0, 1)}, ())


@each("full, partitions", [(True, [A]), (True, [A, A]), (True, [A, B, C]), (False, [C])])
def test_a_response_with_other_partitions_is_rejected(full: bool, partitions: list[Partition]) -> None:
    session, wanted = FetchSession(), {A: Position(0, 1), B: Position(0, 1)}
    session.request(wanted)
    if not full:
        session.responded(0, 7, [A, B])
        session.request(wanted)
    with pytest.raises(KafkaError) as rejected:
        session.responded(0, 7, partitions)
    assert rejected.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert session.request(wanted).full


def test_the_epoch_after_the_last_one_is_1() -> None:
    session = FetchSession()
    session.request({})
    session.responded(0, 7, ())
    session._epoch = LAST_EPOCH
    assert session.request({}).session_epoch == LAST_EPOCH
    session.responded(0, 7, ())
    assert session.request({}).session_epoch == 1


def test_a_closed_session_is_replaced_by_a_full_request() -> None:
    """A broker without room responds with the session id 0, also to an incremental request."""
    session = FetchSession()
    session.request({A: Position(0, 1)})
    session.responded(0, 7, [A])
    session.request({A: Position(0, 1)})
    session.responded(0, 0, ())
    assert session.request({}) == (0, 0, {}, ())
