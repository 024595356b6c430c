"""The documents name mutants as `make simulate-mutants` does."""

from __future__ import annotations

import re

from tests.architecture.sources import ROOT
from tests.simulation.mutants import MUTANTS

NAMES = {mutant.missing for mutant in MUTANTS}
_CITED = re.compile(r"mutants? ((?:\*[^*]+\*(?:, )?)+)")


def test_the_mutants_that_epochs_cites_exist() -> None:
    cited = _CITED.findall((ROOT / "services" / "EPOCHS.md").read_text())
    names = {name for group in cited for name in re.findall(r"\*([^*]+)\*", group)}
    assert names
    assert names <= NAMES


def test_the_simulation_readme_lists_every_mutant() -> None:
    text = (ROOT / "tests" / "simulation" / "README.md").read_text()
    rows = text.partition("| Missing | Seed | Invariant |")[2].partition("\n\n")[0].splitlines()[2:]
    assert {row.split(" | ")[0].removeprefix("| ") for row in rows} == NAMES
