"""Any bytes are rejected, or stored exactly as the producer sent them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import assign, parse_headers
from tests.unit.record_log.batches import LIMIT, batch

ERRORS = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}
batches = st.builds(
    batch,
    st.integers(1, 6),
    st.integers(0, 40),
    time=st.integers(0, 2**40),
    codec=st.sampled_from(range(5)),
)
idempotent = st.builds(batch, st.integers(1, 6), st.integers(0, 40), producer=st.just((9, 0, 0)))
requests = st.lists(batches, min_size=1, max_size=4) | idempotent.map(lambda data: [data])


def assigned(data: bytes, limit: int = LIMIT) -> list[bytes] | ErrorCode:
    """Returns the bytes that would be stored, or the reason for their rejection."""
    try:
        return [stored.data for stored in assign(data, parse_headers(data, limit), 1_000, 7)]
    except KafkaError as error:
        return error.code


@given(requests)
def test_request_is_split_at_batch_boundaries(request: list[bytes]) -> None:
    data = b"".join(request)
    headers = parse_headers(data, LIMIT)
    assert [header.size for header in headers] == [len(part) for part in request]
    batches = assign(data, headers, 50, 3)
    assert batches[0].base_offset == 50
    for before, after in pairwise(batches):
        assert after.base_offset == before.last_offset + 1
    assert [stored.data[16:] for stored in batches] == [part[16:] for part in request]


@given(st.binary(max_size=300))
def test_random_bytes_are_rejected(data: bytes) -> None:
    assert assigned(data) in ERRORS


@given(requests, st.data())
def test_truncated_request_is_rejected(request: list[bytes], draw: st.DataObject) -> None:
    data = b"".join(request)
    boundaries = {sum(len(part) for part in request[:i]) for i in range(1, len(request))}
    end = draw.draw(st.integers(0, len(data) - 1))
    result = assigned(data[:end])
    if end in boundaries:
        assert isinstance(result, list)
        assert len(result) < len(request)
    else:
        assert result in ERRORS


@given(requests, st.data())
def test_changed_byte_is_rejected_or_harmless(request: list[bytes], draw: st.DataObject) -> None:
    data = bytearray(b"".join(request))
    position = draw.draw(st.integers(0, len(data) - 1))
    data[position] ^= draw.draw(st.integers(1, 255))
    result = assigned(bytes(data))
    assert result in ERRORS if isinstance(result, ErrorCode) else result == assigned(b"".join(request))


@given(batches, st.integers(0, 2000))
def test_limit_applies_to_the_batch_size(data: bytes, limit: int) -> None:
    refused = assigned(data, limit) is ErrorCode.MESSAGE_TOO_LARGE
    assert refused == (len(data) > limit)
