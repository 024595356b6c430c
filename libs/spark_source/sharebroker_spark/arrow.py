"""Converts record batches to Arrow batches with the format's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sharebroker_spark.core.offsets import Range
from sharebroker_spark.core.options import OptionError, Options
from sharebroker_spark.core.verdicts import BatchSpan, BatchToken
from sharebroker_spark.records import Records, read_records
from sharebroker_spark.values import Decoder, decoder

ROWS: Final = 10_000
"""The largest number of rows of an Arrow batch."""
_VALUES: Final = {
    "bytes": "binary",
    "string": "string",
    "json": "struct<{}>",
    "arrow": "array<struct<{}>>",
}
_PARSED: Final = ("json", "arrow")


_ALWAYS: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": "array<struct<key: string, value: binary>>",
    "delivery_count": "int",
    "lock_deadline": "timestamp",
}


def columns_of(options: Options) -> dict[str, str]:
    """Returns the columns and their Spark DDL types."""
    value = _VALUES[options.value_format].format(options.value_schema)
    columns = {"key": "binary", "value": value, **_ALWAYS}
    if options.value_format in _PARSED:
        columns |= {"rejected_reason": "string", "rejected_value": "binary"}
    if options.verdicts:
        columns["batch"] = "string"
    return columns


class MalformedError(ValueError):
    """A value that cannot be decoded, with onMalformed=fail."""


@dataclass(frozen=True, slots=True)
class TaskDelivery:
    """The values that all rows of a task share: the end of the first lock, and the batch; None: no locks."""

    deadline_ms: int | None = None
    token: BatchToken | None = None


OnRejected = Callable[[Range], None]
"""Called with offsets that are left out because their value cannot be decoded."""


class Frame:
    """Builds Arrow batches of a schema, which is the one that Spark expects.

    Raises OptionError for unknown columns, and for types that values cannot have.
    """

    def __init__(self, schema: pa.Schema, options: Options) -> None:
        self.schema = schema
        self.types = {field.name: field.type for field in schema}
        names = columns_of(options)
        if set(self.types) != set(names):
            raise OptionError(
                f"a schema cannot be set: leave it out, and select from {', '.join(names)}; "
                "value.format and value.schema define the type of the value"
            )
        self.on_malformed = options.on_malformed
        self.decode: Decoder = decoder(options.value_format, self.types["value"])

    def repeated(self, name: str, value: Any, rows: int) -> pa.Array:
        """Returns a column with one value in all rows."""
        kind = self.types[name]
        if pa.types.is_timestamp(kind):
            return pa.repeat(pa.scalar(value, pa.int64()), rows).cast(kind)
        return pa.repeat(pa.scalar(value, kind), rows)


class Columns:
    """Builds the rows of one range."""

    def __init__(
        self, frame: Frame, offset_range: Range, delivery: TaskDelivery, rejected: OnRejected
    ) -> None:
        self._frame = frame
        self._range = offset_range
        self._delivery = delivery
        self._rejected = rejected
        token, span = (
            delivery.token,
            BatchSpan(offset_range.topic, offset_range.partition, offset_range.first, offset_range.last),
        )
        self._batch_of = None if token is None else token.column(span)

    def of(self, record_batches: bytes, first: int) -> Iterator[pa.RecordBatch]:
        """Yields the records of the range from `first` on, in pieces. Raises MalformedError, KafkaError."""
        records = read_records(record_batches, first, self._range.last, self._frame.types["headers"])
        for start in range(0, len(records.offsets), ROWS):
            yield self._batch(records.part(start, ROWS))

    def _batch(self, records: Records) -> pa.RecordBatch:
        frame, types, offset_range, delivery = self._frame, self._frame.types, self._range, self._delivery
        rows = len(records.offsets)
        value, reasons = frame.decode(records.values)
        columns = {
            "key": records.keys,
            "value": value,
            "topic": frame.repeated("topic", offset_range.topic, rows),
            "partition": frame.repeated("partition", offset_range.partition, rows),
            "offset": pa.array(records.offsets, types["offset"]),
            "timestamp": pa.array(records.times, pa.timestamp("ms", "UTC")).cast(types["timestamp"]),
            "headers": records.headers,
            "delivery_count": frame.repeated(
                "delivery_count", None if delivery.deadline_ms is None else offset_range.delivery_count, rows
            ),
            "lock_deadline": frame.repeated(
                "lock_deadline", None if delivery.deadline_ms is None else delivery.deadline_ms * 1000, rows
            ),
        }
        if "batch" in types:
            columns["batch"] = frame.repeated("batch", self._batch_of, rows)
        read = pa.array([row not in reasons for row in range(rows)]) if reasons else None
        if "rejected_reason" in types:
            columns["rejected_reason"] = _reasons_column(reasons, rows)
            columns["rejected_value"] = (
                pa.nulls(rows, pa.binary()) if read is None else pc.if_else(read, None, records.values)
            )
        batch = pa.RecordBatch.from_arrays(
            [columns[name] for name in frame.schema.names], schema=frame.schema
        )
        return batch if read is None or frame.on_malformed == "keep" else self._without(batch, reasons, read)

    def _without(self, batch: pa.RecordBatch, reasons: Mapping[int, str], read: pa.Array) -> pa.RecordBatch:
        """Returns the rows whose value was decoded."""
        offsets = batch.column("offset")
        if self._frame.on_malformed == "fail":
            row, reason = min(reasons.items())
            raise MalformedError(
                f"The value at offset {offsets[row]} of {self._range.topic}-{self._range.partition} cannot "
                f"be read: {reason}. With onMalformed=keep or reject the query continues."
            )
        for row in sorted(reasons):
            offset = offsets[row].as_py()
            self._rejected(self._range._replace(first=offset, last=offset))
        return batch.filter(read)


def _reasons_column(reasons: Mapping[int, str], rows: int) -> pa.Array:
    if not reasons:
        return pa.nulls(rows, pa.string())
    return pa.array([reasons.get(row) for row in range(rows)], pa.string())
