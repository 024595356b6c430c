"""Reads the journals of failed records from the gateway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from sharebroker_protocol.gateway.v1 import admin_pb2 as gateway
from sharebroker_protocol.model import DISPOSITION_NAMES
from sharebroker_spark.client import GatewayClient
from sharebroker_spark.core.options import StateOptions
from sharebroker_spark.core.state_rows import Row
from sharebroker_spark.state_reading import share_partitions

COLUMNS: Final = (
    ("group", "string"),
    ("topic", "string"),
    ("partition", "int"),
    ("first_offset", "bigint"),
    ("last_offset", "bigint"),
    ("disposition", "string"),
    ("delivery_count", "int"),
    ("failed_at", "timestamp"),
    ("member_id", "string"),
    ("reason", "string"),
)
"""Column names with their Spark types."""

_PAGE: Final = 1000


class JournalKey(NamedTuple):
    """A group and a topic by name, whose journals are read together."""

    group: str
    topic: str


def journals(client: GatewayClient, options: StateOptions) -> list[JournalKey]:
    """Returns the requested groups with their topics. Raises KafkaError, such as GROUP_ID_NOT_FOUND."""
    found = (JournalKey(each.group, each.topic) for each in share_partitions(client, options))
    return list(dict.fromkeys(found))


def read_failed(client: GatewayClient, keys: Iterable[JournalKey]) -> Iterator[Row]:
    """Yields a row per entry, by partition and offset; times are microseconds. Raises KafkaError."""
    for key in keys:
        request = gateway.ListFailedRecordsRequest(group_id=key.group, topic=key.topic, page_size=_PAGE)
        while True:
            page = client.call(client.admin.ListFailedRecords, request)
            for entry in page.entries:
                yield _row(key, entry)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token


def _row(key: JournalKey, entry: gateway.ListFailedRecordsResponse.Entry) -> Row:
    return (
        *key,
        entry.partition,
        entry.first_offset,
        entry.last_offset,
        DISPOSITION_NAMES.get(entry.disposition),
        entry.delivery_count,
        entry.time_ms * 1000,
        entry.member_id or None,
        entry.reason or None,
    )
