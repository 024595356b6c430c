"""`make help` lists every target, and documents name existing targets."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, files, name

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([^\s.:#]+):", MAKEFILE, re.MULTILINE))
_MAKE = re.compile(r"`make ([a-z][a-z0-9-]*)")


def test_help_lists_every_target() -> None:
    command = ["make", "--no-print-directory", "help"]  # a nested make would print its folder
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    described = set(re.findall(r"^(\S+):.*## ", MAKEFILE, re.MULTILINE))
    assert {line.split()[0] for line in listed.splitlines()} == described


@pytest.mark.parametrize("document", [path for path in files() if path.suffix == ".md"], ids=name)
def test_documents_name_existing_targets(document: Path) -> None:
    assert set(_MAKE.findall(document.read_text())) <= TARGETS
