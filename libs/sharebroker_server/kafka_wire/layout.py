"""Groups the fields of a struct for generated code, which handles neighbours of fixed size together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from sharebroker_server.codegen import Lines, Source
from sharebroker_server.kafka_wire.schema import Field, Struct

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


PORTION: Final = 1_000
"""Structs that a function in portions reads or writes before it yields."""


class Portion:
    """The number of structs until the next yield."""

    __slots__ = ("remaining",)

    def __init__(self) -> None:
        self.remaining = PORTION


def nests_structs(struct: Struct, version: int) -> bool:
    """Returns whether a struct has arrays of structs, at any depth."""
    return any(
        field.struct is not None and (field.array or nests_structs(field.struct, version))
        for field in struct.of(version)
        if field.tag is None
    )


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
    """Generates the lines that read or write the fields of a struct in one version.

    With `pausing` the lines are those of a generator, which has a `Portion` as the variable `portion`.
    """

    def __init__(self, source: Source, version: int, flexible: bool, pausing: bool = False) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        self._pausing = pausing
        if pausing:
            source.add(["yield from ()"])  # makes the function a generator, even without arrays

    def add_untagged(self, fields: Iterable[Field]) -> None:
        """Adds the lines for the attributes of `message`, except for tagged fields."""
        for run in runs(field for field in fields if field.tag is None):
            self._source.add(
                self.run(run) if is_fixed(run[0]) else self.field(run[0], f"message.{run[0].name}")
            )

    def pause(self, field: Field) -> Lines:
        """Returns the lines after an item of an array."""
        if not self._pausing or field.struct is None:
            return []
        return [
            "portion.remaining -= 1",
            "if not portion.remaining:",
            f"    portion.remaining = {PORTION}",
            "    yield",
        ]

    def pauses_in(self, field: Field) -> bool:
        """Returns whether the function of the field's struct is a generator."""
        return self._pausing and field.struct is not None and nests_structs(field.struct, self._version)

    @abstractmethod
    def run(self, run: list[Field]) -> Lines:
        """Returns lines for neighbouring fields of fixed size."""

    @abstractmethod
    def field(self, field: Field, name: str, /) -> Lines:
        """Returns lines for one field of any type, whose value has this name in the source."""
