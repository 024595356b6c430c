"""What a configuration property is: its type, default, bounds and meaning, and how its text is read.

A property is declared once, as a field of a frozen dataclass (see `broker.py`); its Kafka name is the field's
name with dots. Pure: knows no files, no environment.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError

Value = bool | int | str

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_TRUTH: Final = {"true": True, "false": False}


class ValueType(IntEnum):
    """The type a property has in DescribeConfigs (Kafka: `ConfigEntry.ConfigType`)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    LIST = 7


@dataclass(frozen=True, slots=True)
class Key:
    """One property. `low` and `high` bound numbers, `choices` bound texts (empty: any text).

    `dynamic`: a broker property that may be changed while the cluster runs. `honoured` is false where the
    value is accepted because Kafka's tools set it, and has no effect here. `broker` names the broker
    property a group or topic property defaults to, `at_least` and `at_most` those that bound it.
    """

    name: str
    type: ValueType
    default: Value
    doc: str
    low: int = -LONG_MAX
    high: int = LONG_MAX
    choices: tuple[str, ...] = ()
    dynamic: bool = False
    honoured: bool = True
    broker: str = ""
    at_least: str = ""
    at_most: str = ""

    def parse(self, text: str) -> Value:
        """The value that `text` says. Raises INVALID_CONFIG with what is allowed."""
        text = text.strip()
        if self.type is ValueType.BOOLEAN:
            if text.lower() not in _TRUTH:
                raise self.refusal(text)
            return _TRUTH[text.lower()]
        if self.type in (ValueType.INT, ValueType.LONG):
            return self._number(text)
        if self.type is ValueType.LIST:
            return self._list(text)
        if self.choices and text not in self.choices:
            raise self.refusal(text)
        return text

    def _list(self, text: str) -> str:
        parts = split(text)
        if self.choices and (not parts or not set(parts) <= set(self.choices)):
            raise self.refusal(text)
        return ",".join(parts)

    def _number(self, text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise self.refusal(text) from None
        if not self.low <= number <= self.high:
            raise self.refusal(text)
        return number

    def allowed(self) -> str:
        """In words: the values this property takes."""
        if self.type is ValueType.BOOLEAN:
            return "true or false"
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type in (ValueType.STRING, ValueType.LIST):
            return "a text"
        return f"an integer from {self.low} to {self.high}"

    def refusal(self, text: str) -> KafkaError:
        """The error for a value that is not allowed."""
        return invalid(self.name, f"Invalid value {text!r} for {self.name}: allowed is {self.allowed()}.")


def split(text: str) -> list[str]:
    """The parts of a list."""
    return [part.strip() for part in text.split(",")] if text.strip() else []


def render(value: Value) -> str:
    """The text of a value, as `Key.parse` reads it and DescribeConfigs shows it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def invalid(name: str, message: str) -> KafkaError:
    """INVALID_CONFIG about the property `name`."""
    return KafkaError(ErrorCode.INVALID_CONFIG, message, metadata={"config": name})


def unknown(name: str, known: Iterable[str], what: str) -> KafkaError:
    """INVALID_CONFIG for a property that does not exist; `what` is Kafka's wording for the kind of name."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return invalid(name, f"Unknown {what}: {name}{hint}")


def integer(default: int, low: int, high: int, doc: str, **more: Any) -> Any:
    """Declares a whole number within [low, high]."""
    kind = ValueType.LONG if high > INT_MAX else ValueType.INT
    return _declare(type=kind, default=default, low=low, high=high, doc=doc, **more)


def boolean(default: bool, doc: str, **more: Any) -> Any:
    """Declares true or false."""
    return _declare(type=ValueType.BOOLEAN, default=default, doc=doc, **more)


def choice(default: str, choices: tuple[str, ...], doc: str, **more: Any) -> Any:
    """Declares a text out of `choices`."""
    return _declare(type=ValueType.STRING, default=default, choices=choices, doc=doc, **more)


def text(default: str, doc: str, **more: Any) -> Any:
    """Declares a free text."""
    return _declare(type=ValueType.STRING, default=default, doc=doc, **more)


def several(default: str, choices: tuple[str, ...], doc: str, **more: Any) -> Any:
    """Declares a list of texts out of `choices`, at least one of them; of any texts where there are none."""
    return _declare(type=ValueType.LIST, default=default, choices=choices, doc=doc, **more)


def _declare(*, default: Value, **attributes: Any) -> Any:
    return dataclasses.field(default=default, metadata={"default": default, **attributes})


def table(declared: type[Any]) -> dict[str, Key]:
    """The properties declared by a dataclass, by Kafka name, in the order of declaration."""
    names = {field.name.replace("_", "."): field for field in dataclasses.fields(declared)}
    return {name: Key(name=name, **field.metadata) for name, field in names.items()}


def attribute(name: str) -> str:
    """The field that holds the property `name`."""
    return name.replace(".", "_")


def parse_all(keys: Mapping[str, Key], settings: Mapping[str, str], what: str) -> dict[str, Value]:
    """Reads `settings`, by field name. Raises INVALID_CONFIG for an unknown name or a bad value."""
    parsed: dict[str, Value] = {}
    for name, value in settings.items():
        if name not in keys:
            raise unknown(name, keys, what)
        parsed[attribute(name)] = keys[name].parse(value)
    return parsed
