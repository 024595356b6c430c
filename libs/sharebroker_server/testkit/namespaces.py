"""Machines of their own for processes: network namespaces on a bridge, with cables that can be pulled."""

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
    """A network namespace; `address` is where this one, and only this one, reaches it."""

    name: str
    address: str
    cable: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put before a command that is to run there; it keeps its process id."""
        return ("ip", "netns", "exec", self.name)

    def unplug(self) -> None:
        """Nothing gets there any more, and nothing comes from there; connections stay."""
        _ip("link", "set", self.cable, "down")

    def plug(self) -> None:
        """Put the cable back."""
        _ip("link", "set", self.cable, "up")


def possible() -> bool:
    """Whether such machines can be made here: it takes root, Linux and iproute2."""
    if shutil.which("ip") is None:
        return False
    try:
        with machines(1):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def machines(count: int) -> Iterator[tuple[str, list[Machine]]]:
    """This machine's address among them, and so many others. Raises OSError where that cannot be."""
    # An interface's name has 15 characters at most.
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
