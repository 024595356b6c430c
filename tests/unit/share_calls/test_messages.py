"""Calls between processes: what goes out as a message is what comes in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AckBatch, AcquiredRange, AcquireMode, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.share_calls.messages import (
    acknowledge_answers,
    acknowledge_call,
    acknowledge_request,
    acknowledged,
    acquire_answers,
    acquire_call,
    acquire_request,
    acquisitions,
    settle_answers,
    settle_call,
    settle_request,
    settlements,
)
from sharebroker_server.share_calls.remote import GRACE, RemoteShareCalls
from sharebroker_server.share_calls.values import (
    AcknowledgeCall,
    Acknowledged,
    AckPart,
    AcquireCall,
    Acquisition,
    Left,
    LeftReason,
    SettleCall,
    Settlement,
    SettlePart,
)

OFFSETS = st.integers(-1, 2**63 - 1)
INTS = st.integers(0, 2**31 - 1)
SECONDS = st.integers(0, 10**9).map(lambda ms: ms / 1000)
NAMES = st.text(max_size=8)
PLACES = st.builds(TopicIdPartition, NAMES, INTS)
CODES = st.sampled_from(ErrorCode)
RUNS = st.lists(st.builds(AcquiredRange, OFFSETS, OFFSETS, INTS, INTS, SECONDS), max_size=3)
FETCHES = st.builds(
    AcquireCall,
    NAMES,
    NAMES,
    st.lists(PLACES, max_size=3),
    SECONDS.filter(lambda seconds: seconds < 2**31 / 1000),
    INTS,
    INTS,
    INTS,
    INTS,
    st.sampled_from(AcquireMode),
)
TYPES = st.lists(st.integers(-128, 127), max_size=3).map(tuple)
BATCHES = st.builds(AckBatch, OFFSETS, OFFSETS, TYPES, st.none() | st.integers(1, 2**63 - 1))
DELAYS = st.integers(0, 2**31 - 1).map(lambda ms: ms / 1000)
PARTS = st.builds(AckPart, NAMES, INTS, st.lists(BATCHES, max_size=3), DELAYS)
GIVEN = Acquisition("t", 1, records=b"r", acquired=[AcquiredRange(0, 9, 1, 7, 12.5)])
ACKS = st.builds(AcknowledgeCall, NAMES, NAMES, st.lists(PARTS, max_size=3), st.booleans())


SAID = st.builds(AckBatch, OFFSETS, OFFSETS, st.tuples(st.integers(0, 4)), st.none())
SETTLES = st.builds(
    SettleCall,
    NAMES,
    NAMES,
    st.lists(st.builds(SettlePart, NAMES, INTS, st.lists(SAID, max_size=3)), max_size=3),
    st.booleans(),
    st.lists(NAMES, max_size=3).map(tuple),
)
LEFT = st.lists(st.builds(Left, OFFSETS, OFFSETS, st.sampled_from(LeftReason)), max_size=3)


@given(SETTLES)
def test_settlements(call: SettleCall) -> None:
    assert settle_call(settle_request(call)) == call


@given(st.lists(st.builds(Settlement, NAMES, INTS, CODES, NAMES, LEFT, RUNS), max_size=3))
def test_what_becomes_of_settlements(answers: list[Settlement]) -> None:
    assert settlements(settle_answers(answers)) == answers


@given(FETCHES)
def test_fetches(call: AcquireCall) -> None:
    assert acquire_call(acquire_request(call)) == call


@given(st.lists(st.builds(Acquisition, NAMES, INTS, CODES, NAMES, st.binary(max_size=9), RUNS), max_size=3))
def test_what_fetches_give(answers: list[Acquisition]) -> None:
    assert acquisitions(acquire_answers(answers)) == answers


@given(ACKS)
def test_acknowledgements(call: AcknowledgeCall) -> None:
    assert acknowledge_call(acknowledge_request(call)) == call


@given(st.lists(st.builds(Acknowledged, NAMES, INTS, CODES, NAMES), max_size=3))
def test_what_becomes_of_acknowledgements(answers: list[Acknowledged]) -> None:
    assert acknowledged(acknowledge_answers(answers)) == answers


class Stub:
    """A leader elsewhere: notes what it is asked, and within which time."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, float]] = []

    async def AcquireRecords(self, request: pb.AcquireRecordsRequest, *, timeout: float) -> Any:
        self.asked.append((request, timeout))
        return pb.AcquireRecordsResponse(partitions=acquire_answers([GIVEN]))

    async def AcknowledgeRecords(self, request: pb.AcknowledgeRecordsRequest, *, timeout: float) -> Any:
        self.asked.append((request, timeout))
        return pb.AcknowledgeRecordsResponse(partitions=acknowledge_answers([Acknowledged("t", 1)]))


async def test_a_leader_elsewhere_has_longer_than_the_fetch_waits() -> None:
    stub = Stub()
    calls = RemoteShareCalls(cast("Any", stub))
    fetch = AcquireCall("g", "m", [TopicIdPartition("t", 1)], 0.5, 10)
    answers: Sequence[object] = await calls.acquire(fetch)
    assert answers == [GIVEN]
    acknowledge = AcknowledgeCall("g", "m", [AckPart("t", 1, [])])
    answers = await calls.acknowledge(acknowledge, 3.0)
    assert answers == [Acknowledged("t", 1)]
    assert stub.asked == [
        (acquire_request(fetch), pytest.approx(0.5 + GRACE)),
        (acknowledge_request(acknowledge), 3.0),
    ]
