"""The README stays short, narrow and exact about what is delivered."""

from __future__ import annotations

from tests.architecture.sources import ROOT

_TEXT = (ROOT / "README.md").read_text()
_LINES = _TEXT.splitlines()


def test_the_readme_has_at_most_200_lines_of_100_columns() -> None:
    assert len(_LINES) <= 200
    assert [line for line in _LINES if len(line) > 100] == []


def test_the_first_screen_names_the_delivery_guarantee() -> None:
    assert "at least once" in "\n".join(_LINES[:25])
