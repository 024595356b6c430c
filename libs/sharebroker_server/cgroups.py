"""The cgroup folders whose limits apply to this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")


class CgroupFolder(NamedTuple):
    """A folder with the limits of one cgroup; `version` is 1 or 2."""

    path: Path
    version: int

    def read(self, name: str) -> str:
        """Returns the content of a file without white space at its ends, "" if it cannot be read."""
        try:
            return (self.path / name).read_text().strip()
        except OSError:
            return ""


def cgroup_folders(
    controller: str, folder: str, proc: Path = PROC, cgroups: Path = CGROUPS
) -> Iterator[CgroupFolder]:
    """Yields the folders of the cgroup of this process and of those that contain it, which may be missing.

    `folder` is the controller's folder in version 1. A line of /proc/self/cgroup is
    `hierarchy:controllers:path`; the controllers are empty in version 2. In a container the path may be that
    of the host, while the container's own cgroup is mounted as the root.
    """
    for line in CgroupFolder(proc / "self", 0).read("cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, version = cgroups, 2
        elif controller in controllers.split(","):
            root, version = cgroups / folder, 1
        else:
            continue
        relative = Path(path.lstrip("/"))
        for each in (relative, *relative.parents):
            yield CgroupFolder(root / each, version)
