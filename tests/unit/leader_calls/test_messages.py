"""Messages between processes: a value that was encoded is decoded to the same value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import share_pb2 as gateway
from sharebroker_protocol.model import AckBatch, AcquiredRange, AcquireMode, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leader_calls.messages import (
    ack_results,
    acknowledge_call,
    acknowledge_request,
    acknowledge_response,
    acquire_call,
    acquire_request,
    acquire_response,
    acquire_results,
    append_call,
    append_results,
    deliver_input,
    deliver_open,
    deliver_output,
    deliver_request,
    fill_delivered,
    letters_call,
    letters_request,
    letters_response,
    letters_result,
    open_message,
    produce_request,
    produce_response,
    reconcile_call,
    reconcile_request,
    reconcile_response,
    reconcile_results,
    split_by_size,
)
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckPart,
    AckResult,
    AcquireCall,
    AcquireResult,
    AppendCall,
    AppendPart,
    AppendResult,
    DeliverInput,
    DeliverOpen,
    DeliverOutput,
    Delivery,
    LettersCall,
    LettersResult,
    LostRange,
    Problem,
    ReconcileCall,
    ReconcileResult,
    StreamAckResult,
    Unreconciled,
    UnreconciledReason,
)

OFFSETS = st.integers(-1, 2**63 - 1)
INTS = st.integers(0, 2**31 - 1)
SECONDS = st.integers(0, 10**9).map(lambda ms: ms / 1000)
DELAYS = st.integers(0, 2**31 - 1).map(lambda ms: ms / 1000)
NAMES = st.text(max_size=8)
PLACES = st.builds(TopicIdPartition, NAMES, INTS)
CODES = st.sampled_from(ErrorCode)
RUNS = st.lists(st.builds(AcquiredRange, OFFSETS, OFFSETS, INTS, INTS, SECONDS), max_size=3).map(tuple)
FETCHES = st.builds(
    AcquireCall,
    NAMES,
    NAMES,
    st.lists(PLACES, max_size=3).map(tuple),
    SECONDS.filter(lambda seconds: seconds < 2**31 / 1000),
    INTS,
    INTS,
    INTS,
    INTS,
    st.sampled_from(AcquireMode),
    lock=DELAYS,
)
TYPES = st.lists(st.integers(-128, 127), max_size=3).map(tuple)
BATCHES = st.builds(AckBatch, OFFSETS, OFFSETS, TYPES, st.none() | st.integers(1, 2**63 - 1))
PARTS = st.builds(
    AckPart,
    NAMES,
    INTS,
    st.lists(BATCHES, max_size=3).map(tuple),
    st.none() | DELAYS,
    DELAYS,
    st.booleans(),
    NAMES,
)
ACKS = st.builds(AcknowledgeCall, NAMES, NAMES, st.lists(PARTS, max_size=3).map(tuple), st.booleans())
TYPED = st.builds(AckBatch, OFFSETS, OFFSETS, st.tuples(st.integers(0, 4)), st.none())
RECONCILIATIONS = st.builds(
    ReconcileCall,
    NAMES,
    NAMES,
    st.lists(
        st.builds(
            AckPart,
            NAMES,
            INTS,
            st.lists(TYPED, max_size=3).map(tuple),
            st.none(),
            st.just(0.0),
            st.just(False),
            st.just(""),
        ),
        max_size=3,
    ).map(tuple),
    st.booleans(),
    st.lists(NAMES, max_size=3).map(tuple),
)
LEFT = st.lists(
    st.builds(Unreconciled, OFFSETS, OFFSETS, st.sampled_from(UnreconciledReason)), max_size=3
).map(tuple)
APPENDS = st.builds(
    AppendCall,
    st.lists(st.builds(AppendPart, NAMES, INTS, st.binary(max_size=9)), max_size=3).map(tuple),
    NAMES,
    st.booleans(),
)
APPENDED = st.builds(
    AppendResult,
    *(NAMES, INTS, CODES, NAMES, OFFSETS, OFFSETS, OFFSETS, OFFSETS),
    st.lists(OFFSETS, max_size=3).map(tuple),
)
DELIVERIES = st.builds(Delivery, NAMES, NAMES, INTS, st.binary(max_size=9), RUNS)
STREAM_RESULTS = st.builds(
    StreamAckResult, INTS, OFFSETS, OFFSETS, st.just(ErrorCode.NONE), st.just(""), SECONDS
) | st.builds(StreamAckResult, INTS, OFFSETS, OFFSETS, CODES.filter(bool), NAMES, st.just(0.0))
OUTPUTS = st.builds(
    DeliverOutput,
    st.lists(DELIVERIES, max_size=2),
    st.lists(STREAM_RESULTS, max_size=2),
    st.lists(st.builds(LostRange, NAMES, INTS, OFFSETS, OFFSETS, INTS), max_size=2),
    st.lists(st.builds(Problem, NAMES, INTS, CODES, NAMES), max_size=2),
)


@given(RECONCILIATIONS)
def test_reconcile_call_round_trip(call: ReconcileCall) -> None:
    assert reconcile_call(reconcile_request(call)) == call


@given(st.lists(st.builds(ReconcileResult, NAMES, INTS, CODES, NAMES, LEFT, RUNS), max_size=3))
def test_reconcile_results_round_trip(results: list[ReconcileResult]) -> None:
    assert reconcile_results(reconcile_response(results)) == results


@given(FETCHES)
def test_acquire_call_round_trip(call: AcquireCall) -> None:
    assert acquire_call(acquire_request(call)) == call


@given(st.lists(st.builds(AcquireResult, NAMES, INTS, CODES, NAMES, st.binary(max_size=9), RUNS), max_size=3))
def test_acquire_results_round_trip(results: list[AcquireResult]) -> None:
    assert acquire_results(acquire_response(results)) == results


@given(ACKS)
def test_acknowledge_call_round_trip(call: AcknowledgeCall) -> None:
    assert acknowledge_call(acknowledge_request(call)) == call


@given(st.lists(st.builds(AckResult, NAMES, INTS, CODES, NAMES), max_size=3))
def test_acknowledge_results_round_trip(results: list[AckResult]) -> None:
    assert ack_results(acknowledge_response(results)) == results


@given(APPENDS)
def test_append_call_round_trip(call: AppendCall) -> None:
    assert append_call(produce_request(call)) == call


@given(st.lists(APPENDED, max_size=3))
def test_append_results_round_trip(results: list[AppendResult]) -> None:
    assert append_results(produce_response(results)) == results


@given(
    st.builds(
        LettersCall,
        NAMES,
        INTS,
        NAMES,
        NAMES,
        INTS,
        INTS,
        INTS,
        OFFSETS,
        st.binary(max_size=9),
        st.lists(OFFSETS, max_size=3).map(tuple),
        st.lists(st.tuples(OFFSETS, OFFSETS), max_size=3).map(tuple),
    )
)
def test_letters_call_round_trip(call: LettersCall) -> None:
    assert letters_call(letters_request(call)) == call


@given(st.builds(LettersResult, CODES, NAMES, INTS))
def test_letters_result_round_trip(result: LettersResult) -> None:
    assert letters_result(letters_response(result)) == result


@given(st.builds(DeliverOpen, NAMES, NAMES, st.sampled_from(AcquireMode), INTS, st.booleans(), lock=DELAYS))
def test_deliver_open_round_trip(opening: DeliverOpen) -> None:
    assert deliver_open(open_message(opening)) == opening


@given(
    st.builds(
        DeliverInput,
        st.none() | st.frozensets(PLACES, max_size=3),
        st.integers(-(2**31), 2**31 - 1),
        st.just(()),
        st.booleans(),
        st.booleans(),
    )
)
def test_deliver_input_round_trip(message: DeliverInput) -> None:
    received = deliver_input(deliver_request(message))
    assert received._replace(acknowledgements=()) == message
    assert list(received.acknowledgements) == []


def test_deliver_input_keeps_acknowledgements() -> None:
    ack = delivery.Acknowledgement(id=1, topic_id="t", first_offset=5, type=delivery.ACKNOWLEDGE_TYPE_ACCEPT)
    assert list(deliver_input(deliver_request(DeliverInput(acknowledgements=[ack]))).acknowledgements) == [
        ack
    ]


@given(OUTPUTS)
def test_deliver_output_round_trip(output: DeliverOutput) -> None:
    message = pb.DeliverResponse()
    fill_delivered(message, output)
    assert deliver_output(message) == output


@given(OUTPUTS)
def test_consume_response_has_the_fields_of_deliver_response(output: DeliverOutput) -> None:
    message, sent = pb.DeliverResponse(), gateway.ConsumeResponse()
    fill_delivered(message, output)
    fill_delivered(sent, output)
    assert sent.SerializeToString() == message.SerializeToString()


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([0], [[0]]),
        ([4, 6], [[4, 6]]),
        ([4, 7, 3], [[4], [7, 3]]),
        ([11, 1], [[11], [1]]),
        ([1, 11, 1], [[1], [11], [1]]),
    ],
)
def test_records_are_split_by_size(sizes: list[int], groups: list[list[int]]) -> None:
    parts = [AppendPart("t", number, bytes(size)) for number, size in enumerate(sizes)]
    found = split_by_size(parts, 10)
    assert [[len(part.records) for part in group] for group in found] == groups
    assert [part for group in found for part in group] == parts
