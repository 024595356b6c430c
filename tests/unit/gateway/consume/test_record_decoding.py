"""Records decoded by the gateway."""

from __future__ import annotations

from typing import Final

import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AcquiredRange
from sharebroker_protocol.records.batches import CODECS, BatchBuilder, Decoded, decode
from sharebroker_protocol.records.record import AcquiredRecords
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.consume import record_decoding
from sharebroker_server.gateway.consume.record_decoding import (
    PORTION_BYTES,
    Source,
    ack_parts,
    first_portion,
    portions,
    rest_parts,
)
from sharebroker_server.leader_calls.values import AcquireResult
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.consume.requests import consuming, own_membership, stream_of


async def test_records_are_decoded_with_all_fields(harness: Harness) -> None:
    builder = BatchBuilder(CODECS["gzip"], 1000)
    builder.append(1_700_000_000_000, b"N1", b"late", [("carrier", b"UA")])
    builder.append(1_700_000_000_001, None, b"\xff")
    builder.append(1_700_000_000_002, b"N3", None)
    first = own_membership(0, credit=4)
    first.subscribe.decode = first.subscribe.as_text = True
    async with consuming(harness, first) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        stream.deliver(0, 0, 3, builder.build())  # the last offset has no record
        message = await call.read()
        assert [(r.offset, r.WhichOneof("payload"), r.key) for r in message.records] == [
            (0, "text", b"N1"),
            (1, "value", b""),
            (2, None, b"N3"),
        ]
        record = message.records[0]
        assert (record.topic, record.text, record.lock_token, record.delivery_count) == (
            "flights",
            "late",
            7,
            1,
        )
        assert [(header.key, header.value) for header in record.headers] == [("carrier", b"UA")]
        # The gateway acknowledges the gap itself; the client receives nothing about it.
        await eventually(lambda: stream.acknowledged and stream.credit == 5)
        (gap,) = stream.requests[-2].acknowledgements
        assert (gap.first_offset, gap.last_offset, gap.type) == (3, 3, delivery.ACKNOWLEDGE_TYPE_GAP)
        stream.out.put_nowait(
            leader.DeliverResponse(
                results=[delivery.AcknowledgementResult(id=gap.id), delivery.AcknowledgementResult(id=5)]
            )
        )
        assert [result.id for result in (await call.read()).results] == [5]


MIB: Final = 1 << 20


def large_batch(records: int, size: int = MIB) -> bytes:
    """Returns a batch of about 1 KiB for each MiB of its records."""
    builder = BatchBuilder(CODECS["zstd"], 32 * MIB)
    for _ in range(records):
        builder.append(0, None, bytes(size))
    return builder.build()


def source(partition: int, data: bytes, last: int) -> Source:
    acquired = [AcquiredRange(0, last, 1, 7, 0.0)]
    return AcquireResult("id", partition, ErrorCode.NONE, "", data, acquired), "flights"


async def test_one_batch_beyond_the_message_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def counted(data: bytes, acquired: list[AcquiredRecords]) -> Decoded:
        found = decode(data, acquired)
        decoded.append(sum(len(record.value or b"") for record in found.records))
        return found

    monkeypatch.setattr(record_decoding, "decode", counted)
    data = large_batch(15)
    sources = [source(partition, data, 14) for partition in range(100)]  # 1.5 GiB
    portion = await first_portion(sources, as_text=False)
    assert [record.offset for record in portion.records] == [0, 1, 2]
    assert portion.rest == (0, 3)
    assert sum(decoded) == 15 * MIB
    first, second, *others = rest_parts(sources, portion.rest)
    assert (first.batches, first.delay, first.blameless) == ([(3, 14, (2,), 7)], 0.0, True)
    assert (second.partition, second.batches, len(others)) == (1, [(0, 14, (2,), 7)], 98)


async def test_a_larger_record_is_delivered_alone() -> None:
    sources = [source(0, large_batch(2, 6 * MIB), 1), source(1, large_batch(1, 10), 0)]
    found = [portion async for portion in portions(sources, as_text=False)]
    assert [[len(record.value) for record in portion.records] for portion in found] == [
        [6 * MIB],
        [6 * MIB],
        [10],
    ]
    assert [portion.rest for portion in found] == [(0, 1), (1, 0), None]


async def test_offsets_without_records_are_acknowledged_or_returned() -> None:
    sources = [source(0, large_batch(2, 3 * MIB), 4)]
    portion = await first_portion(sources, as_text=False)
    assert (portion.rest, portion.unreadable) == ((0, 1), [])
    assert [part.batches for part in rest_parts(sources, portion.rest)] == [[(1, 4, (2,), 7)]]
    *_, last = [portion async for portion in portions(sources, as_text=False)]
    assert [part.batches for part in ack_parts(last.unreadable)] == [[(2, 4, (0,), None)]]
    assert rest_parts(sources, last.rest) == []


async def test_an_invalid_header_does_not_cover_the_next_batch() -> None:
    damaged, good = bytearray(large_batch(1, 10)), bytearray(large_batch(1, 10))
    damaged[23:27] = (1000).to_bytes(4)  # the last offset delta, which the checksum covers
    good[:8] = (1).to_bytes(8)
    portion = await first_portion([source(0, bytes(damaged + good), 1)], as_text=False)
    assert [record.offset for record in portion.records] == [1]
    assert [(gap.first_offset, gap.last_offset, gap.type) for gap in portion.unreadable] == [
        (0, 0, delivery.ACKNOWLEDGE_TYPE_REJECT)
    ]


async def test_a_stream_divides_large_deliveries_into_messages(harness: Harness) -> None:
    first = own_membership(0, credit=20)
    first.subscribe.decode = True
    async with consuming(harness, first) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        stream.deliver(0, 0, 15, large_batch(15))  # the last offset has no record
        received: list[int] = []
        while len(received) < 15:  # single records first: the client has not read much yet
            received += [record.offset for record in (await call.read()).records]
        assert received == list(range(15))
        await eventually(lambda: stream.acknowledged and stream.credit == 21)
        stream.deliver(0, 0, 15, large_batch(15))
        messages = [await call.read() for _ in range(5)]
        assert [[record.offset for record in message.records] for message in messages] == [
            [first, first + 1, first + 2] for first in range(0, 15, 3)
        ]
        assert all(message.ByteSize() <= PORTION_BYTES for message in messages)
