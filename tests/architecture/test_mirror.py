"""Every product module has a test module of the same path and name."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

from tests.architecture.sources import ROOT, Function, content, functions, name, python

ROOTS: Final = {
    "services/sharebroker_server/": "",
    "libs/sharebroker_server/": "",
    "libs/protocol/sharebroker_protocol/": "protocol/",
    "libs/python_client/sharebroker/": "client/",
    "libs/spark_source/sharebroker_spark/": "spark/",
}
"""Folders of product code, and the folder of a test layer that mirrors each."""

LAYERS: Final = ("unit", "property", "contract", "integration", "scenarios")
"""Test folders that may hold the mirror: the test of a rule is pure, that of a shell may use real parts."""

SPARK: Final = "spark"
"""The test folder for modules that need Spark; the Spark source has its tests at the top of it."""

IMPORT: Final = re.compile(
    r"^ *(?:from ([\w.]+) import (?:\(([^)]*)\)|(.+))|import ([\w.]+).*)$", re.MULTILINE
)
"""An import statement; parsing the tests would take seconds."""

INDIRECT: Final = (
    "libs/python_client/sharebroker/consumer/config.py",
    "libs/python_client/sharebroker/producer/config.py",
    "libs/python_client/sharebroker/tracing/application.py",
    "libs/sharebroker_server/shard_topic/reading.py",
    "services/sharebroker_server/gateway/consume/",
    "services/sharebroker_server/gateway/produce/publish.py",
    "services/sharebroker_server/pipeline/launcher.py",
    "services/sharebroker_server/share_partition_leader/log/",
)
"""Modules whose unit tests use an RPC, a process or the public package, and import no module beside them."""


def test_every_module_has_its_test_module() -> None:
    missing = {module for module in modules_with_logic() if not any(map(Path.exists, homes(module)))}
    assert not missing, "add tests/unit/<path>/test_<name>.py"


def test_unit_test_module_imports_its_package() -> None:
    """A test may drive its module through a fixture; an empty file or a test of other code fails."""
    unrelated = {
        module
        for module in modules_with_logic()
        if not module.startswith(INDIRECT)
        for home in homes(module)
        if home.exists() and "unit" in home.parts
        if not any(imported.startswith(package(module)) for imported in imports_of_test(home))
    }
    assert not unrelated, "import the module under test, directly or through a fixture"


def package(module: str) -> str:
    """Returns the package of a product module, in dots; handlers of APIs are reached through dispatch."""
    root = next(root for root in ROOTS if module.startswith(root))
    folder = module.removeprefix(root.rpartition("/")[0].rpartition("/")[0] + "/").rpartition("/")[0]
    return folder.removesuffix("/api").replace("/", ".")


def imports_of_test(home: Path) -> set[str]:
    """Returns what a test module, its helpers and its conftest files import."""
    conftests = [folder / "conftest.py" for folder in home.parents if folder.is_relative_to(ROOT / "tests")]
    pending = [home, *(path for path in conftests if path.exists())]
    found, read = set[str](), set[Path]()
    while pending:
        path = pending.pop()
        if path in read:
            continue
        read.add(path)
        imported = imports(path)
        found |= imported
        helpers = (
            ROOT / f"{module.replace('.', '/')}.py" for module in imported if module.startswith("tests.")
        )
        pending += [path for path in helpers if path.exists()]
    return found


@cache
def imports(path: Path) -> frozenset[str]:
    """Returns the modules that a file imports, and the names that it imports from them."""
    found = set[str]()
    for module, listed, several, alone in IMPORT.findall(content(path)):
        names = re.findall(r"(\w+)(?: as \w+)?(?:,|$)", (listed or several).strip(), re.MULTILINE)
        found |= {module or alone, *(f"{module}.{each}" for each in names)}
    return frozenset(found)


def homes(module: str) -> list[Path]:
    """The paths at which the test module of a product module may be."""
    root = next(root for root in ROOTS if module.startswith(root))
    folder, _, file = (ROOTS[root] + module.removeprefix(root)).rpartition("/")
    in_spark = ROOT / "tests" / SPARK / folder.removeprefix(SPARK).removeprefix("/") / f"test_{file}"
    return [*(ROOT / "tests" / layer / folder / f"test_{file}" for layer in LAYERS), in_spark]


def modules_with_logic() -> list[str]:
    """Product modules with at least one function that does something."""
    return [
        name(path)
        for path in python(*ROOTS)
        if not path.name.startswith("__")
        if any(map(does_something, functions(path)))
    ]


def does_something(function: Function) -> bool:
    """Whether a function has a body beyond a docstring, `...` or an abstract method's `raise`."""
    body = [
        node
        for node in function.body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    return any(not isinstance(node, ast.Pass | ast.Raise) for node in body)
