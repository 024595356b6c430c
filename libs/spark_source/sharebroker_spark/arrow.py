"""Converts record batches to Arrow batches with the format's columns; decodes values by `value.format`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from sharebroker_spark.core.offsets import Range
from sharebroker_spark.core.options import OptionError, Options
from sharebroker_spark.core.verdicts import BatchSpan, BatchToken
from sharebroker_spark.records import Records, as_text, read_records

_MAX_REASON_LENGTH: Final = 300
_BEFORE, _AFTER, _NOTHING = (pa.scalar(part, pa.binary()) for part in (b'{"_":', b"}\n", b""))
_NULL: Final = pa.scalar(b"null", pa.binary())


class DecodedColumn(NamedTuple):
    """The column, with null for values that cannot be decoded, and the reasons by index."""

    column: pa.Array
    reasons: Mapping[int, str]


Decoder = Callable[[pa.Array], DecodedColumn]


def decoder(value_format: str, kind: pa.DataType) -> Decoder:
    """Returns the decoder of a value format for a column type. Raises OptionError for an unsupported type."""
    if value_format in ("json", "arrow"):
        _check_optional(kind)
    if value_format == "json":
        return _Parsed(_Json(kind))
    if value_format == "arrow":
        return _Parsed(_Streams(kind))
    return lambda values: DecodedColumn(values if values.type == kind else as_text(values, kind), {})


class _Json:
    """Decodes JSON objects, all of them or none."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        schema = pa.schema([("_", _json_type(kind))])
        self._options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        try:
            self(pa.array([b"null"], pa.binary()))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise OptionError(f"option value.schema cannot be read from JSON: {error}") from error

    def __call__(self, values: pa.Array) -> pa.Array:
        """Returns the column. Raises ArrowInvalid, UnicodeDecodeError."""
        # Wrap each value in an object, so that no value can end in another's line or be empty.
        for line_end in (b"\n", b"\r"):
            values = pc.replace_substring(values, line_end, b" ")
        lines = pc.binary_join_element_wise(_BEFORE, pc.fill_null(values, _NULL), _AFTER, _NOTHING)
        text = _content(lines)
        read = pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1)
        column = pa.json.read_json(pa.BufferReader(text), read, self._options).column(0).combine_chunks()
        if len(column) != len(values):
            raise pa.ArrowInvalid("more than one JSON value")
        column.validate(full=True)  # rejects invalid UTF-8
        return column.cast(self.kind)


class _Streams:
    """Decodes Arrow IPC streams into one array of rows per record, all of them or none."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._row = kind.value_type

    def __call__(self, values: pa.Array) -> pa.Array:
        """Returns the column. Raises ArrowException, KeyError, OSError."""
        offsets: list[int | None] = []
        rows, end = [pa.array([], self._row)], 0
        for value in values.to_pylist():
            offsets.append(None if value is None else end)
            if value is not None:
                rows.append(self._rows(value))
                end += len(rows[-1])
        return pa.ListArray.from_arrays(
            pa.array([*offsets, end], pa.int32()), pa.concat_arrays(rows), self.kind
        )

    def _rows(self, value: bytes) -> pa.Array:
        with pa.ipc.open_stream(value) as stream:
            table = stream.read_all().select([field.name for field in self._row])
        table = table.cast(pa.schema(list(self._row))).combine_chunks()
        return pa.StructArray.from_arrays(
            [
                pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
                for column in table.columns
            ],
            fields=list(self._row),
        )


class _Parsed:
    """Decodes all values at once; on a failure bisects until the invalid values are found."""

    def __init__(self, read: _Json | _Streams) -> None:
        self._read = read

    def __call__(self, values: pa.Array) -> DecodedColumn:
        reasons: dict[int, str] = {}
        chunks: list[pa.Array] = []
        pending = [(0, len(values))] if len(values) else []
        while pending:
            start, end = pending.pop()
            try:
                chunks.append(self._read(values.slice(start, end - start)))
            except (pa.ArrowException, UnicodeDecodeError, KeyError, OSError) as error:
                if end - start > 1:
                    middle = (start + end) // 2
                    pending += [(middle, end), (start, middle)]
                else:
                    chunks.append(pa.nulls(1, self._read.kind))
                    reasons[start] = f"{error}"[:_MAX_REASON_LENGTH]
        return DecodedColumn(pa.concat_arrays(chunks) if chunks else pa.nulls(0, self._read.kind), reasons)


def _content(values: pa.Array) -> pa.Buffer:
    """Returns the concatenated values of an array."""
    _, offsets, content = values.buffers()
    edges = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return content.slice(int(edges[0]), int(edges[-1] - edges[0]))


def _check_optional(kind: pa.DataType) -> None:
    """Raises OptionError for a NOT NULL field, which no producer can guarantee."""
    for index in range(kind.num_fields):
        field = kind.field(index) if pa.types.is_struct(kind) else getattr(kind, "value_field", None)
        if field is not None and not field.nullable:
            raise OptionError(
                f"option value.schema declares {field.name} NOT NULL, but published values may be null"
            )
        if field is not None:
            _check_optional(field.type)


def _json_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type for parsing JSON: dates are text there, which Arrow parses only as timestamps."""
    if pa.types.is_date(kind):
        return pa.timestamp("s")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_json_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_json_type(kind.value_type)))
    return kind


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
