"""What a scenario is, and the requests that several scenarios send."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from tests.support.kafka_client import KafkaClient, part

CREATE_TOPICS, DESCRIBE_CONFIGS, ALTER_CONFIGS, API_VERSIONS, UPDATE_FEATURES = 19, 32, 44, 18, 57

VISIBLE_WITHIN: Final = 5.0
"""Seconds within which a change of configs is visible."""

Observed = list[str]
"""What a client sees, one text for each response."""

Run = Callable[[KafkaClient], Awaitable[Observed]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One case: `run` returns what a client sees.

    `level` is the level of share.version that it needs. `difference` states why the two sides differ, if they
    do on purpose.
    """

    name: str
    run: Run
    level: int = 1
    difference: str = ""


class Kind(IntEnum):
    """Types of resources with configs."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class Op(IntEnum):
    """Operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2


Change = tuple[str, str | None] | tuple[str, str | None, Op]
"""Key, value and operation (SET if absent)."""


def outcome(code: int, message: str | None) -> str:
    """Returns an error, or `0`, as one text."""
    return f"{code} {message}" if message else str(code)


async def alter(
    client: KafkaClient, kind: Kind, name: str, *changes: Change, validate_only: bool = False
) -> str:
    """Changes configs of one resource; returns the outcome."""
    resource = part(
        ALTER_CONFIGS,
        "AlterConfigsResource",
        resource_type=kind,
        resource_name=name,
        configs=[
            part(
                ALTER_CONFIGS,
                "AlterableConfig",
                name=change[0],
                value=change[1],
                config_operation=change[2] if len(change) > 2 else Op.SET,
            )
            for change in changes
        ],
    )
    response = await client.ask(ALTER_CONFIGS, 1, resources=[resource], validate_only=validate_only)
    (result,) = response.responses
    return outcome(result.error_code, result.error_message)


async def described(client: KafkaClient, kind: Kind, name: str, *keys: str) -> Observed:
    """Returns the configs of one resource with these keys: value, source, flags, type and synonyms."""
    resource = part(
        DESCRIBE_CONFIGS,
        "DescribeConfigsResource",
        resource_type=kind,
        resource_name=name,
        configuration_keys=list(keys) or None,
    )
    response = await client.ask(
        DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True, include_documentation=True
    )
    (result,) = response.results
    if result.error_code:
        return [outcome(result.error_code, result.error_message)]
    return [_config(one) for one in sorted(result.configs, key=lambda one: str(one.name))]


async def changed(
    client: KafkaClient, kind: Kind, name: str, keys: Sequence[str], before: Observed
) -> Observed:
    """Returns the configs of one resource once they differ from `before`, or after some seconds.

    A change may be visible only after its response, and one key after the other.
    """
    seen, last = before, None
    with suppress(TimeoutError):
        async with asyncio.timeout(VISIBLE_WITHIN):
            while seen == before or seen != last:
                last, seen = seen, await described(client, kind, name, *keys)
    return seen


def _config(one: Any) -> str:
    synonyms = [(synonym.name, synonym.value, synonym.source) for synonym in one.synonyms]
    flags = f"read-only={one.read_only} sensitive={one.is_sensitive} type={one.config_type}"
    return f"{one.name}={one.value!r} source={one.config_source} {flags} synonyms={synonyms}"


async def create_topic(client: KafkaClient, name: str, *configs: tuple[str, str | None]) -> str:
    """Creates a topic with one partition; returns the outcome."""
    made = part(
        CREATE_TOPICS,
        "CreatableTopic",
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[
            part(CREATE_TOPICS, "CreatableTopicConfig", name=key, value=value) for key, value in configs
        ],
    )
    response = await client.ask(CREATE_TOPICS, 7, topics=[made])
    (result,) = response.topics
    return outcome(result.error_code, result.error_message)
