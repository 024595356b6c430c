"""The quotas of clients, and the rules by which they change.

Kafka: `ClientQuotaControlManager` (changes), `ClientQuotasImage` (filters). Sharebroker also limits their
number and the length of names, and accepts addresses but no host names as `ip`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError

MAX_QUOTAS: Final = 20_000
"""The largest number of quotas, one per entity and key."""

LONGEST_NAME: Final = 249
"""The largest number of characters in the name of an entity."""

DEFAULT_ENTITY: Final = ""
"""The name of the entity that stands for all without a quota of their own (Kafka: `<default>`)."""

_LONG_MAX: Final = 2**63 - 1
_INT_MAX: Final = 2**31 - 1


class QuotaEntity(NamedTuple):
    """Whom a quota limits, by user, client id, both, or address.

    A part is None if it does not matter, DEFAULT_ENTITY for all that have no quota of their own.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[str, str | None]:
        """The parts that matter, by Kafka's name of their type; None is the default."""
        values = zip(_TYPES, self, strict=True)
        return {kind: name or None for kind, name in values if name is not None}

    def __str__(self) -> str:
        inner = ", ".join(f"{kind}={name or 'null'}" for kind, name in self.parts.items())
        return f"ClientQuotaEntity(entries={{{inner}}})"


_TYPES: Final = ("user", "client-id", "ip")


class QuotaKey(Enum):
    """The kinds of quotas, with Kafka's names."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    """Bytes of produce requests per second."""
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    """Bytes of fetched records per second."""
    REQUEST_PERCENTAGE = "request_percentage"
    """Percent of a processor that requests may use."""
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    """Partitions that may be created or deleted per second."""
    CONNECTION_CREATION_RATE = "connection_creation_rate"
    """Connections that an address may open per second."""


_LARGEST: Final[Mapping[QuotaKey, tuple[int, str]]] = MappingProxyType(
    {
        QuotaKey.PRODUCER_BYTE_RATE: (_LONG_MAX, "a LONG"),
        QuotaKey.CONSUMER_BYTE_RATE: (_LONG_MAX, "a LONG"),
        QuotaKey.CONNECTION_CREATION_RATE: (_INT_MAX, "an INT"),
    }
)
"""The largest value of the quotas that are whole numbers, and its type in Kafka's text."""


@dataclass(frozen=True, slots=True)
class QuotaRecord:
    """One quota of an entity; `value` None removes it."""

    entity: QuotaEntity
    key: QuotaKey
    value: float | None


class QuotaChange(NamedTuple):
    """One requested change; `value` None removes the quota."""

    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class AlterQuotas:
    """Changes the quotas of one entity, whose parts are pairs of type and name, None for the default."""

    entity: tuple[tuple[str, str | None], ...]
    changes: tuple[QuotaChange, ...]
    validate_only: bool = False


