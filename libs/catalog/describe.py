"""Settings as DescribeConfigs shows them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from libs.catalog.catalog import TopicCatalog
from libs.catalog.decide import effective_broker
from libs.catalog.records import ConfigResource, ResourceType
from libs.config.broker import BROKER_KEYS, BrokerConfig
from libs.config.group import GROUP_KEYS
from libs.config.keys import Key, ValueType, render
from libs.config.topic import TOPIC_KEYS
from sharebroker.errors import ErrorCode, KafkaError


class ConfigSource(IntEnum):
    """Where a value comes from (Kafka: `ConfigEntry.ConfigSource`)."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One property of a resource, as it is in force."""

    name: str
    value: str
    source: ConfigSource
    type: ValueType
    documentation: str

    @property
    def is_default(self) -> bool:
        """Nobody has set it on the resource itself."""
        return self.source not in _OWN


_OWN: Final = {ConfigSource.TOPIC, ConfigSource.BROKER, ConfigSource.ALL_BROKERS, ConfigSource.GROUP}
_INHERITING: Final = {
    ResourceType.TOPIC: (TOPIC_KEYS, ConfigSource.TOPIC),
    ResourceType.GROUP: (GROUP_KEYS, ConfigSource.GROUP),
}


def describe(state: TopicCatalog, static: BrokerConfig, resource: ConfigResource) -> list[ConfigEntry]:
    """Every property of a resource, by name. Raises UNKNOWN_TOPIC_OR_PARTITION where there is no topic."""
    if resource.type is ResourceType.TOPIC and state.topic(resource.name) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{resource.name}'.")
    entries = (
        _broker(state, static, resource)
        if resource.type is ResourceType.BROKER
        else _inheriting(state, static, resource)
    )
    return sorted(entries, key=lambda entry: entry.name)


def _inheriting(state: TopicCatalog, static: BrokerConfig, resource: ConfigResource) -> Iterator[ConfigEntry]:
    keys, own = _INHERITING[resource.type]
    settings = state.configs(resource)
    broker = effective_broker(state, static)
    for key in keys.values():
        if key.name in settings:
            yield _entry(key, settings[key.name], own)
        elif key.broker:
            value = broker.get(key.broker)
            source = ConfigSource.DEFAULT if value == key.default else ConfigSource.STATIC_BROKER
            yield _entry(key, render(value), source)
        else:
            yield _entry(key, render(key.default), ConfigSource.DEFAULT)


def _broker(state: TopicCatalog, static: BrokerConfig, resource: ConfigResource) -> Iterator[ConfigEntry]:
    own, everyone = state.configs(resource), state.configs(ConfigResource(ResourceType.BROKER, ""))
    for key in BROKER_KEYS.values():
        value = static.get(key.name)
        if resource.name and key.name in own:
            yield _entry(key, own[key.name], ConfigSource.BROKER)
        elif key.name in everyone:
            yield _entry(key, everyone[key.name], ConfigSource.ALL_BROKERS)
        elif resource.name:
            yield _entry(
                key,
                render(value),
                ConfigSource.DEFAULT if value == key.default else ConfigSource.STATIC_BROKER,
            )


def _entry(key: Key, value: str, source: ConfigSource) -> ConfigEntry:
    return ConfigEntry(key.name, value, source, key.type, key.doc)
