"""Properties: type, default, limits and meaning, and how their text is parsed.

A property is declared once, as a field of a frozen dataclass (see `broker.py`); its Kafka name is the field's
name with dots instead of underscores.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError

Value = bool | int | float | str

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
NO_EFFECT: Final = "Accepted for compatibility with Kafka; has no effect."
_TRUTH: Final = {"true": True, "false": False}


class ValueType(IntEnum):
    """The type of a property in DescribeConfigs (Kafka: `ConfigEntry.ConfigType`)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class Key:
    """One property. `low` and `high` limit numbers, `choices` limit texts (empty: any text).

    `dynamic`: a broker property that can change while brokers run. `honoured` is false if the value is
    accepted because Kafka's tools set it and has no effect. `broker` names the broker property that provides
    the default of a group or topic property; `at_least` and `at_most` name the properties that limit it.
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
        """Returns the value of `text`. Raises INVALID_CONFIG with the allowed values."""
        text = text.strip()
        if self.type is ValueType.BOOLEAN:
            if text.lower() not in _TRUTH:
                raise self.invalid_value(text)
            return _TRUTH[text.lower()]
        if self.type in (ValueType.INT, ValueType.LONG):
            return self._number(text)
        if self.type is ValueType.DOUBLE:
            return self._double(text)
        if self.type is ValueType.LIST:
            return self._list(text)
        if self.choices and text not in self.choices:
            raise self.invalid_value(text)
        return text

    def _list(self, text: str) -> str:
        parts = split(text)
        empty = not parts and bool(self.default)  # a list with an empty default may be empty
        if self.choices and (empty or not set(parts) <= set(self.choices)):
            raise self.invalid_value(text)
        return ",".join(parts)

    def _number(self, text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise self.invalid_value(text) from None
        if not self.low <= number <= self.high:
            raise self.invalid_value(text)
        return number

    def _double(self, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise self.invalid_value(text) from None
        if not self.low <= number <= self.high:  # also rejects nan
            raise self.invalid_value(text)
        return number

    def allowed(self) -> str:
        """Returns a description of the allowed values."""
        if self.type is ValueType.BOOLEAN:
            return "true or false"
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type in (ValueType.STRING, ValueType.LIST):
            return "any text"
        kind = "a number" if self.type is ValueType.DOUBLE else "an integer"
        return f"{kind} from {self.low} to {self.high}"

    def invalid_value(self, text: str) -> KafkaError:
        """Returns the error of a value that is not allowed."""
        if self.type is ValueType.BOOLEAN:  # the text of Kafka
            expected = "Expected value to be either true or false"
            return invalid(self.name, f"Invalid value {text} for configuration {self.name}: {expected}")
        return invalid(self.name, f"Invalid value {text!r} for {self.name}: expected {self.allowed()}.")

    def normal(self, text: str) -> str:
        """Returns a valid text as Kafka stores it: without spaces around it, booleans in lower case."""
        text = text.strip()
        return text.lower() if self.type is ValueType.BOOLEAN else text


def split(text: str) -> list[str]:
    """Returns the items of a list."""
    return [part.strip() for part in text.split(",")] if text.strip() else []


def render(value: Value) -> str:
    """Returns the text of a value, as in `Key.parse` and DescribeConfigs."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def invalid(name: str, message: str) -> KafkaError:
    """Returns INVALID_CONFIG for the property `name`."""
    return KafkaError(ErrorCode.INVALID_CONFIG, message, metadata={"config": name})


