"""Configs in the form of DescribeConfigs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import dropwhile
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.machine import effective_broker
from sharebroker_server.catalog.topics import (
    INTERNAL_TOPIC_CONFIGS,
    ConfigResource,
    ResourceType,
    check_group_id,
)
from sharebroker_server.config.broker import BROKER_KEYS, BrokerConfig
from sharebroker_server.config.group import GROUP_KEYS
from sharebroker_server.config.keys import Key, ValueType, render
from sharebroker_server.config.topic import TOPIC_KEYS


class ConfigSource(IntEnum):
    """The source of a value (Kafka: `ConfigEntry.ConfigSource`)."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Origin:
    """A value of a property at one level; `name` is the property's name at that level."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One property of a resource. The first of `origins` is effective; the next would be without it."""

    key: Key
    origins: tuple[Origin, ...]

    @property
    def name(self) -> str:
        """The name of the property."""
        return self.key.name

    @property
    def type(self) -> ValueType:
        """The type of the property."""
        return self.key.type

    @property
    def documentation(self) -> str:
        """The meaning of the property."""
        return self.key.doc

    @property
    def value(self) -> str:
        """The effective value."""
        return self.origins[0].value

    @property
    def source(self) -> ConfigSource:
        """The source of the effective value."""
        return self.origins[0].source

    @property
    def is_default(self) -> bool:
        """Whether the property is not set on the resource itself."""
        return self.source not in _OWN


_OWN: Final = {ConfigSource.TOPIC, ConfigSource.BROKER, ConfigSource.ALL_BROKERS, ConfigSource.GROUP}
_INHERITING: Final = {
    ResourceType.TOPIC: (TOPIC_KEYS, ConfigSource.TOPIC),
    ResourceType.GROUP: (GROUP_KEYS, ConfigSource.GROUP),
}


def describe(state: TopicCatalog, static: BrokerConfig, resource: ConfigResource) -> list[ConfigEntry]:
    """Returns every property of a resource, by name. Raises UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST."""
    if resource.type is ResourceType.BROKER:
        return _of_broker(state, static, resource)
    if resource.type is ResourceType.GROUP:
        check_group_id(resource.name, "resource_name")
    settings = state.configs(resource)
    if resource.type is ResourceType.TOPIC and resource.name in INTERNAL_TOPIC_CONFIGS:
        settings = INTERNAL_TOPIC_CONFIGS[resource.name]
    elif resource.type is ResourceType.TOPIC and not state.topic(resource.name):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{resource.name}' does not exist.")
    return describe_settings(state, static, resource.type, settings)


def describe_settings(
    state: TopicCatalog, static: BrokerConfig, kind: ResourceType, settings: Mapping[str, str]
) -> list[ConfigEntry]:
    """Returns every property of a topic or group with these configs, by name."""
    keys, source = _INHERITING[kind]
    broker = _Broker(state, static, str(static.node_id))
    return _by_name(
        ConfigEntry(key, (*_set(key, settings, source), *_inherited(key, broker))) for key in keys.values()
    )


def _of_broker(state: TopicCatalog, static: BrokerConfig, resource: ConfigResource) -> list[ConfigEntry]:
    if resource.name:
        broker = _Broker(state, static, resource.name)
        return _by_name(ConfigEntry(key, tuple(broker.origins(key))) for key in BROKER_KEYS.values())
    return _by_name(
        ConfigEntry(BROKER_KEYS[name], (Origin(name, value, ConfigSource.ALL_BROKERS),))
        for name, value in state.configs(resource).items()
    )


def _by_name(entries: Iterable[ConfigEntry]) -> list[ConfigEntry]:
    return sorted(entries, key=lambda entry: entry.name)


def _inherited(key: Key, broker: _Broker) -> Iterable[Origin]:
    if key.broker:
        return broker.origins(BROKER_KEYS[key.broker])
    return (Origin(key.name, render(key.default), ConfigSource.DEFAULT),)


def _set(key: Key, settings: Mapping[str, str], source: ConfigSource) -> Iterator[Origin]:
    if key.name in settings:
        yield Origin(key.name, settings[key.name], source)


class _Broker:
    """One broker's configs with their sources."""

    def __init__(self, state: TopicCatalog, static: BrokerConfig, name: str) -> None:
        self._own = state.configs(ConfigResource(ResourceType.BROKER, name))
        self._cluster_wide = state.configs(ConfigResource(ResourceType.BROKER, ""))
        self._static = static
        self._effective = effective_broker(state, static, name)

    def origins(self, key: Key) -> Iterable[Origin]:
        """Returns the values of a property, starting with the effective one."""
        # Dynamic configs that conflict with the broker's own are not effective.
        return dropwhile(
            lambda origin: key.parse(origin.value) != self._effective.get(key.name), self._all(key)
        )

    def _all(self, key: Key) -> Iterator[Origin]:
        yield from _set(key, self._own, ConfigSource.BROKER)
        yield from _set(key, self._cluster_wide, ConfigSource.ALL_BROKERS)
        static_value = self._static.get(key.name)
        if static_value != key.default:
            yield Origin(key.name, render(static_value), ConfigSource.STATIC_BROKER)
        yield Origin(key.name, render(key.default), ConfigSource.DEFAULT)
