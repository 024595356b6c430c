"""The options of the state format, validated before a read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sharebroker_spark.core.options import OptionError, address_of

_CHOICES: Final = ("fail", "wait")
"""The first choice is the default: a user waits for the result of a table."""
STATE_NAMES: Final = ("bootstrap", "groups", "topics", "onUnavailable")


@dataclass(frozen=True, slots=True)
class StateOptions:
    """The groups and topics to read; empty: all."""

    bootstrap: str
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    waits: bool = False


def state_options(given: Mapping[str, str]) -> StateOptions:
    """Returns the options. Raises OptionError."""
    lower = {name.lower(): value.strip() for name, value in given.items()}
    unknown = sorted(lower.keys() - {name.lower() for name in STATE_NAMES} - {"path"})
    if unknown:
        raise OptionError(f"unknown option {unknown[0]}; the options are {', '.join(STATE_NAMES)}")
    bootstrap = address_of(lower)
    choice = lower.get("onunavailable", _CHOICES[0]).lower()
    if choice not in _CHOICES:
        raise OptionError(f"option onUnavailable is {choice!r}; it must be {' or '.join(_CHOICES)}")
    return StateOptions(bootstrap, _names(lower, "groups"), _names(lower, "topics"), choice == "wait")


def _names(lower: Mapping[str, str], option: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (name.strip() for name in lower.get(option, "").split(",")))))
