"""The command that serves a checkout, and the folders of its modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.perf.checkout import HERE, Checkout, NoServer


def make(folder: Path, *files: str) -> Checkout:
    """A checkout with empty files."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return Checkout(folder)


def test_checkout_before_the_rename_is_served(tmp_path: Path) -> None:
    checkout = make(tmp_path, "services/broker/__main__.py")
    assert checkout.serve_command() == [sys.executable, "-m", "services.broker"]


@pytest.mark.parametrize("folder", [".", "services", "libs"])
def test_checkout_after_the_rename_is_served(tmp_path: Path, folder: str) -> None:
    checkout = make(tmp_path, f"{folder}/sharebroker_server/broker/__main__.py", "services/x.py")
    assert checkout.serve_command(runner=("-X", "dev", "-m")) == [
        sys.executable,
        "-X",
        "dev",
        "-m",
        "sharebroker_server.broker",
    ]


def test_own_environment_of_the_checkout_is_preferred(tmp_path: Path) -> None:
    checkout = make(tmp_path, "services/broker/__main__.py", ".venv/bin/python")
    assert checkout.serve_command()[0] == str(tmp_path / ".venv/bin/python")


def test_unknown_layout_is_served_by_the_command_line_tool(tmp_path: Path) -> None:
    checkout = make(tmp_path, ".venv/bin/sharebroker")
    assert checkout.serve_command() == [str(tmp_path / ".venv/bin/sharebroker"), "serve"]


def test_folder_without_a_server_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(NoServer):
        Checkout.at(tmp_path)


def test_only_modules_of_the_checkout_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    make(tmp_path, "services/broker/__main__.py", "libs/python_client/x.py", "more/y.py")
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = [".", "more"]\n')
    paths = Checkout(tmp_path).environment()["PYTHONPATH"].split(os.pathsep)
    folders = (".", "more", "services", "libs", "libs/python_client")
    assert paths == [str((tmp_path / name).resolve()) for name in folders]


def test_this_checkout_has_a_serve_command() -> None:
    assert Checkout.at(HERE.folder).module is not None
