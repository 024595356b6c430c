"""The server of a run: `sharebroker serve` as a process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_POLL_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 20.0


class NotServingError(Exception):
    """The server did not start; the message names the reason, `exit_code` is the server's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: the addresses for gRPC and Kafka clients ("" if closed), and its process."""

    address: str
    kafka: str
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def serving(data: Path, grpc: str, kafka: str, properties: Sequence[str]) -> Iterator[Server]:
    """Runs a server with all roles and its data below `data`. Raises NotServingError."""
    data.mkdir(parents=True, exist_ok=True)
    # Another run may have a server on the same data, whose log must not be overwritten.
    ready, starting = data / "ready.json", data / "starting.log"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "sharebroker_server.broker", "--data", str(data)]
    command += ["--grpc", grpc, "--kafka", kafka, "--ready-file", str(ready)]
    for assignment in properties:
        command += ["--set", assignment]
    with starting.open("wb") as output:
        # A session of its own: the supervisor handles Ctrl-C in the terminal.
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        facts = _facts(ready, starting, process)
        starting.replace(data / "server.log")
        yield Server(str(facts["grpc"]), str(facts["kafka"] or ""), process)
    finally:
        _stop(process)


def _facts(ready: Path, log: Path, process: subprocess.Popen[bytes]) -> dict[str, object]:
    while not ready.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise NotServingError(_last_line(log), process.wait(_POLL_SECONDS))
    return dict(json.loads(ready.read_text()))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "The server exited without output."
