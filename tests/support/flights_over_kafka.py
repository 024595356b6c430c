"""`make run UPSTREAM=kafka`: the job of `make run` with its records in a real Kafka, which is started for it.

Both clusters start with empty folders, which are removed at the end: a new Kafka has other topics.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import typer

from tests.support.kafka_jars import SERVER, is_there
from tests.support.kafka_server import running_kafka
from tests.support.kafka_tools import ToolFailed

_BAD_SETUP: Final = 2
_INTERRUPTED: Final = 130


def main(arguments: list[str]) -> int:
    """Runs the flights with these options; returns their exit code, or 2 if Kafka cannot be started."""
    if shutil.which("java") is None:
        return _refuse("Java 17 is needed to run Kafka: apt-get install openjdk-17-jre-headless")
    if not is_there(SERVER):
        return _refuse(f"The jars of Kafka {SERVER.version} are missing: make kafka")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="sharebroker-flights-") as folder:
            typer.echo(f"Starting Kafka {SERVER.version} ...")
            with running_kafka(Path(folder, "kafka")) as kafka:
                return _run(Path(folder, "data"), kafka.bootstrap, arguments)
    except ToolFailed as failure:
        return _refuse(str(failure))
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run(data: Path, bootstrap: str, arguments: list[str]) -> int:
    command = [
        sys.executable,
        "-m",
        "sharebroker_server.flights",
        "--data",
        str(data),
        "--upstream",
        bootstrap,
    ]
    # A session of its own: Ctrl-C in the terminal reaches it once, from here.
    flights = subprocess.Popen([*command, *arguments], start_new_session=True)
    try:
        return flights.wait()
    except KeyboardInterrupt:
        flights.terminate()
        return flights.wait()


def _refuse(sentence: str) -> int:
    typer.echo(sentence, err=True)
    return _BAD_SETUP


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
