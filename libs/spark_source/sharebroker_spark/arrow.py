"""Record batches as Arrow: the columns of the format, of the offsets that a task is to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords

from sharebroker_spark.core.offsets import Range

ROWS: Final = 10_000
"""Rows of an Arrow batch at most."""


def schema_text(value_format: str) -> str:
    """The columns, as Spark's DDL."""
    value = "string" if value_format == "string" else "binary"
    return (
        f"key binary, value {value}, topic string, partition int, offset bigint, timestamp timestamp, "
        "headers array<struct<key: string, value: binary>>, delivery_count int, lock_deadline timestamp"
    )


class Columns:
    """Gathers rows of one range; `schema` is what Spark expects, column for column."""

    def __init__(self, schema: pa.Schema, one: Range, deadline_ms: int | None) -> None:
        self._schema = schema
        self._range = one
        self._deadline_ms = deadline_ms
        self._text = pa.types.is_string(schema.field("value").type)
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets: list[int] = []
        self._times: list[int] = []
        self._headers: list[Any] = []

    def add(self, record_batches: bytes) -> Iterator[pa.RecordBatch]:
        """Take what lies in the range; whatever is full comes out."""
        memory = MemoryRecords(record_batches)
        while memory.has_next():
            batch = memory.next_batch()
            if batch is None or batch.is_control_batch:
                continue
            self._read(batch)
            while len(self._offsets) >= ROWS:
                yield self._cut(ROWS)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What is left."""
        if self._offsets:
            yield self._cut(len(self._offsets))

    def _read(self, batch: Any) -> None:
        first, last = self._range.first, self._range.last
        for record in batch:
            if first <= record.offset <= last:
                self._offsets.append(record.offset)
                self._times.append(record.timestamp)
                self._keys.append(record.key)
                self._values.append(record.value)
                self._headers.append(record.headers)

    def _cut(self, rows: int) -> pa.RecordBatch:
        gathered: tuple[list[Any], ...] = (
            self._keys,
            self._values,
            self._offsets,
            self._times,
            self._headers,
        )
        parts: list[list[Any]] = [column[:rows] for column in gathered]
        for column in gathered:
            del column[:rows]
        return self._batch(rows, *parts)

    def _batch(
        self, rows: int, keys: Any, values: Any, offsets: Any, times: Any, headers: Any
    ) -> pa.RecordBatch:
        types = {field.name: field.type for field in self._schema}
        if self._text:
            values = [None if value is None else value.decode("utf-8", "replace") for value in values]
        deadline = None if self._deadline_ms is None else self._deadline_ms * 1000
        count = None if self._deadline_ms is None else self._range.delivery_count
        columns = {
            "key": pa.array(keys, types["key"]),
            "value": pa.array(values, types["value"]),
            "topic": pa.repeat(pa.scalar(self._range.topic, types["topic"]), rows),
            "partition": pa.repeat(pa.scalar(self._range.partition, types["partition"]), rows),
            "offset": pa.array(offsets, types["offset"]),
            "timestamp": pa.array([time * 1000 for time in times], pa.int64()).cast(types["timestamp"]),
            "headers": _headers(headers, types["headers"]),
            "delivery_count": pa.repeat(pa.scalar(count, types["delivery_count"]), rows),
            "lock_deadline": pa.repeat(pa.scalar(deadline, pa.int64()), rows).cast(types["lock_deadline"]),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)


def _headers(headers: list[Any], kind: pa.DataType) -> pa.Array:
    if not any(headers):
        return pa.array([[]] * len(headers), kind)
    return pa.array([[{"key": key, "value": value} for key, value in one] for one in headers], kind)
