"""Settings as DescribeConfigs shows them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import dropwhile
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.decide import effective_broker
from sharebroker_server.catalog.internal_topics import CONFIGS
from sharebroker_server.catalog.names import check_group_id
from sharebroker_server.catalog.records import ConfigResource, ResourceType
from sharebroker_server.config.broker import BROKER_KEYS, BrokerConfig
from sharebroker_server.config.group import GROUP_KEYS
from sharebroker_server.config.keys import Key, ValueType, render
from sharebroker_server.config.topic import TOPIC_KEYS


class ConfigSource(IntEnum):
    """Where a value comes from (Kafka: `ConfigEntry.ConfigSource`)."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Origin:
    """A value that a property has at one place; `name` is what the property is called there."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One property of a resource. The first of `origins` is in force, the next would be without it."""

    key: Key
    origins: tuple[Origin, ...]

    @property
    def name(self) -> str:
        """What the property is called."""
        return self.key.name

    @property
    def type(self) -> ValueType:
        """What its value is."""
        return self.key.type

    @property
    def documentation(self) -> str:
        """What it does."""
        return self.key.doc

    @property
    def value(self) -> str:
        """The value in force."""
        return self.origins[0].value

    @property
    def source(self) -> ConfigSource:
        """Where the value in force comes from."""
        return self.origins[0].source

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
    """Every property of a resource, by name. Raises UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST."""
    if resource.type is ResourceType.BROKER:
        return _of_broker(state, static, resource)
    if resource.type is ResourceType.GROUP:
        check_group_id(resource.name, "resource_name")
    settings = state.configs(resource)
    if resource.type is ResourceType.TOPIC and resource.name in CONFIGS:
        settings = CONFIGS[resource.name]
    elif resource.type is ResourceType.TOPIC and not state.topic(resource.name):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{resource.name}'.")
    return describe_settings(state, static, resource.type, settings)


def describe_settings(
    state: TopicCatalog, static: BrokerConfig, kind: ResourceType, settings: Mapping[str, str]
) -> list[ConfigEntry]:
    """Every property that a topic or group with these settings has, by name."""
    keys, source = _INHERITING[kind]
    node = _Node(state, static, str(static.node_id))
    return _by_name(
        ConfigEntry(key, (*_set(key, settings, source), *_inherited(key, node))) for key in keys.values()
    )


def _of_broker(state: TopicCatalog, static: BrokerConfig, resource: ConfigResource) -> list[ConfigEntry]:
    if resource.name:
        node = _Node(state, static, resource.name)
        return _by_name(ConfigEntry(key, tuple(node.origins(key))) for key in BROKER_KEYS.values())
    return _by_name(
        ConfigEntry(BROKER_KEYS[name], (Origin(name, value, ConfigSource.ALL_BROKERS),))
        for name, value in state.configs(resource).items()
    )


def _by_name(entries: Iterable[ConfigEntry]) -> list[ConfigEntry]:
    return sorted(entries, key=lambda entry: entry.name)


def _inherited(key: Key, node: _Node) -> Iterable[Origin]:
    if key.broker:
        return node.origins(BROKER_KEYS[key.broker])
    return (Origin(key.name, render(key.default), ConfigSource.DEFAULT),)


def _set(key: Key, settings: Mapping[str, str], source: ConfigSource) -> Iterator[Origin]:
    if key.name in settings:
        yield Origin(key.name, settings[key.name], source)


class _Node:
    """One broker's settings, by where they come from."""

    def __init__(self, state: TopicCatalog, static: BrokerConfig, name: str) -> None:
        self._own = state.configs(ConfigResource(ResourceType.BROKER, name))
        self._everyones = state.configs(ConfigResource(ResourceType.BROKER, ""))
        self._static = static
        self._effective = effective_broker(state, static, name)

    def origins(self, key: Key) -> Iterable[Origin]:
        """The values of a property from the one in force on."""
        # Settings that contradict the node's own are not in force.
        return dropwhile(lambda one: key.parse(one.value) != self._effective.get(key.name), self._all(key))

    def _all(self, key: Key) -> Iterator[Origin]:
        yield from _set(key, self._own, ConfigSource.BROKER)
        yield from _set(key, self._everyones, ConfigSource.ALL_BROKERS)
        fixed = self._static.get(key.name)
        if fixed != key.default:
            yield Origin(key.name, render(fixed), ConfigSource.STATIC_BROKER)
        yield Origin(key.name, render(key.default), ConfigSource.DEFAULT)
