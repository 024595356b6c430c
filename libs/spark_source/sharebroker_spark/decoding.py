"""What the bytes of a record's value mean: a column, and the reasons of those that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from sharebroker_spark.core.options import OptionError
from sharebroker_spark.records import as_text

_LONGEST_REASON: Final = 300
_BEFORE, _BEHIND, _NOTHING = (pa.scalar(part, pa.binary()) for part in (b'{"_":', b"}\n", b""))
_NULL: Final = pa.scalar(b"null", pa.binary())


class Decoded(NamedTuple):
    """The column; null where a value could not be read, with the reason by index."""

    column: pa.Array
    reasons: Mapping[int, str]


Decoder = Callable[[pa.Array], Decoded]


def decoder(value_format: str, kind: pa.DataType) -> Decoder:
    """What decodes values of a format into a column of this type. Raises OptionError for a wrong one."""
    if value_format in ("json", "arrow"):
        _check_optional(kind)
    if value_format == "json":
        return _Parsed(_Json(kind))
    if value_format == "arrow":
        return _Parsed(_Streams(kind))
    return lambda values: Decoded(values if values.type == kind else as_text(values, kind), {})


class _Json:
    """Reads JSON objects, many at once; all or none."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        schema = pa.schema([("_", _as_written(kind))])
        self._options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        try:
            self(pa.array([b"null"], pa.binary()))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise OptionError(f"option value.schema cannot be read from JSON: {error}") from error

    def __call__(self, values: pa.Array) -> pa.Array:
        """The column. Raises ArrowInvalid, UnicodeDecodeError."""
        # Each in an object of its own, so that none can end in another's line or be none at all.
        for line_end in (b"\n", b"\r"):
            values = pc.replace_substring(values, line_end, b" ")
        lines = pc.binary_join_element_wise(_BEFORE, pc.fill_null(values, _NULL), _BEHIND, _NOTHING)
        text = _content(lines)
        read = pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1)
        column = pa.json.read_json(pa.BufferReader(text), read, self._options).column(0).combine_chunks()
        if len(column) != len(values):
            raise pa.ArrowInvalid("more than one JSON value")
        column.validate(full=True)  # no UTF-8
        return column.cast(self.kind)


class _Streams:
    """Reads Arrow IPC streams: of each record an array of rows; all or none."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._row = kind.value_type

    def __call__(self, values: pa.Array) -> pa.Array:
        """The column. Raises ArrowException, KeyError, OSError."""
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
    """Tries all values at once; where one is bad, halves, until the bad ones are found."""

    def __init__(self, read: _Json | _Streams) -> None:
        self._read = read

    def __call__(self, values: pa.Array) -> Decoded:
        reasons: dict[int, str] = {}
        chunks: list[pa.Array] = []
        waiting = [(0, len(values))] if len(values) else []
        while waiting:
            begin, end = waiting.pop()
            try:
                chunks.append(self._read(values.slice(begin, end - begin)))
            except (pa.ArrowException, UnicodeDecodeError, KeyError, OSError) as error:
                if end - begin > 1:
                    middle = (begin + end) // 2
                    waiting += [(middle, end), (begin, middle)]
                else:
                    chunks.append(pa.nulls(1, self._read.kind))
                    reasons[begin] = f"{error}"[:_LONGEST_REASON]
        return Decoded(pa.concat_arrays(chunks) if chunks else pa.nulls(0, self._read.kind), reasons)


def _content(values: pa.Array) -> pa.Buffer:
    """All values of an array, one behind the other."""
    _, offsets, content = values.buffers()
    edges = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return content.slice(int(edges[0]), int(edges[-1] - edges[0]))


def _check_optional(kind: pa.DataType) -> None:
    """Raises OptionError for a field that must not be null: nobody can promise that."""
    for index in range(kind.num_fields):
        field = kind.field(index) if pa.types.is_struct(kind) else getattr(kind, "value_field", None)
        if field is not None and not field.nullable:
            raise OptionError(
                f"option value.schema says NOT NULL of {field.name}: what is published may be null"
            )
        if field is not None:
            _check_optional(field.type)


def _as_written(kind: pa.DataType) -> pa.DataType:
    """The type to read JSON as: dates are written as text, which only times are read from."""
    if pa.types.is_date(kind):
        return pa.timestamp("s")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_written(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_written(kind.value_type)))
    return kind
