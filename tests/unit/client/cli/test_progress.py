"""The progress of reading input."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.progress import BarColumn, TimeRemainingColumn

from sharebroker.cli.progress import progress, progress_columns, size_of
from sharebroker.cli.reading import CountedLines


def test_size_of_a_file_is_known_and_that_of_a_buffer_is_not(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"abc")
    with file.open("rb") as opened:
        assert size_of(opened) == 3
    assert size_of(io.BytesIO(b"abc")) is None


def test_known_size_has_percentage_and_eta() -> None:
    kinds = [type(column) for column in progress_columns(10)]
    assert kinds[0] is BarColumn
    assert kinds[-1] is TimeRemainingColumn
    assert BarColumn not in [type(column) for column in progress_columns(None)]
    assert BarColumn not in [type(column) for column in progress_columns(0)]


def test_progress_is_silent_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    lines = CountedLines([b"a"])
    with progress(lines, 1) as shown:
        shown(1)
    assert capfd.readouterr().err == ""
