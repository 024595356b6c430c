"""Every decision has the form that services/decisions/README.md prescribes, and a row in its index."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.sources import ROOT
from tests.testkit.tables import each

FOLDER = ROOT / "services" / "decisions"
DECISIONS = sorted(FOLDER.glob("[0-9]*.md"))
_SECTIONS = ["Decided", "Why", "Alternatives", "Costs"]


@each("decision", DECISIONS)
def test_a_decision_has_the_prescribed_form(decision: Path) -> None:
    text = decision.read_text()
    number = decision.name[:4]
    assert re.match(
        rf"# {number}: \S.+\n\n\*\*Status:\*\* (accepted|superseded by \d{{4}}), \d{{4}}-\d\d-\d\d", text
    )
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == _SECTIONS


def test_the_index_lists_every_decision_once_with_its_title() -> None:
    rows = re.findall(
        r"^\| (\d{4}) \| \[([^]]+)\]\(([^)]+)\) \|", (FOLDER / "README.md").read_text(), re.MULTILINE
    )
    titles = {path.name: path.read_text().partition(": ")[2].partition("\n")[0] for path in DECISIONS}
    assert sorted(file for _, _, file in rows) == sorted(titles)
    assert all(titles[file] == title and file[:4] == number for number, title, file in rows)
