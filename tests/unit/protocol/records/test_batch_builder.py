"""Batches that are built can be read by Kafka's decoders: length, attributes, CRC, framing."""

from __future__ import annotations

import random

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.records.batch_builder import BatchBuilder, Header
from sharebroker_protocol.records.compression import CODECS

RANDOM = random.Random(932)
PAYLOADS = {
    "text": [b'{"flight":"UA%d","delay":null}' % n for n in range(3000)],
    "noise": [RANDOM.randbytes(200) for _ in range(1000)],
}


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("compression", CODECS)
def test_round_trip(compression: str, payload: str) -> None:
    builder = BatchBuilder(CODECS[compression], 1 << 20)
    headers: list[Header] = [("trace", b"1"), ("trace", None)]
    for n, value in enumerate(PAYLOADS[payload]):
        assert builder.append(1_700_000_000_000 + n, b"k%d" % n, value, headers)
    assert builder.count == len(PAYLOADS[payload])
    batch = DefaultRecordBatch(builder.build())
    assert batch.magic == 2
    assert batch.validate_crc()
    assert (batch.compression_type, batch.base_offset) == (CODECS[compression].number, 0)
    records = list(batch)
    assert [record.value for record in records] == PAYLOADS[payload]
    assert records[7].timestamp == 1_700_000_000_007
    assert (records[7].key, records[7].headers) == (b"k7", headers)


def test_key_and_value_may_be_absent() -> None:
    builder = BatchBuilder(CODECS["none"], 1000)
    assert builder.append(0, None, None)
    (record,) = DefaultRecordBatch(builder.build())
    assert (record.key, record.value, record.headers) == (None, None, [])


def test_full_batch_rejects_records() -> None:
    builder = BatchBuilder(CODECS["none"], 300)
    added = 0
    while builder.append(0, None, b"x" * 50):
        added += 1
    assert builder.count == added == 4
    assert builder.size <= 300
    assert len(list(DefaultRecordBatch(builder.build()))) == 4


def test_one_record_larger_than_a_batch_makes_a_batch() -> None:
    builder = BatchBuilder(CODECS["none"], 300)
    assert builder.append(0, None, b"x" * 1000)
    assert not builder.append(0, None, b"y")
