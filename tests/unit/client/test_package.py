"""The public package: its names, its imports, and the equality of both clients."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import sharebroker
import sharebroker.aio
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
