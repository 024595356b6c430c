"""Decodes record values: JSON objects, Arrow IPC streams and Avro; invalid values have a reason."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from sharebroker_spark.core.options import OptionError
from sharebroker_spark.records import as_text

_MAX_REASON_LENGTH: Final = 300
_BEFORE, _AFTER, _NOTHING = (pa.scalar(part, pa.binary()) for part in (b'{"_":', b"}\n", b""))
_NULL: Final = pa.scalar(b"null", pa.binary())
_MAGIC: Final = b"\0"
_SCHEMA_ID_BYTES: Final = 4


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


def avro_decoder(schema: str | Mapping[int, str], kind: pa.DataType) -> Decoder:
    """Returns the decoder of Avro values by their writer's schema, as JSON. Raises OptionError.

    With schemas by id, a zero byte and the schema id in four bytes precede each value, as Confluent's clients
    write it.
    """
    _check_optional(kind)
    return _Parsed(_Avro(kind, schema) if isinstance(schema, str) else _FramedAvro(kind, schema))


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


class _Avro:
    """Decodes Avro values by the schema that they were written with."""

    def __init__(self, kind: pa.DataType, schema: str) -> None:
        import fastavro  # only this format needs it

        self.kind = kind
        self._read = fastavro.schemaless_reader
        try:
            self._schema = fastavro.parse_schema(json.loads(schema))
        except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
            raise OptionError(f"the Avro schema is invalid: {error}") from error
        _check_sizes(self._schema, {})

    def __call__(self, values: pa.Array) -> pa.Array:
        """Returns the column. Raises ArrowException."""
        rows = [None if value is None else self.row(value) for value in values.to_pylist()]
        return pa.array(rows, self.kind)

    def row(self, value: bytes, start: int = 0) -> Any:
        """Returns the row of a value that begins at `start`. Raises ArrowInvalid."""
        content = io.BytesIO(value)
        content.seek(start)
        try:
            row = self._read(content, self._schema)
        except Exception as error:  # the library has no type of error of its own
            raise pa.ArrowInvalid(f"not Avro of this schema: {type(error).__name__} {error}") from error
        if content.read(1):
            raise pa.ArrowInvalid("bytes follow the Avro value")
        return row


class _FramedAvro:
    """Decodes Avro values by the schema whose id precedes them."""

    def __init__(self, kind: pa.DataType, schemas: Mapping[int, str]) -> None:
        self.kind = kind
        self._schemas = {schema_id: _Avro(kind, schema) for schema_id, schema in schemas.items()}

    def __call__(self, values: pa.Array) -> pa.Array:
        """Returns the column. Raises ArrowException."""
        rows = [None if value is None else self._row(value) for value in values.to_pylist()]
        return pa.array(rows, self.kind)

    def _row(self, value: bytes) -> Any:
        start = len(_MAGIC) + _SCHEMA_ID_BYTES
        if not value.startswith(_MAGIC) or len(value) < start:
            raise pa.ArrowInvalid("no schema id precedes the value")
        schema_id = int.from_bytes(value[len(_MAGIC) : start])
        schema = self._schemas.get(schema_id)
        if schema is None:
            raise pa.ArrowInvalid(f"the schema id is unknown: {schema_id}")
        return schema.row(value, start)


class _Parsed:
    """Decodes all values at once; on a failure bisects until the invalid values are found."""

    def __init__(self, read: _Json | _Streams | _Avro | _FramedAvro) -> None:
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


def _check_sizes(schema: Any, named: dict[str, bool]) -> bool:
    """Returns whether a value of the schema may have no bytes; `named` has the types so far.

    Raises OptionError for an array of such values: few bytes could contain any number of them.
    """
    if isinstance(schema, str):
        return named.get(schema, schema == "null")
    if isinstance(schema, list):  # the index of the branch precedes the value
        for branch in schema:
            _check_sizes(branch, named)
        return False
    kind, name = schema["type"], schema.get("name", "")
    named[name] = False  # a record that contains itself does so in a union, an array or a map
    if kind in ("array", "map"):
        if _check_sizes(schema["items" if kind == "array" else "values"], named) and kind == "array":
            raise OptionError("the Avro schema has an array of values without bytes, such as null")
        return False
    if kind in ("record", "error"):
        fields = [_check_sizes(field["type"], named) for field in schema["fields"]]
        named[name] = all(fields)
    elif kind == "fixed":
        named[name] = schema["size"] == 0
    else:
        return _check_sizes(kind, named)
    return named[name]


def _json_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type for parsing JSON: dates are text there, which Arrow parses only as timestamps."""
    if pa.types.is_date(kind):
        return pa.timestamp("s")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_json_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_json_type(kind.value_type)))
    return kind
