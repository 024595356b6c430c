"""Requests of real clients: decoded correctly, encoded to the same bytes, harmless when mutated."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import codec_of, read_header, read_request, request_frame
from tests.property.kafka_wire.test_hostile_bytes import LENGTHS
from tests.support.kafka_corpus import Recorded, corpus
from tests.testkit.tables import each

RECORDED = list(corpus())


def test_corpus_has_clients_of_three_libraries() -> None:
    makers = {one.software.rstrip("0123456789.") for one in RECORDED}
    assert makers == {"apache-kafka-java-", "kafka-python-", "confluent-kafka-python-2.16.1-rdkafka-"}
    asked = {read_header(one.frame).api_key for one in RECORDED}
    assert {0, 1, 3, 10, 18, 22, 76, 78, 79} <= asked


@each("one", RECORDED)
def test_request_is_encoded_as_received(one: Recorded) -> None:
    header = read_header(one.frame)
    how = codec_of(header.api_key, header.version)
    message = read_request(one.frame, header, how)
    written = bytes(request_frame(header.correlation_id, header.client_id, how, message))
    assert written[4:] == one.frame


@pytest.mark.slow
def test_mutated_requests_are_rejected_or_read() -> None:
    for one in RECORDED:
        for at in range(len(one.frame)):
            take(one.frame[:at])
            for lie in LENGTHS:
                take(one.frame[:at] + lie + one.frame[at + len(lie) :])


@given(
    one=st.sampled_from(RECORDED),
    edits=st.lists(st.tuples(st.integers(0, 700), st.binary(max_size=8), st.integers(0, 8)), max_size=6),
)
def test_edited_requests_are_rejected_or_read(one: Recorded, edits: list[tuple[int, bytes, int]]) -> None:
    frame = one.frame
    for at, put, out in edits:
        frame = frame[:at] + put + frame[at + out :]
    take(frame)


def take(frame: bytes) -> None:
    """Reads a frame as the listener does; it supports fewer APIs."""
    with suppress(BadMessage, KeyError):
        header = read_header(frame)
        read_request(frame, header, codec_of(header.api_key, header.version))
