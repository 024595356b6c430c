"""Runs a module as `python -m` does, and records the function calls of its main thread on request.

`python recorder.py SOCKET FOLDER MODULE [ARGUMENT …]`: only functions of files below FOLDER are recorded. A
control connection on the Unix socket SOCKET sends "start" or "stop" as a line; the reply to "stop" is a JSON
list of calls, each [file, function, stack depth, resumed]. It imports nothing of the project.
"""

from __future__ import annotations

import dis
import json
import os
import runpy
import socketserver
import sys
import threading
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

RESUME = dis.opmap["RESUME"]
START = 0
"""RESUME's argument, in its lower two bits, where a function begins rather than resumes after an await."""

LOOPS = ("asyncio/runners.py", "uvloop/__init__.py")
"""Files whose functions run the event loop: the stack of a callback begins above them."""

NOT_OURS = ("/.venv/", "_pb2", "/tests/")


class Recorder:
    """Keeps the calls between `start` and `stop`. Depth counts project functions on the stack."""

    def __init__(self, folder: str) -> None:
        self._prefix = os.path.join(folder, "")
        self._names: dict[CodeType, str | None] = {}
        self._calls: list[tuple[str, str, int, bool]] = []
        self._recording = False

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """For `sys.setprofile`."""
        if not self._recording or event != "call":
            return
        name = self._name(frame.f_code)
        if name is not None:
            function = frame.f_code.co_qualname
            self._calls.append((name, function, self._depth(frame), _is_resumed(frame)))

    def start(self) -> None:
        """Begin with an empty record."""
        self._calls = []
        self._recording = True

    def stop(self) -> list[tuple[str, str, int, bool]]:
        """The calls since the start."""
        self._recording = False
        return self._calls

    def _depth(self, frame: FrameType | None) -> int:
        depth = 0
        while frame is not None and not frame.f_code.co_filename.endswith(LOOPS):
            depth += self._name(frame.f_code) is not None
            frame = frame.f_back
        return depth

    def _name(self, code: CodeType) -> str | None:
        """The path of a function's file below the folder; None for other people's and for generated code."""
        try:
            return self._names[code]
        except KeyError:
            path = code.co_filename
            inside = path.startswith(self._prefix) and not any(part in path for part in NOT_OURS)
            name = self._names[code] = path.removeprefix(self._prefix) if inside else None
            return name


def _is_resumed(frame: FrameType) -> bool:
    """Whether a coroutine or generator resumes, rather than a function begins."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return 0 <= at < len(code) and code[at] == RESUME and code[at + 1] & 3 != START


def _listen(path: str, recorder: Recorder) -> None:
    class Control(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                if line.strip() == b"start":
                    recorder.start()
                    reply: object = None
                else:
                    reply = recorder.stop()
                self.wfile.write(json.dumps(reply).encode() + b"\n")

    server = socketserver.ThreadingUnixStreamServer(path, Control)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main(words: Sequence[str]) -> None:
    """Run the module with a recorder in its main thread."""
    path, folder, module, *arguments = words
    sys.path[0] = os.getcwd()  # as `python -m` has it
    sys.argv = [module, *arguments]
    recorder = Recorder(folder)
    _listen(path, recorder)
    sys.setprofile(recorder.profile)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
