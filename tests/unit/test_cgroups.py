"""The cgroup folders whose limits apply to a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.cgroups import cgroup_folders


@pytest.mark.parametrize(
    ("cgroup", "folders"),
    [
        ("0::/a/b\n", [("a/b", 2), ("a", 2), ("", 2)]),
        ("0::/\n", [("", 2)]),
        ("4:cpu,cpuacct:/a\n5:memory:/b\n", [("cpu/a", 1), ("cpu", 1)]),
        ("4:cpuacct:/a\n0::/c\n", [("c", 2), ("", 2)]),
        ("", []),
    ],
)
def test_folders_of_the_controller_are_listed_up_to_the_root(
    tmp_path: Path, cgroup: str, folders: list[tuple[str, int]]
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(cgroup)
    found = cgroup_folders("cpu", "cpu", tmp_path, tmp_path / "mount")
    expected = [(tmp_path / "mount" / path, version) for path, version in folders]
    assert [tuple(folder) for folder in found] == expected


def test_a_system_without_cgroups_has_no_folders(tmp_path: Path) -> None:
    assert not list(cgroup_folders("cpu", "cpu", tmp_path, tmp_path))