class MatchType(IntEnum):
    """How a filter's component selects entities (Kafka: `DescribeClientQuotasRequest`)."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class QuotaFilterComponent(NamedTuple):
    """One component of a filter; `match` is the name for EXACT, else None."""

    entity_type: str
    match_type: int
    match: str | None


class QuotaCatalog:
    """The quotas by entity. Only `apply` changes them; `version` increases with each change."""

    __slots__ = ("_by_entity", "size", "version")

    def __init__(self) -> None:
        self.version = 0
        self._by_entity: dict[QuotaEntity, dict[QuotaKey, float]] = {}
        self.size = 0
        """The number of quotas."""

    def of(self, entity: QuotaEntity) -> Mapping[QuotaKey, float]:
        """Returns the quotas of an entity."""
        return self._by_entity.get(entity, _NONE)

    def items(self) -> Iterable[tuple[QuotaEntity, Mapping[QuotaKey, float]]]:
        """Returns all entities with their quotas."""
        return self._by_entity.items()

    def apply(self, record: QuotaRecord) -> None:
        """Applies a record."""
        quotas = self._by_entity.setdefault(record.entity, {})
        self.size -= record.key in quotas
        if record.value is None:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
            self.size += 1
        if not quotas:
            del self._by_entity[record.entity]
        self.version += 1


_NONE: Final[Mapping[QuotaKey, float]] = {}


def decide_quotas(quotas: QuotaCatalog, command: AlterQuotas) -> tuple[QuotaRecord, ...]:
    """Returns the records of a command, none for a quota that stays as it is.

    Raises INVALID_REQUEST; POLICY_VIOLATION if there would be too many quotas.
    """
    entity = entity_of(command.entity)
    current = quotas.of(entity)
    records = []
    seen: set[str] = set()
    for name, value in command.changes:
        if name in seen:
            raise _invalid(f"Duplicate quota key {name} not updating quota for this entity {entity}")
        seen.add(name)
        key = _checked(entity, name, value)
        if value != current.get(key):
            records.append(QuotaRecord(entity, key, value))
    added = sum(record.value is not None and record.key not in current for record in records)
    if quotas.size + added > MAX_QUOTAS:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"The limit of {MAX_QUOTAS} quotas is reached.")
    return () if command.validate_only else tuple(records)


def entity_of(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    """Returns the entity with these types and names; a name None is the default. Raises INVALID_REQUEST."""
    names: dict[str, str] = {}
    for kind, name in parts:
        if kind in names:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in _TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        if name is not None and len(name) > LONGEST_NAME:
            raise _invalid(f"The name of a {kind} may have at most {LONGEST_NAME} characters")
        names[kind] = DEFAULT_ENTITY if name is None else name
    if not names:
        raise _invalid("Invalid empty client quota entity")
    entity = QuotaEntity(names.get("user"), names.get("client-id"), names.get("ip"))
    if entity.ip is not None and len(names) > 1:
        text = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        raise _invalid(text)
    if entity.ip and not _is_address(entity.ip):
        raise _invalid(f"{entity.ip} is not a valid IP or resolvable host.")
    return entity


def select_quotas(
    quotas: QuotaCatalog, components: Sequence[QuotaFilterComponent], *, strict: bool
) -> list[tuple[QuotaEntity, Mapping[QuotaKey, float]]]:
    """Returns the entities that every component matches, with their quotas.

    With `strict` an entity must have no other parts. Raises INVALID_REQUEST, UNSUPPORTED_VERSION.
    """
    wanted = _wanted(components)
    if not wanted and strict:
        return []
    return [
        (entity, values)
        for entity, values in quotas.items()
        if _matches(entity.parts, wanted) and not (strict and len(entity.parts) != len(wanted))
    ]


def _matches(parts: Mapping[str, str | None], wanted: Mapping[str, QuotaFilterComponent]) -> bool:
    return all(
        kind in parts and (component.match_type == MatchType.SPECIFIED or parts[kind] == component.match)
        for kind, component in wanted.items()
    )


def _wanted(components: Sequence[QuotaFilterComponent]) -> dict[str, QuotaFilterComponent]:
    wanted: dict[str, QuotaFilterComponent] = {}
    for component in components:
        _check_component(component, wanted)
        wanted[component.entity_type] = component
    if "ip" in wanted and len(wanted) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return wanted


def _check_component(component: QuotaFilterComponent, earlier: Mapping[str, QuotaFilterComponent]) -> None:
    kind, how, match = component
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind in earlier:
        raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in _TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if how not in set(MatchType):
        raise _invalid(f"Unknown match type {how}")
    if how == MatchType.EXACT and match is None:
        raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if how != MatchType.EXACT and match is not None:
        name = MatchType(how).name
        raise _invalid(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")


def _checked(entity: QuotaEntity, name: str, value: float | None) -> QuotaKey:
    """Returns the key, after the checks of key and value. Raises INVALID_REQUEST."""
    key = next((key for key in QuotaKey if key.value == name), None)
    if key is None or (key is QuotaKey.CONNECTION_CREATION_RATE) != (entity.ip is not None):
        raise _invalid(f"Invalid configuration key {name}")
    if value is None:
        return key
    if not value > 0:
        raise _invalid(f"Quota {name} must be greater than 0")
    largest, kind = _LARGEST.get(key, (math.inf, ""))
    if not kind and not math.isfinite(value):
        raise _invalid(f"Quota {name} must be finite")
    if value > largest:
        raise _invalid(f"Proposed value for {name} is too large for {kind}.")
    if kind and value != int(value):
        raise _invalid(f"{name} cannot be a fractional value.")
    return key


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
