"""Compares the complete state of machines, to prove that a decision changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AnySet
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from sharebroker_protocol.errors import KafkaError

D = TypeVar("D")

_CACHES: Final = frozenset({"_heap", "_armed", "_subscribed", "_covered"})
"""Attributes that a read may fill or reorder without a visible difference."""

_PORTS: Final = frozenset({"_view", "_deciders"})


def state_of(value: Any) -> Any:
    """Returns a comparable copy of an object and all that it contains."""
    if isinstance(value, Enum | str | bytes | int | float | None):
        return value
    if isinstance(value, KafkaError):
        return ("KafkaError", value.code, value.message, dict(value.metadata or {}))
    if isinstance(value, Mapping | MappingProxyType):
        return {key: state_of(item) for key, item in value.items()}
    if isinstance(value, AnySet):
        return frozenset(state_of(item) for item in value)
    if isinstance(value, list | tuple):
        return tuple(state_of(item) for item in value)
    names = {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}
    names |= getattr(value, "__dict__", {}).keys()
    found = {name: getattr(value, name) for name in sorted(names - _CACHES - _PORTS)}
    return type(value).__name__, {name: state_of(item) for name, item in found.items()}


def decided_twice(machine: object, decide: Callable[[], D]) -> D:
    """Returns the decision, made twice: both are equal, and the machine is as before."""
    before, outcomes = state_of(machine), []
    for _ in range(2):
        try:
            outcome: Any = decide()
        except KafkaError as error:
            outcome = error
        outcomes.append(outcome)
        assert state_of(machine) == before
    assert state_of(outcomes[0]) == state_of(outcomes[1])
    if isinstance(outcomes[0], KafkaError):
        raise outcomes[0]
    return outcomes[0]  # type: ignore[no-any-return]  # what `decide` returned
