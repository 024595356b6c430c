"""Every API in every version: encoded bytes equal kio's, and decode to the same values."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from io import BytesIO
from types import NoneType, UnionType
from typing import Any, get_args
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from sharebroker_server.kafka_wire.decoder import read_in_portions, read_message
from sharebroker_server.kafka_wire.frames import codec_of, response_frame, response_in_portions
from sharebroker_server.kafka_wire.generate import APIS, NEWER
from sharebroker_server.kafka_wire.schema import api_schema, id_bytes
from tests.support.examples import scaled
from tests.support.kafka_frames import result_of
from tests.support.kafka_messages import VERSIONS, requests, responses

NOT_IN_KIO = {(key, newer.version) for key, newer in NEWER.items()}
OLDEST_AND_NEWEST = {(key, version) for key in APIS for version in api_schema(key).versions}
each_version = pytest.mark.parametrize(
    ("key", "version"),
    [
        pytest.param(
            *of, marks=() if of in OLDEST_AND_NEWEST else pytest.mark.slow, id="-".join(map(str, of))
        )
        for of in VERSIONS
    ],
)
"""All versions together take ten seconds; `make test-fast` checks the first and the last of each API."""


@each_version
@given(data=st.data())
@settings(max_examples=scaled(12))
def test_requests_and_responses_equal_kios(key: int, version: int, data: st.DataObject) -> None:
    how = codec_of(key, version)
    for messages, write, read, load in (
        (requests(key, version), how.write_request, how.read_request, load_request_schema),
        (responses(key, version), how.write_response, how.read_response, load_response_schema),
    ):
        message = data.draw(messages)
        written = bytearray()
        write(written, message)
        if (key, version) not in NOT_IN_KIO:
            theirs = _as_kio(message, load(key, version))
            assert bytes(written) == _written_by_kio(theirs)
        assert read_message(read, bytes(written), 0) == message


@each_version
@given(data=st.data())
@settings(max_examples=scaled(6))
def test_portions_make_the_same_message_and_the_same_bytes(
    key: int, version: int, data: st.DataObject
) -> None:
    how = codec_of(key, version)
    request = data.draw(requests(key, version))
    written = bytearray()
    how.write_request(written, request)
    assert result_of(read_in_portions(how.read_request_in_portions, bytes(written), 0)) == request
    response = data.draw(responses(key, version))
    assert result_of(response_in_portions(7, how, response)) == response_frame(7, how, response)


@pytest.mark.slow  # it imports every message of kio
def test_table_has_kios_versions() -> None:
    for key, version in (of for of in VERSIONS if of not in NOT_IN_KIO):
        kind = load_request_schema(key, version)
        assert kind.__flexible__ == codec_of(key, version).flexible
        assert kind.__name__ == f"{api_schema(key).name}Request"


def _written_by_kio(entity: Any) -> bytes:
    with BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def _as_kio(message: Any, kind: Any) -> Any:
    return kind(**{field.name: _value(message, field) for field in fields(kind)})


def _value(message: Any, field: Any) -> Any:
    kafka_type = field.metadata.get("kafka_type", "struct")
    timed = kafka_type.startswith(("timedelta", "datetime"))
    value = getattr(message, f"{field.name}_ms" if timed else field.name)
    alternatives = {*_alternatives(field.type)}
    (kind,) = alternatives - {NoneType}
    if value is None or (kafka_type == "datetime_i64" and value == -1 and NoneType in alternatives):
        return None
    if isinstance(value, list | tuple):
        item = get_args(kind)[0]
        return tuple(_as_kio(one, item) if kafka_type == "struct" else one for one in value)
    if kafka_type == "struct":
        return _as_kio(value, kind)
    return _CONVERTED[kafka_type](value) if kafka_type in _CONVERTED else value


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


_CONVERTED: dict[str, Any] = {
    "error_code": ErrorCode,
    "timedelta_i32": lambda value: timedelta(milliseconds=value),
    "timedelta_i64": lambda value: timedelta(milliseconds=value),
    "datetime_i64": lambda value: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value),
    "uuid": lambda text: UUID(bytes=id_bytes(text)) if text else None,
}
