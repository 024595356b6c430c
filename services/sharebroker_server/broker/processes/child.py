"""One broker of `serve --processes`: `python -m sharebroker_server.broker.processes.child PARENT_PID`.

The supervisor writes a pickled `BrokerStart` to standard input, because command lines and environments can
be read while the process runs, and settings contain passwords. The broker writes one line of JSON to standard
output: its addresses once it serves, or `error` with a sentence if it cannot. It ends with its supervisor.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sharebroker_server.broker.processes.plan import BrokerStart

_PR_SET_PDEATHSIG: Final = 1
_LONGEST_SENTENCE: Final = 4096
"""Characters of a sentence; the supervisor reads at most 64 KiB."""

Report = Callable[[Mapping[str, object]], None]


def main() -> None:
    """Runs the broker that the supervisor describes."""
    _end_with(int(sys.argv[1]))
    report = _take_output()
    gc.disable()  # as in `python -m sharebroker_server.broker`
    import pickle

    try:
        sys.exit(serve(pickle.load(sys.stdin.buffer), report))
    finally:
        gc.freeze()


def serve(start: BrokerStart, report: Report) -> int:
    """Serves until SIGTERM; returns the exit code."""
    import uvloop

    from sharebroker_protocol.errors import KafkaError
    from sharebroker_server.broker.core.supervision import INVALID
    from sharebroker_server.broker.logs import configure_logging, open_audit_file
    from sharebroker_server.broker.process import Process, run

    gc.enable()
    configure_logging(start.log_format, broker=start.index)
    process = Process(start.settings, start.peers)
    try:
        if start.audit_file is not None:
            open_audit_file(start.audit_file)
        uvloop.run(run(process, lambda: report(process.facts)))
    except KafkaError as error:
        report({"error": error.message[:_LONGEST_SENTENCE]})
        return INVALID
    return 0


def _end_with(parent: int) -> None:
    """Makes the kernel kill this process at any death of its parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the supervisor exited")


def _take_output() -> Report:
    """Returns a function that writes to standard output; further output goes to standard error."""
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)

    def report(facts: Mapping[str, object]) -> None:
        os.write(output, json.dumps(facts).encode() + b"\n")

    return report


if __name__ == "__main__":
    main()
