"""`make help` lists every target, and documents name existing targets."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.architecture.sources import ROOT, files
from tests.testkit.tables import each

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([^\s.:#]+):", MAKEFILE, re.MULTILINE))
_MAKE = re.compile(r"`make ([a-z][a-z0-9-]*)")


def test_help_lists_every_target() -> None:
    command = ["make", "--no-print-directory", "help"]  # a nested make would print its folder
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    described = set(re.findall(r"^(\S+):.*## ", MAKEFILE, re.MULTILINE))
    assert {line.split()[0] for line in listed.splitlines()} == described


@each("document", [path for path in files() if path.suffix == ".md"])
def test_documents_name_existing_targets(document: Path) -> None:
    assert set(_MAKE.findall(document.read_text())) <= TARGETS
