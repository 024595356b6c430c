"""Every product module has a test module of the same path and name."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from tests.architecture.sources import ROOT, Function, functions, name, python

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


def test_every_module_has_its_test_module() -> None:
    missing = {module for module in modules_with_logic() if not any(map(Path.exists, homes(module)))}
    assert not missing, "add tests/unit/<path>/test_<name>.py"


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
