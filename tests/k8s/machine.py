"""Requirements of a real cluster on this machine, and the missing ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

CNI: Final = Path("/usr/lib/cni")
_PROGRAMS: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "etcd": "etcd-server",
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "dockerd": "docker.io",
    "debootstrap": "debootstrap",
}
_NAMESPACE: Final = "sharebroker-may-i"


def lacking() -> list[str]:
    """Returns a sentence per missing requirement; none if a cluster can be started."""
    if os.geteuid() != 0:
        return ["A kubelet needs root: run it as root."]
    packages = {package for program, package in _PROGRAMS.items() if shutil.which(program) is None}
    if not (CNI / "bridge").exists():
        packages.add("containernetworking-plugins")
    if packages:
        return [f"apt-get install --no-install-recommends {' '.join(sorted(packages))}"]
    if not _namespaces():
        return ["No network namespace can be made here (`ip netns add`)."]
    return []


def _namespaces() -> bool:
    made = subprocess.run(["ip", "netns", "add", _NAMESPACE], capture_output=True, check=False, timeout=10)
    subprocess.run(["ip", "netns", "del", _NAMESPACE], capture_output=True, check=False, timeout=10)
    return made.returncode == 0
