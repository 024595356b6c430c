"""Functions made from generated source: one for each struct and version.

Going over a list of fields costs as much again as reading or writing them; in a function that names each
field it costs nothing.
"""

from __future__ import annotations

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
"""Types of fixed size and their formats in `struct`."""

Lines = list[str]


def runs(fields: Iterable[Field]) -> Iterator[list[Field]]:
    """Fields in their order: neighbours of fixed size together, every other alone."""
    for _, run in groupby(fields, lambda field: is_fixed(field) or field.name):
        yield list(run)


def is_fixed(field: Field) -> bool:
    """Whether the field takes as many bytes whatever its value."""
    return not field.array and field.type in FORMATS


def layout(run: Iterable[Field]) -> str:
    """The format of a run in `struct`."""
    return ">" + "".join(FORMATS[field.type] for field in run)


class Source:
    """The lines of a function `(parameters)` and the values they refer to by name."""

    def __init__(self, name: str, parameters: str) -> None:
        self._name = name
        self._lines = [f"def {name}({parameters}):"]
        self._values: dict[str, Any] = {}

    def add(self, lines: Iterable[str]) -> None:
        """Append lines to the function's body."""
        self._lines += indented(lines)

    def refer(self, value: Any, name: str) -> str:
        """The name under which lines can use a value: `name`, or one like it."""
        if self._values.setdefault(name, value) is not value:
            name = f"{name}_{len(self._values)}"
            self._values[name] = value
        return name

    def function(self) -> Callable[..., Any]:
        """The finished function."""
        namespace = dict(self._values)
        exec("\n".join(self._lines), namespace)
        function: Callable[..., Any] = namespace[self._name]
        return function


def indented(lines: Iterable[str]) -> Lines:
    """The lines, one level further in."""
    return [f"    {line}" for line in lines]
