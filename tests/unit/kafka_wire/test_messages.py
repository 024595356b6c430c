"""Message classes by name, and their agreement with the stub."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sharebroker_server.kafka_wire import messages
from sharebroker_server.kafka_wire.generate import APIS
from sharebroker_server.kafka_wire.messages import FetchRequest, ShareFetchResponse
from sharebroker_server.kafka_wire.schema import Message, api_schema
from tests.testkit.tables import each

STUB = ast.parse((Path(messages.__file__).parent / "messages.pyi").read_text())


def test_classes_are_made_once_and_contain_their_structs() -> None:
    assert messages.FetchRequest is FetchRequest
    part = ShareFetchResponse.PartitionData(partition_index=3)
    assert (part.partition_index, part.records, part.acquired_records) == (3, b"", ())


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'FetchAnswer'"):
        _ = messages.FetchAnswer  # type: ignore[attr-defined]


@each("key", APIS)
def test_the_stub_declares_every_class_and_field(key: int) -> None:
    for struct in (api_schema(key).request, api_schema(key).response):
        (declared,) = (
            node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == struct.name
        )
        assert _fields(declared) == getattr(messages, struct.name).field_names
        nested = {node.name: node for node in declared.body if isinstance(node, ast.ClassDef)}
        assert nested.keys() == {part.name for part in struct.descendants()}
        for name, node in nested.items():
            made: type[Message] = getattr(getattr(messages, struct.name), name)
            assert _fields(node) == made.field_names


def _fields(node: ast.ClassDef) -> set[str]:
    return {
        part.target.id
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
