"""Messages of any API and version for Hypothesis, derived from the schemas."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.generate import APIS
from sharebroker_server.kafka_wire.schema import Field, Struct, api_schema, id_text, message_class

VERSIONS: Final = [
    (key, version)
    for key in APIS
    for version in range(api_schema(key).versions[0], api_schema(key).versions[1] + 1)
]
"""Every API in every version of the table."""

_LATEST: Final = 253_402_300_799_000
"""The end of the year 9999: the latest supported time."""

_LONGEST: Final = 100 * 365 * 86_400_000
"""A century in milliseconds."""

_INTEGERS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


Values = Mapping[str, st.SearchStrategy[Any]]
"""Extra values for types, drawn as often as all other values of the type."""


def requests(key: int, version: int, also: Values = MappingProxyType({})) -> st.SearchStrategy[Any]:
    """Draws requests of an API in a version."""
    return structs(api_schema(key).request, version, also)


def responses(key: int, version: int) -> st.SearchStrategy[Any]:
    """Draws responses of an API in a version."""
    return structs(api_schema(key).response, version)


def structs(struct: Struct, version: int, also: Values = MappingProxyType({})) -> st.SearchStrategy[Any]:
    """Draws structs with only the version's fields; some fields are not set."""
    values = {field: _values(field, version, also) for field in struct.of(version)}
    # A null that the version does not support would decode to another value.
    must = {
        field.name: of
        for field, of in values.items()
        if field.default is None and not field.is_nullable(version)
    }
    may = {field.name: of for field, of in values.items() if field.name not in must}
    return st.fixed_dictionaries(must, optional=may).map(lambda values: message_class(struct)(**values))


def _values(field: Field, version: int, also: Values) -> st.SearchStrategy[Any]:
    values = _items(field, version, also)
    if field.type in also:
        values = also[field.type] | values
    if field.array:
        values = st.lists(values, max_size=3)
    return st.none() | values if field.is_nullable(version) else values


def _items(field: Field, version: int, also: Values) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        return structs(field.struct, version, also)
    if field.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if field.type == "int64" and field.name.endswith("_time_ms"):
        return st.integers(0, _LATEST) | st.just(-1)
    if field.type == "int64" and field.name.endswith("_lifetime_ms"):
        return st.integers(0, _LONGEST)  # kio computes longer durations in floats
    if field.type in _INTEGERS:
        half = 1 << (_INTEGERS[field.type] - 1)
        return st.integers(-half, half - 1)
    return _PLAIN[field.type]


_PLAIN: Final[dict[str, st.SearchStrategy[Any]]] = {
    "bool": st.booleans(),
    "uint16": st.integers(0, (1 << 16) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "uuid": st.binary(min_size=16, max_size=16).map(id_text),
    "string": st.text(max_size=20) | st.text("x", min_size=100, max_size=200),
    "bytes": st.binary(max_size=20) | st.binary(min_size=100, max_size=200),
    "records": st.binary(max_size=20) | st.binary(min_size=100, max_size=200),
}
