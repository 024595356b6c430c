"""Traced requests: the counts, and the recording that represents a request."""

from __future__ import annotations

import sys
from pathlib import Path

import crc32c
import pytest

from tests.perf.paths import FILES, FRAMES, Called, Route, exceeded, listing, record_batch, table, typical
from tests.perf.recorder import Recorder

CALLS = [
    Called("a.py", "f", 1, False),
    Called("a.py", "g", 2, False),
    Called("b.py", "h", 3, False),
    Called("a.py", "f", 1, True),
]


def test_path_counts_files_calls_functions_and_stack_depth() -> None:
    assert Route.of(CALLS) == Route(files=2, calls=4, functions=3, changes_of_file=2, deepest=3)
    assert Route.of([]) == Route(0, 0, 0, 0, 0)


def test_the_most_frequent_number_of_calls_is_typical() -> None:
    noisy = [CALLS * 2, CALLS, CALLS * 3, CALLS, CALLS * 2, CALLS]
    assert typical(noisy) == CALLS


def test_shortest_of_equally_frequent_recordings_is_typical() -> None:
    assert typical([CALLS * 3, CALLS, CALLS * 2]) == CALLS


def test_no_recording_raises_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        typical([])


def test_table_has_one_row_per_request() -> None:
    assert table({"ShareFetch": Route(54, 265, 212, 168, 25)}).splitlines() == [
        "| request | files | calls | functions | changes of file | deepest stack |",
        "|---|---:|---:|---:|---:|---:|",
        "| ShareFetch | 54 | 265 | 212 | 168 | 25 |",
    ]


def test_a_request_beyond_its_budget_is_reported() -> None:
    within = {name: Route(files, 265, 212, 168, FRAMES) for name, files in FILES.items()}
    assert exceeded(within) == []
    over = within | {"Produce": Route(36, 265, 212, 168, 16)}
    assert exceeded(over) == [
        "Produce touches 36 files; its budget is 35.",
        "Produce has a stack of 16 frames; its budget is 15.",
    ]


def test_the_listing_is_indented_by_depth() -> None:
    assert list(listing(CALLS[2:])) == ["      b.py: h", "  … a.py: f"]


def test_a_record_batch_has_its_length_and_checksum() -> None:
    batch = record_batch(b"x" * 100)
    assert int.from_bytes(batch[8:12]) == len(batch) - 12
    assert int.from_bytes(batch[17:21]) == crc32c.crc32c(batch[21:])


def test_the_recorder_keeps_functions_of_its_folder_only(tmp_path: Path) -> None:
    source = "import json\ndef inner(): json.dumps([1])\ndef outer(): inner()\n"
    module = tmp_path / "module.py"
    functions: dict[str, object] = {}
    exec(compile(source, str(module), "exec"), functions)
    recorder = Recorder(str(tmp_path))
    recorder.start()
    before = sys.getprofile()
    sys.setprofile(recorder.profile)
    try:
        functions["outer"]()  # type: ignore[operator]
    finally:
        sys.setprofile(before)
    found = recorder.stop()
    assert found == [("module.py", "outer", 1, False), ("module.py", "inner", 2, False)]


def test_recorder_marks_resumed_generators(tmp_path: Path) -> None:
    functions: dict[str, object] = {}
    exec(compile("def f():\n yield 1\n yield 2\n", str(tmp_path / "module.py"), "exec"), functions)
    recorder = Recorder(str(tmp_path))
    recorder.start()
    before = sys.getprofile()
    sys.setprofile(recorder.profile)
    try:
        list(functions["f"]())  # type: ignore[operator]
    finally:
        sys.setprofile(before)
    assert [resumed for *_, resumed in recorder.stop()] == [False, True, True]
