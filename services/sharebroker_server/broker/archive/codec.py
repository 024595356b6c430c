"""The metadata of an archive as JSON lines: stored records in the JSON form of protocol buffers.

Each line has one member: `catalog`, `group` or `share_state`, a message of protos/sharebroker/storage/v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from sharebroker_protocol.storage.v1 import catalog_pb2, group_pb2, share_state_pb2
from sharebroker_server.broker.core.archive_contents import METADATA, ArchiveError
from sharebroker_server.broker.core.archive_selection import ArchiveRecord
from sharebroker_server.catalog.records import CatalogCodec, ConfigRecord, TopicRecord
from sharebroker_server.group_coordinator.store.codec import GroupCodec
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint
from sharebroker_server.share_coordinator.store.codec import ShareRecordCodec

CATALOG: Final = CatalogCodec()
GROUPS: Final = GroupCodec()
SHARE_STATE: Final = ShareRecordCodec()

_KINDS: Final[dict[str, tuple[Any, Any]]] = {
    "catalog": (catalog_pb2.CatalogRecord, CATALOG),
    "group": (group_pb2.GroupRecord, GROUPS),
    "share_state": (share_state_pb2.ShareStateRecord, SHARE_STATE),
}


def encode_records(records: Iterable[ArchiveRecord]) -> bytes:
    """Returns one line for each record."""
    return b"".join(orjson.dumps({kind: _fields(kind, record)}) + b"\n" for kind, record in _kinds(records))


def decode_records(data: bytes) -> Iterator[ArchiveRecord]:
    """Yields the records of the lines. Raises ArchiveError."""
    try:
        for line in data.splitlines():
            ((kind, fields),) = orjson.loads(line).items()
            message, codec = _KINDS[kind]
            yield codec.decode(ParseDict(fields, message()).SerializeToString())
    except (ValueError, KeyError, AttributeError, ParseError) as error:
        raise ArchiveError(f"{METADATA} of the archive has an invalid line: {error}") from error


def _kinds(records: Iterable[ArchiveRecord]) -> Iterator[tuple[str, ArchiveRecord]]:
    for record in records:
        if isinstance(record, TopicRecord | ConfigRecord):
            yield "catalog", record
        elif isinstance(record, ShareCheckpoint):
            yield "share_state", record
        else:
            yield "group", record


def _fields(kind: str, record: ArchiveRecord) -> dict[str, Any]:
    message, codec = _KINDS[kind]
    stored = message.FromString(codec.encode(record))
    if kind == "share_state":
        # Columns are read from bytes that contain zeros, and JSON does not.
        stored.checkpoint.ClearField("columns")
        stored.checkpoint.ClearField("noted")
    return MessageToDict(stored, preserving_proto_field_name=True)
