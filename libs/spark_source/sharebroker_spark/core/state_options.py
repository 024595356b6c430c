"""Options of the state format, checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sharebroker_spark.core.options import OptionError, address_of

_CHOICES: Final = ("fail", "wait")
"""The first is the default: a table is asked for by somebody who waits for it."""
STATE_NAMES: Final = ("bootstrap", "groups", "topics", "onUnavailable")


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Whose state is read; no groups, or no topics: of all."""

    bootstrap: str
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    waits: bool = False


def state_options(given: Mapping[str, str]) -> StateOptions:
    """Raises OptionError."""
    lower = {name.lower(): value.strip() for name, value in given.items()}
    unknown = sorted(lower.keys() - {name.lower() for name in STATE_NAMES} - {"path"})
    if unknown:
        raise OptionError(f"there is no option {unknown[0]}; there are {', '.join(STATE_NAMES)}")
    bootstrap = address_of(lower)
    choice = lower.get("onunavailable", _CHOICES[0]).lower()
    if choice not in _CHOICES:
        raise OptionError(f"option onUnavailable is {choice!r}; it must be {' or '.join(_CHOICES)}")
    return StateOptions(bootstrap, _names(lower, "groups"), _names(lower, "topics"), choice == "wait")


def _names(lower: Mapping[str, str], option: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (name.strip() for name in lower.get(option, "").split(",")))))
