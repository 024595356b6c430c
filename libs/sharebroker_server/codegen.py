"""Compiles generated source to a function.

A loop over a list of fields costs as much as reading, writing or copying the fields. A function that names
each field avoids that cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Lines = list[str]


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


def indented(lines: Iterable[str]) -> Lines:
    """Returns the lines, indented by one level."""
    return [f"    {line}" for line in lines]
