"""Network namespaces on a bridge, to run processes as if on separate machines."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from secrets import randbelow


@dataclass(frozen=True)
class Machine:
    """A network namespace; `address` is its address for this host and the other namespaces."""

    name: str
    address: str
    cable: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """The command prefix that runs a process in the namespace, with the same process id."""
        return ("ip", "netns", "exec", self.name)

    def unplug(self) -> None:
        """Drops all packets to and from the namespace; connections remain open."""
        _ip("link", "set", self.cable, "down")

    def plug(self) -> None:
        """Forwards packets again."""
        _ip("link", "set", self.cable, "up")


def possible() -> bool:
    """Returns whether namespaces can be created: this needs root, Linux and iproute2."""
    if shutil.which("ip") is None:
        return False
    try:
        with machines(1):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def machines(count: int) -> Iterator[tuple[str, list[Machine]]]:
    """Provides this host's address and a number of namespaces. Raises OSError if impossible."""
    # The name of an interface has at most 15 characters.
    run = f"sb{os.getpid() % 100_000}{randbelow(1000)}"
    net = f"10.{200 + randbelow(50)}.{randbelow(256)}"
    with contextlib.ExitStack() as stack:
        _ip("link", "add", run, "type", "bridge")
        stack.callback(_quietly, "link", "del", run)
        _ip("addr", "add", f"{net}.1/24", "dev", run)
        _ip("link", "set", run, "up")
        yield f"{net}.1", [_machine(stack, run, number, f"{net}.{number + 2}") for number in range(count)]


def _machine(stack: contextlib.ExitStack, bridge: str, number: int, address: str) -> Machine:
    name, cable = f"{bridge}-{number}", f"{bridge}v{number}"
    _ip("netns", "add", name)
    stack.callback(_quietly, "netns", "del", name)
    _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
    stack.callback(_quietly, "link", "del", cable)
    _ip("link", "set", cable, "master", bridge, "up")
    _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
    for link in ("eth0", "lo"):
        _ip("-n", name, "link", "set", link, "up")
    return Machine(name, address, cable)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=10, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _quietly(*words: str) -> None:
    with contextlib.suppress(OSError):
        _ip(*words)
