"""Portions of decoded records against a model that decodes all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AcquiredRange
from sharebroker_protocol.records.batches import CODECS, BatchBuilder, decode
from sharebroker_protocol.records.record import AcquiredRecords
from sharebroker_server.gateway.consume import record_decoding
from sharebroker_server.gateway.consume.record_decoding import DecodedPortion, Source, portions, rest_parts
from sharebroker_server.leader_calls.values import AcquireResult

LIMIT = 400
TAIL = st.sampled_from([b"", b"damaged", bytes(80)])


@st.composite
def sources(draw: st.DrawFn) -> Source:
    """Batches with gaps between them and perhaps a damaged end, and acquired ranges."""
    data, offset = b"", 0
    for codec in draw(st.lists(st.sampled_from(["none", "zstd"]), max_size=4)):
        offset += draw(st.integers(0, 2))
        builder = BatchBuilder(CODECS[codec], 1 << 20)
        for size in draw(st.lists(st.integers(0, 300), min_size=1, max_size=4)):
            builder.append(0, None, bytes(size))
        data += offset.to_bytes(8) + builder.build()[8:]
        offset += builder.count
    ranges: list[AcquiredRange] = []
    first = 0
    for gap, size in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=5)):
        first += gap
        ranges.append(AcquiredRange(first, first + size, 1, len(ranges) + 1, 0.0))
        first += size + 1
    return AcquireResult("id", 0, ErrorCode.NONE, "", data + draw(TAIL), ranges), "flights"


def _model(source: Source) -> tuple[list[int], dict[int, int]]:
    """The offsets with records, and the acknowledge type of each other acquired offset."""
    result, topic = source
    runs = [
        AcquiredRecords(("id", topic), 0, (run.first, run.last), None)  # type: ignore[arg-type]
        for run in result.acquired
    ]
    found = decode(result.records, runs)
    types = {offset: int(gap.kind) for gap in found.unreadable for offset in range(gap.first, gap.last + 1)}
    return [record.offset for record in found.records], types


async def _portions(of: Sequence[Source]) -> list[DecodedPortion]:
    return [portion async for portion in portions(of, as_text=False)]


@given(st.lists(sources(), max_size=3))
def test_portions_equal_one_decoding_of_all_batches(given_sources: list[Source]) -> None:
    with patch.object(record_decoding, "PORTION_BYTES", LIMIT):
        found = asyncio.run(_portions(given_sources))
    records = [record.offset for portion in found for record in portion.records]
    types = [
        (offset, gap.type)
        for portion in found
        for gap in portion.unreadable
        for offset in range(gap.first_offset, gap.last_offset + 1)
    ]
    models = [_model(source) for source in given_sources]
    assert records == [offset for offsets, _ in models for offset in offsets]
    assert types == [item for _, types_of in models for item in types_of.items()]
    for portion in found:
        sizes = [record.ByteSize() for record in portion.records]
        assert len(sizes) <= 1 or sum(sizes) <= LIMIT


@given(st.lists(sources(), max_size=3))
def test_each_acquired_offset_is_delivered_acknowledged_or_returned_once(given_sources: list[Source]) -> None:
    with patch.object(record_decoding, "PORTION_BYTES", LIMIT):
        first, *others = asyncio.run(_portions(given_sources))
    returned = [
        offset
        for part in rest_parts(given_sources, first.rest)
        for batch in part.batches
        for offset in range(batch.first, batch.last + 1)
    ]
    accounted = [record.offset for record in first.records] + returned
    for gap in first.unreadable:
        accounted += range(gap.first_offset, gap.last_offset + 1)
    acquired = [
        offset
        for result, _ in given_sources
        for run in result.acquired
        for offset in range(run.first, run.last + 1)
    ]
    assert sorted(accounted) == sorted(acquired)
    assert bool(returned) == bool(others)
