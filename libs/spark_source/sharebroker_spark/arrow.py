"""Record batches as Arrow: the columns of the format, of the offsets that a task is to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords

from sharebroker_spark.core.offsets import Range
from sharebroker_spark.core.options import Options
from sharebroker_spark.decoding import Decoder, decoder

ROWS: Final = 10_000
"""Rows of an Arrow batch at most."""
_VALUES: Final = {
    "bytes": "binary",
    "string": "string",
    "json": "struct<{}>",
    "arrow": "array<struct<{}>>",
}
_PARSED: Final = ("json", "arrow")


def schema_text(options: Options) -> str:
    """The columns, as Spark's DDL."""
    value = _VALUES[options.value_format].format(options.value_schema)
    columns = (
        f"key binary, value {value}, topic string, partition int, offset bigint, timestamp timestamp, "
        "headers array<struct<key: string, value: binary>>, delivery_count int, lock_deadline timestamp"
    )
    if options.value_format in _PARSED:
        columns += ", rejected_reason string, rejected_value binary"
    if options.verdicts:
        columns += ", batch string"
    return columns


class MalformedError(ValueError):
    """A value that cannot be read, where the query is to fail then."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What is the same in all rows of a task: when its first lock ends, and its batch; None: no locks."""

    deadline_ms: int | None = None
    token: str | None = None


Rejected = Callable[[Range], None]
"""Told offsets that are left out because their value cannot be read."""


class Frame:
    """Makes Arrow batches of a schema, which is what Spark expects, column for column.

    Raises OptionError for a type that values cannot have.
    """

    def __init__(self, schema: pa.Schema, options: Options) -> None:
        self.schema = schema
        self.types = {field.name: field.type for field in schema}
        self.on_malformed = options.on_malformed
        self.decode: Decoder = decoder(options.value_format, self.types["value"])

    def repeated(self, name: str, value: Any, rows: int) -> pa.Array:
        """A column of one value."""
        kind = self.types[name]
        if pa.types.is_timestamp(kind):
            return pa.repeat(pa.scalar(value, pa.int64()), rows).cast(kind)
        return pa.repeat(pa.scalar(value, kind), rows)


class Columns:
    """Gathers rows of one range."""

    def __init__(self, frame: Frame, one: Range, delivery: Delivery, rejected: Rejected) -> None:
        self._frame = frame
        self._range = one
        self._delivery = delivery
        self._rejected = rejected
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets: list[int] = []
        self._times: list[int] = []
        self._headers: list[Any] = []

    def add(self, record_batches: bytes) -> Iterator[pa.RecordBatch]:
        """Take what lies in the range; whatever is full comes out. Raises MalformedError."""
        memory = MemoryRecords(record_batches)
        while memory.has_next():
            batch = memory.next_batch()
            if batch is None or batch.is_control_batch:
                continue
            self._read(batch)
            while len(self._offsets) >= ROWS:
                yield self._cut(ROWS)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What is left. Raises MalformedError."""
        if self._offsets:
            yield self._cut(len(self._offsets))

    def _read(self, batch: Any) -> None:
        first, last = self._range.first, self._range.last
        records = list(batch)
        if batch.base_offset < first or batch.next_offset - 1 > last:
            records = [record for record in records if first <= record.offset <= last]
        self._offsets += [record.offset for record in records]
        self._times += [record.timestamp for record in records]
        self._keys += [record.key for record in records]
        self._values += [record.value for record in records]
        self._headers += [record.headers for record in records]

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
        frame, types, one, delivery = self._frame, self._frame.types, self._range, self._delivery
        value, reasons = frame.decode(values)
        times = pa.array(times, pa.timestamp("ms", "UTC")).cast(types["timestamp"])
        columns = {
            "key": pa.array(keys, types["key"]),
            "value": value,
            "topic": frame.repeated("topic", one.topic, rows),
            "partition": frame.repeated("partition", one.partition, rows),
            "offset": pa.array(offsets, types["offset"]),
            "timestamp": times,
            "headers": _headers(headers, types["headers"]),
            "delivery_count": frame.repeated(
                "delivery_count", None if delivery.deadline_ms is None else one.delivery_count, rows
            ),
            "lock_deadline": frame.repeated(
                "lock_deadline", None if delivery.deadline_ms is None else delivery.deadline_ms * 1000, rows
            ),
        }
        if "batch" in types:
            columns["batch"] = frame.repeated("batch", delivery.token, rows)
        if "rejected_reason" in types:
            bad = (
                [values[row] if row in reasons else None for row in range(rows)] if reasons else [None] * rows
            )
            columns["rejected_reason"] = pa.array([reasons.get(row) for row in range(rows)], pa.string())
            columns["rejected_value"] = pa.array(bad, pa.binary())
        batch = pa.RecordBatch.from_arrays(
            [columns[name] for name in frame.schema.names], schema=frame.schema
        )
        return self._without(batch, offsets, reasons) if reasons and frame.on_malformed != "keep" else batch

    def _without(
        self, batch: pa.RecordBatch, offsets: list[int], reasons: Mapping[int, str]
    ) -> pa.RecordBatch:
        """The rows that could be read."""
        if self._frame.on_malformed == "fail":
            row, reason = min(reasons.items())
            raise MalformedError(
                f"The value at offset {offsets[row]} of {self._range.topic}-{self._range.partition} cannot "
                f"be read: {reason}. With onMalformed=keep or reject the query goes on."
            )
        for row in sorted(reasons):
            self._rejected(self._range._replace(first=offsets[row], last=offsets[row]))
        return batch.filter(pa.array([row not in reasons for row in range(batch.num_rows)]))


def _headers(headers: list[Any], kind: pa.DataType) -> pa.Array:
    if not any(headers):
        nothing = pa.array([], kind.value_type)
        return pa.ListArray.from_arrays(
            pa.repeat(pa.scalar(0, pa.int32()), len(headers) + 1), nothing, type=kind
        )
    return pa.array([[{"key": key, "value": value} for key, value in one] for one in headers], kind)
