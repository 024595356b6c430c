"""How test files are divided among processes, and what the processes report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.testkit.parts import COSTS, Output, divide, exit_code, find_modules, main

OK, FAILED, NONE = (
    int(pytest.ExitCode.OK),
    int(pytest.ExitCode.TESTS_FAILED),
    int(pytest.ExitCode.NO_TESTS_COLLECTED),
)


def test_parts_have_about_the_same_cost_and_whole_folders() -> None:
    costs = {Path("a/1"): 5, Path("a/2"): 4, Path("b/1"): 4, Path("c/1"): 5, Path("c/d/1"): 1}
    named = [[str(file) for file in part] for part in divide(costs, 2)]
    assert named == [["a/1", "a/2", "c/d/1"], ["b/1", "c/1"]]
    assert divide({Path("a/1"): 1}, 2) == [[Path("a/1")], []]


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([OK, OK], OK),
        ([OK, FAILED], FAILED),
        ([NONE, OK], OK),
        ([NONE, FAILED], FAILED),
        ([NONE, NONE], NONE),
    ],
)
def test_run_fails_if_a_part_fails(codes: list[int], code: int) -> None:
    assert exit_code(codes) == code


def test_files_of_folders_are_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("test_b.py", "sub/test_a.py", "helper.py"):
        (tmp_path / name).write_text("x")
    assert sorted(find_modules([tmp_path])) == [tmp_path / "sub/test_a.py", tmp_path / "test_b.py"]
    assert find_modules([tmp_path / "helper.py"]) == {tmp_path / "helper.py": 1}


def test_modules_below_a_folder_have_its_cost_per_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert all(Path(folder).is_dir() for folder in COSTS)
    module = Path("tests/property/kafka_wire/test_every_message.py")
    assert find_modules([module]) == {module: COSTS["tests/property/kafka_wire"] * module.stat().st_size}


def test_report_of_a_part_is_printed_in_one_piece(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    output.copy(["... [ 50%]\n", "=== FAILURES ===\n", "text\n", "1 failed\n"])
    assert capsys.readouterr().out == "... [ 50%]\n=== FAILURES ===\ntext\n1 failed\n"


@pytest.mark.slow
def test_parts_run_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, body in (("a", "pass"), ("b", "assert False")):
        (tmp_path / f"test_{name}.py").write_text(f"def test_{name}() -> None:\n    {body}\n")
    options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={tmp_path}"]
    assert main(["2", str(tmp_path), *options]) == FAILED
    out = capsys.readouterr().out
    assert "1 passed" in out
    assert "1 failed" in out
