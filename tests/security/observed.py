"""What a response says about permissions, as lines that do not depend on order and on other errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sharebroker_server.kafka_wire.schema import api_schema, message_class
from tests.security.cases import BOTH, GROUPS, Case
from tests.support.kafka_client import KafkaClient, part

AUTHORIZATION: Final = {29: "topic", 30: "group", 31: "cluster", 53: "transactional id"}
"""The AUTHORIZATION_FAILED errors by code."""

_LABELS: Final = (
    "name",
    "topic",
    "topic_name",
    "group_id",
    "transactional_id",
    "key",
    "resource_name",
    "user",
    "feature",
    "member_id",
    "topic_id",
)
TRIES: Final = 300
"""Tenths of a second until the coordinators must serve."""

_INDEXES: Final = ("partition_index", "partition", "index")
_NOT_REQUESTED: Final = -(1 << 31)


async def observe(client: KafkaClient, case: Case, ids: Mapping[str, str]) -> list[str]:
    """Sends the request of a case and returns the lines of its response, sorted."""
    response = await client.ask(case.key, case.version, **case.fields(ids))
    names = {topic_id: name for name, topic_id in ids.items()}
    return sorted(_lines(response, "", names, lists=case.lists))


async def topic_ids(client: KafkaClient) -> dict[str, str]:
    """Creates the topics of the cases unless they exist, and returns their ids."""
    shapes: Any = message_class(api_schema(19).request)
    topics = [shapes.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in BOTH]
    await client.ask(19, 7, topics=topics, timeout_ms=10_000)
    while True:
        named = [part(3, "MetadataRequestTopic", name=name) for name in BOTH]
        found = await client.ask(3, 12, topics=named, allow_auto_topic_creation=False)
        ready = [
            topic for topic in found.topics if not topic.error_code and topic.partitions[0].leader_id >= 0
        ]
        if len(ready) == len(BOTH):
            return {topic.name: topic.topic_id for topic in ready}


async def find_coordinators(client: KafkaClient) -> None:
    """Waits until the groups of the cases have a coordinator that serves them."""
    for group in GROUPS:
        for _ in range(TRIES):
            if await _is_served(client, group):
                break
            await asyncio.sleep(0.1)


async def _is_served(client: KafkaClient, group: str) -> bool:
    if (await client.ask(10, 3, key=group, key_type=0)).error_code:
        return False
    requested = [part(9, "OffsetFetchRequestGroup", group_id=group, topics=None)]
    (found,) = (await client.ask(9, 8, groups=requested)).groups
    return not found.error_code


def _lines(message: Any, path: str, names: Mapping[str, str], *, lists: bool) -> Iterator[str]:
    for field in type(message).struct.fields:
        value = getattr(message, field.name)
        if field.struct is not None:
            several = isinstance(value, list | tuple)
            for one in value if several else [] if value is None else [value]:
                label = _label(one, names)
                if lists and label in {*BOTH, "absent"}:
                    yield f"{path}{field.name}[{label}]"
                yield from _lines(one, f"{path}{field.name}[{label}].", names, lists=lists)
        elif field.name.endswith("error_code") and value in AUTHORIZATION:
            yield f"{path}{field.name}: {AUTHORIZATION[value]}"
        elif lists and _has_operations(field.name, value) and "[_" not in path:
            yield f"{path}{field.name}: {value}"


def _has_operations(name: str, value: Any) -> bool:
    return name.endswith("authorized_operations") and bool(value != _NOT_REQUESTED)


def _label(item: Any, names: Mapping[str, str]) -> str:
    for field in _LABELS:
        if value := getattr(item, field, None):
            label = str(value)
            for topic_id, name in names.items():
                label = label.replace(topic_id, name)
            return label
    return next((str(getattr(item, field)) for field in _INDEXES if hasattr(item, field)), "")
