"""Cores of a process: of its affinity, and of the CPU quota of its cgroup."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sharebroker_server.process_cores import usable_cores

MACHINE = 8


@pytest.mark.parametrize(
    ("cgroup", "files", "cores"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "200000 100000"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "350000 100000"}, 3),
        ("0::/a\n", {"a/cpu.max": "50000 100000"}, 1),
        ("0::/a\n", {"a/cpu.max": "max 100000"}, MACHINE),
        ("0::/a\n", {"a/cpu.max": "6400000 100000"}, MACHINE),
        ("0::/a\n", {"a/cpu.max": ""}, MACHINE),
        ("0::/host/path\n", {"cpu.max": "400000 100000"}, 4),
        ("3:cpu,cpuacct:/a\n", {"cpu/a/cpu.cfs_quota_us": "250000", "cpu/a/cpu.cfs_period_us": "50000"}, 5),
        ("3:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, MACHINE),
        ("3:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "100000"}, MACHINE),
        ("", {}, MACHINE),
    ],
)
def test_cores_are_limited_by_affinity_and_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroup: str, files: dict[str, str], cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(MACHINE)))
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(cgroup)
    for name, content in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    assert usable_cores(tmp_path / "proc", tmp_path / "cgroup") == cores


def test_a_process_may_be_bound_to_fewer_cores_than_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2, 5})
    assert usable_cores(Path("/nonexistent"), Path("/nonexistent")) == 3
