"""CPU and memory of a process tree, as /proc reports them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.perf.procfs import PAGE_BYTES, TICKS, Stat, Usage, command_line, tree, usage


def line(pid: int, parent: int, ticks: int, ended: int = 0, pages: int = 1, name: str = "server") -> str:
    """A line of /proc/PID/stat, as proc(5) has it."""
    fields = ["S", parent, pid, pid, 0, -1, 4194560, 0, 0, 0, 0, ticks, 0, ended, 0, 20, 0, 1, 0, 100, 4096]
    return f"{pid} ({name}) {' '.join(map(str, fields))} {pages} 18446744073709551615"


def test_a_stat_line_is_read() -> None:
    assert Stat.parse(line(7, 1, 250, 30, 12)) == Stat(7, 1, 250, 30, 12)


def test_process_name_may_contain_blanks_and_parentheses() -> None:
    assert Stat.parse(line(7, 3, 5, name="a) b (c")) == Stat(7, 3, 5, 0, 1)


def test_user_and_system_time_are_summed() -> None:
    fields = line(7, 1, 0).split()
    fields[13], fields[14] = "11", "22"
    assert Stat.parse(" ".join(fields)).ticks == 33


def test_a_tree_has_all_descendants_and_no_others() -> None:
    stats = {pid: Stat(pid, parent, 0, 0, 0) for pid, parent in ((1, 0), (5, 1), (6, 5), (7, 6), (8, 1))}
    assert [stat.pid for stat in tree(5, stats)] == [5, 6, 7]


def test_ended_process_has_no_tree() -> None:
    assert tree(5, {1: Stat(1, 0, 0, 0, 0)}) == []


def test_usage_counts_living_and_ended_children(tmp_path: Path) -> None:
    lines = [line(5, 1, 2 * TICKS, TICKS, 3), line(6, 5, 4 * TICKS, 0, 2), line(9, 1, 50 * TICKS)]
    for text in lines:
        folder = tmp_path / text.split()[0]
        folder.mkdir()
        (folder / "stat").write_text(text)
    (tmp_path / "meminfo").write_text("")
    assert usage([5], tmp_path) == Usage(7.0, 5 * PAGE_BYTES)


def test_a_process_under_two_roots_counts_once(tmp_path: Path) -> None:
    for text in (line(5, 1, TICKS), line(6, 5, TICKS)):
        folder = tmp_path / text.split()[0]
        folder.mkdir()
        (folder / "stat").write_text(text)
    assert usage([5, 6], tmp_path).cpu == 2.0


def test_without_proc_there_is_no_usage(tmp_path: Path) -> None:
    assert usage([5], tmp_path / "missing") == Usage()
    assert command_line(5, tmp_path / "missing") == []


def test_this_process_and_its_child_are_found() -> None:
    if not Path("/proc/self/stat").exists():
        return
    alone = usage([os.getpid()])
    words = [sys.executable, "-c", "input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        both = usage([os.getpid()])
        assert command_line(child.pid) == words
        child.communicate(b"\n")
    assert both.rss > alone.rss > 0
