"""Compiles generated source to functions: one for each struct and version.

A loop over a list of fields costs as much as reading or writing the fields. A function that names each field
avoids that cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from sharebroker_server.kafka_wire.schema import Field

FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
"""Types of fixed size, with their formats in the module `struct`."""

Lines = list[str]


def runs(fields: Iterable[Field]) -> Iterator[list[Field]]:
    """Yields the fields in their order: neighbours of fixed size together, each other field alone."""
    for _, run in groupby(fields, lambda field: is_fixed(field) or field.name):
        yield list(run)


def is_fixed(field: Field) -> bool:
    """Returns whether the field has the same number of bytes for every value."""
    return not field.array and field.type in FORMATS


def layout(run: Iterable[Field]) -> str:
    """Returns the format of a run of fields for the module `struct`."""
    return ">" + "".join(FORMATS[field.type] for field in run)


class Source:
    """The source of a function, and the values that its lines refer to by name."""

    def __init__(self, name: str, parameters: str) -> None:
        self._name = name
        self._lines = [f"def {name}({parameters}):"]
        self._values: dict[str, Any] = {}

    def add(self, lines: Iterable[str]) -> None:
        """Appends lines to the function's body."""
        self._lines += indented(lines)

    def refer(self, value: Any, name: str) -> str:
        """Returns the name under which lines can use a value: `name`, or `name` with a number."""
        if self._values.setdefault(name, value) is not value:
            name = f"{name}_{len(self._values)}"
            self._values[name] = value
        return name

    def function(self) -> Callable[..., Any]:
        """Compiles and returns the function."""
        namespace = dict(self._values)
        exec("\n".join(self._lines), namespace)
        function: Callable[..., Any] = namespace[self._name]
        return function


class FieldLines(ABC):
    """Generates the lines that read or write the fields of a struct in one version."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible

    def add_untagged(self, fields: Iterable[Field]) -> None:
        """Adds the lines for the attributes of `message`, except for tagged fields."""
        for run in runs(field for field in fields if field.tag is None):
            self._source.add(
                self.run(run) if is_fixed(run[0]) else self.field(run[0], f"message.{run[0].name}")
            )

    @abstractmethod
    def run(self, run: list[Field]) -> Lines:
        """Returns lines for neighbouring fields of fixed size."""

    @abstractmethod
    def field(self, field: Field, name: str, /) -> Lines:
        """Returns lines for one field of any type, whose value has this name in the source."""


def indented(lines: Iterable[str]) -> Lines:
    """Returns the lines, indented by one level."""
    return [f"    {line}" for line in lines]
