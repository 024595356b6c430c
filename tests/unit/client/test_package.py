"""The public package: its names, its imports, and the equality of both clients."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib.metadata import version
from typing import Any, get_args, get_type_hints

import pytest
from google.protobuf.message import Message

import sharebroker
import sharebroker.aio
from sharebroker.aio.dead_letters import DeadLetters
from tests.testkit.tables import each

NAMES = ("ShareConsumer", "Producer", "Admin")
LOADED = (
    "import sys, sharebroker_protocol.errors; "
    "print({'grpc', 'aiokafka', 'asyncio'} & set(sys.modules) or 'nothing')"
)


def test_the_error_table_loads_nothing_else() -> None:
    found = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "nothing"


@each("name", sharebroker.__all__)
def test_exported_names_exist(name: str) -> None:
    assert getattr(sharebroker, name).__name__ == name


def test_package_has_the_version_of_its_distribution() -> None:
    assert sharebroker.__version__ == version("sharebroker")


def test_unknown_names_raise_attribute_error() -> None:
    assert set(dir(sharebroker)) == set(sharebroker.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        sharebroker.Consumer  # noqa: B018  # the access is under test


def public(kind: type[object]) -> dict[str, str]:
    """Returns methods and properties with their parameters, without results."""
    members = {
        "__init__": inspect.signature(kind.__init__),
        **{name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")},
    }
    return {
        name: str(inspect.signature(member).replace(return_annotation=inspect.Signature.empty))
        if callable(member)
        else type(member).__name__
        for name, member in members.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_asyncio_and_blocking_have_the_same_methods(name: str) -> None:
    assert public(getattr(sharebroker, name)) == public(getattr(sharebroker.aio, name))


CLIENTS = (sharebroker.aio.Admin, DeadLetters)


def results() -> Iterator[tuple[str, Any]]:
    """Yields the public methods of administration clients with the type of their result."""
    for client in CLIENTS:
        for name, method in inspect.getmembers(client, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{client.__name__}.{name}", get_type_hints(method).get("return")


def parts(kind: Any, known: set[Any]) -> Iterator[type]:
    """Yields the classes that a type consists of, with those of the fields of its dataclasses."""
    if kind in known:
        return
    known.add(kind)
    for argument in get_args(kind):
        yield from parts(argument, known)
    if isinstance(kind, type):
        yield kind
        if is_dataclass(kind):
            for field in get_type_hints(kind).values():
                yield from parts(field, known)


def result_types() -> set[type]:
    known: set[Any] = set()
    return {part for _, kind in results() for part in parts(kind, known)}


def test_no_administration_client_returns_protobuf_messages() -> None:
    returned = {
        name: [each for each in parts(kind, set()) if issubclass(each, Message)] for name, kind in results()
    }
    assert len(returned) > 40
    assert not [name for name, messages in returned.items() if messages]


def undocumented(kind: type) -> Iterator[str]:
    """Yields the public fields of a class that no string follows."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    for statement, following in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if not documented and not statement.target.id.startswith("_"):
                yield f"{kind.__name__}.{statement.target.id}"


def test_every_public_field_has_a_description() -> None:
    exported = {getattr(sharebroker, name) for name in sharebroker.__all__}
    classes = {kind for kind in exported | result_types() if kind.__module__.startswith("sharebroker")}
    assert not sorted(field for kind in classes for field in undocumented(kind))
