"""Schemas of the served APIs equal the definitions of messages in the jar of Kafka's clients 4.4.0."""

from __future__ import annotations

import json
import re
from typing import Any, Final
from zipfile import ZipFile

import pytest

from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.kafka_wire.schema import Struct, api_schema
from tests.support.kafka_jars import CLIENTS, is_there

JARS: Final = CLIENTS["4.4.0"]

pytestmark = pytest.mark.skipif(not is_there(JARS), reason="Kafka's clients are missing: make kafka")

Layout = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def jar() -> ZipFile:
    return ZipFile(JARS.folder / "kafka-clients-4.4.0.jar")


def definition(jar: ZipFile, name: str) -> dict[str, Any]:
    text = jar.read(f"common/message/{name}.json").decode()
    found: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return found


def span(text: str | None) -> range:
    """Returns the versions of "3", "3-5", "3+" or "none"."""
    if text in (None, "none"):
        return range(0)
    first, more, last = re.fullmatch(r"(\d+)([-+]?)(\d*)", text).groups()  # type: ignore[union-attr]
    return range(int(first), {"": int(first), "+": 1 << 15}.get(more, int(last or 0)) + 1)


def theirs(fields: list[dict[str, Any]], shared: dict[str, Any], version: int) -> Layout:
    """Returns type, array, nullability, tag and inner fields of each field of a version, in Kafka's order."""
    rows: Layout = []
    for field in fields:
        kind = field["type"].removeprefix("[]")
        if version not in span(field["versions"]):
            continue
        inner = field.get("fields") or shared.get(kind)
        tag = field.get("tag") if version in span(field.get("taggedVersions")) else None
        rows.append(
            (
                "struct" if inner else kind,
                field["type"].startswith("[]"),
                version in span(field.get("nullableVersions")),
                tag,
                theirs(inner, shared, version) if inner else [],
            )
        )
    return tagged_last(rows)


def ours(struct: Struct, version: int) -> Layout:
    """Returns the same of a struct."""
    rows: Layout = [
        (
            field.type,
            field.array,
            field.is_nullable(version),
            field.tag,
            ours(field.struct, version) if field.struct is not None else [],
        )
        for field in struct.of(version)
    ]
    return tagged_last(rows)


def tagged_last(rows: Layout) -> Layout:
    tagged = [row for row in rows if row[3] is not None]
    return [row for row in rows if row[3] is None] + sorted(tagged, key=lambda row: int(row[3]))


@pytest.mark.parametrize("key", APIS)
def test_schemas_equal_kafkas_definitions_in_each_version(jar: ZipFile, key: int) -> None:
    schema = api_schema(key)
    for struct in (schema.request, schema.response):
        kafkas = definition(jar, struct.name)
        shared = {common["name"]: common["fields"] for common in kafkas.get("commonStructs", [])}
        first, last = APIS[key].versions
        assert last in span(kafkas["validVersions"])
        for version in range(first, last + 1):
            if version in span(kafkas["validVersions"]):
                expected = theirs(kafkas["fields"], shared, version)
                assert ours(struct, version) == expected, (struct.name, version)
