"""The node's network: a separate namespace, reached over one virtual cable."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Final

from tests.k8s.parts import Missing

NAMESPACE: Final = "sharebroker-k8s"
NODE: Final = "10.99.0.1"
"""The node's address, with the API server, cluster DNS and node ports."""

_HERE: Final = "10.99.0.254"
_CABLE: Final = "sharebroker-k8s"
INSIDE: Final = ("nsenter", f"--net=/run/netns/{NAMESPACE}")
"""Prefix of a command that runs there. `ip netns exec` would hide the cgroups."""


@contextlib.contextmanager
def network() -> Iterator[None]:
    """Creates the network; kube-proxy's rules and the pods' bridge end with it. Raises Missing."""
    try:
        _ip("netns", "add", NAMESPACE)
    except OSError as failure:
        raise Missing(
            f"{failure}: another run is in progress, or was killed; `ip netns del {NAMESPACE}` if so"
        ) from failure
    try:
        _ip("link", "add", _CABLE, "type", "veth", "peer", "name", "node0", "netns", NAMESPACE)
        _ip("addr", "add", f"{_HERE}/24", "dev", _CABLE)
        _ip("link", "set", _CABLE, "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("addr", "add", f"{NODE}/24", "dev", "node0"),
            ("link", "set", "node0", "up"),
            ("route", "add", "default", "dev", "node0"),
        ):
            _ip("-n", NAMESPACE, *words)
        _run(*INSIDE, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        yield
    finally:
        with contextlib.suppress(OSError):
            _ip("netns", "del", NAMESPACE)


def pod_networks() -> set[str]:
    """Returns the namespaces that containerd creates for pods."""
    names = _run("ip", "netns", "list").splitlines()
    return {line.split()[0] for line in names if line.startswith("cni-")}


def remove(namespaces: set[str]) -> None:
    """Removes the namespaces of pods that were never stopped."""
    for name in namespaces:
        with contextlib.suppress(OSError):
            _ip("netns", "del", name)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
