"""Groups the fields of a struct for generated code, which handles neighbours of fixed size together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from sharebroker_server.codegen import Lines, Source
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
