"""Compares our decoder with aiokafka's on the record batches in its input, a JSON object a line.

It runs without Spark: the decoder needs Arrow, which only Spark's environment has.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_spark.records import read_records
from tests.spark.programs.session import report

HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def ours(batches: bytes, first: int, last: int) -> list[Any]:
    """Returns the rows of our decoder; checks every array."""
    found = read_records(batches, first, last, HEADERS)
    for column in (found.keys, found.values, found.headers):
        column.validate(full=True)
    headers = [[(one["key"], one["value"]) for one in some] for some in found.headers.to_pylist()]
    columns = (found.offsets.tolist(), found.times.tolist(), found.keys.to_pylist(), found.values.to_pylist())
    return list(zip(*columns, headers, strict=True))


def theirs(batches: bytes, first: int, last: int) -> Iterator[Any]:
    """Returns the rows of aiokafka's decoder, which creates an object per record."""
    memory = MemoryRecords(batches)
    while memory.has_next():
        batch = memory.next_batch()
        for one in () if batch.is_control_batch else batch:
            if first <= one.offset <= last:
                yield (one.offset, one.timestamp, one.key, one.value, list(one.headers))


def compared(batches: bytes, first: int, last: int) -> str:
    """Returns the differences; empty if both agree."""
    mine, others = ours(batches, first, last), list(theirs(batches, first, last))
    return "" if mine == others else f"{mine!r} and not {others!r}"


def survived(batches: bytes, first: int, last: int) -> str:
    """Returns failures; empty if mutated batches are read or rejected."""
    try:
        ours(batches, first, last)
    except KafkaError as error:
        return "" if error.code is ErrorCode.CORRUPT_MESSAGE else repr(error)
    return ""


report(ready=True)
for line in sys.stdin:
    asked = json.loads(line)
    look = survived if asked["bent"] else compared
    try:
        report(fault=look(bytes.fromhex(asked["batches"]), asked["first"], asked["last"]))
    except Exception as error:
        report(fault=repr(error))
