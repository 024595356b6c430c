"""Memory of a process: of its cgroup or of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sharebroker_server.process_memory import available_memory, resident_memory, trim_memory

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_resident_memory_includes_allocated_memory() -> None:
    before = resident_memory()
    data = bytearray(b"x") * (64 << 20)
    assert resident_memory() - before > 32 << 20
    del data
    trim_memory()
    assert 0 < resident_memory() < MACHINE


def system(folder: Path, cgroup: str, limits: dict[str, str]) -> int:
    """Returns the available memory of a process with this cgroup file, and these limits by path."""
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "self" / "cgroup").write_text(cgroup)
    for name, limit in limits.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{limit}\n")
    return available_memory(folder / "proc", folder / "cgroup")


@pytest.mark.parametrize(
    ("cgroup", "limits", "available"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "1000"}, 1000),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "3000"}, 3000),
        ("0::/a/b\n", {"a/b/memory.max": "max"}, MACHINE),
        ("0::/\n", {"memory.max": "2000"}, 2000),
        ("0::/host/path\n", {"memory.max": "2000"}, 2000),
        ("4:cpu,memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "4000"}, 4000),
        ("4:memory:/host/path\n", {"memory/memory.limit_in_bytes": "4000"}, 4000),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": str((1 << 63) - 4096)}, MACHINE),
        ("5:cpu:/a\n", {}, MACHINE),
        ("", {}, MACHINE),
    ],
)
def test_available_memory_is_that_of_the_cgroup_or_the_machine(
    tmp_path: Path, cgroup: str, limits: dict[str, str], available: int
) -> None:
    assert system(tmp_path, cgroup, limits) == available


def test_systems_without_cgroups_have_the_memory_of_the_machine(tmp_path: Path) -> None:
    assert available_memory(tmp_path, tmp_path) == MACHINE