def unknown(name: str, known: Iterable[str], what: str) -> KafkaError:
    """Returns INVALID_CONFIG for an unknown property; `what` is Kafka's wording for the kind of name."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return invalid(name, f"Unknown {what}: {name}{hint}")


def integer(default: int, low: int, high: int, doc: str, **more: Any) -> Any:
    """Declares an integer in [low, high]."""
    kind = ValueType.LONG if high > INT_MAX else ValueType.INT
    return _declare(type=kind, default=default, low=low, high=high, doc=doc, **more)


def int_from(default: int, low: int, doc: str, **more: Any) -> Any:
    """Declares an int of `low` or more."""
    return integer(default, low, INT_MAX, doc, **more)


def long_from(default: int, low: int, doc: str, **more: Any) -> Any:
    """Declares a long of `low` or more."""
    return integer(default, low, LONG_MAX, doc, **more)


def double(default: float, low: int, high: int, doc: str, **more: Any) -> Any:
    """Declares a number in [low, high]."""
    return _declare(type=ValueType.DOUBLE, default=default, low=low, high=high, doc=doc, **more)


def boolean(default: bool, doc: str, **more: Any) -> Any:
    """Declares a boolean."""
    return _declare(type=ValueType.BOOLEAN, default=default, doc=doc, **more)


def choice(default: str, choices: tuple[str, ...], doc: str, **more: Any) -> Any:
    """Declares a text out of `choices`."""
    return _declare(type=ValueType.STRING, default=default, choices=choices, doc=doc, **more)


def text(default: str, doc: str, **more: Any) -> Any:
    """Declares a text."""
    return _declare(type=ValueType.STRING, default=default, doc=doc, **more)


def several(default: str, choices: tuple[str, ...], doc: str, **more: Any) -> Any:
    """Declares a list of texts out of `choices`, or of any texts if `choices` is empty.

    It may only be empty if its default is.
    """
    return _declare(type=ValueType.LIST, default=default, choices=choices, doc=doc, **more)


def ignored(default: Value, low: int = 0, high: int = INT_MAX) -> Any:
    """Declares a property without effect; its type is that of `default`, and the bounds apply to integers."""
    if isinstance(default, bool):
        return boolean(default, NO_EFFECT, honoured=False)
    if isinstance(default, int):
        return integer(default, low, high, NO_EFFECT, honoured=False)
    return text(str(default), NO_EFFECT, honoured=False)


def inherited(parent: Key, **changes: Any) -> Any:
    """Declares a group or topic property like the broker property `parent`, with `changes`."""
    declared = {field.name: getattr(parent, field.name) for field in dataclasses.fields(Key)}
    del declared["name"]
    return _declare(**declared | {"broker": parent.name, "dynamic": False} | changes)


def _declare(*, default: Value, **attributes: Any) -> Any:
    return dataclasses.field(default=default, metadata={"default": default, **attributes})


def table(declared: type[Any]) -> dict[str, Key]:
    """Returns the properties that a dataclass declares, by Kafka name: its own, then those of its bases."""
    own = declared.__annotations__
    fields = sorted(dataclasses.fields(declared), key=lambda field: field.name not in own)
    names = {field.name.replace("_", "."): field for field in fields}
    return {name: Key(name=name, **field.metadata) for name, field in names.items()}


def attribute(name: str) -> str:
    """Returns the field name of the property `name`."""
    return name.replace(".", "_")


def parse_all(keys: Mapping[str, Key], settings: Mapping[str, str], what: str) -> dict[str, Value]:
    """Returns the parsed `settings` by field name.

    Raises INVALID_CONFIG for an unknown name or an invalid value.
    """
    parsed: dict[str, Value] = {}
    for name, value in settings.items():
        if name not in keys:
            raise unknown(name, keys, what)
        parsed[attribute(name)] = keys[name].parse(value)
    return parsed


def appended(key: Key, present: str, added: str) -> str:
    """Returns the list with the missing items of `added`.

    Raises INVALID_CONFIG if the property is no list.
    """
    items = _items(key, present, "APPEND to")
    return ",".join(dict.fromkeys([*items, *split(added)]))


def subtracted(key: Key, present: str, removed: str) -> str:
    """Returns the list without the items of `removed`. Raises INVALID_CONFIG if the property is no list."""
    removed_items = split(removed)
    return ",".join(item for item in _items(key, present, "SUBTRACT from") if item not in removed_items)


def _items(key: Key, present: str, what: str) -> list[str]:
    if key.type is not ValueType.LIST:
        raise invalid(key.name, f"Can't {what} key {key.name} because its type is not LIST.")
    return split(present)
