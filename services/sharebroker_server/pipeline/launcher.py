"""Runs the pipeline in Spark's environment.

Usage: `python -m sharebroker_server.pipeline.launcher SPEC REPORT run|dry-run [OPTION…]`, the rest for
`spark-pipelines`.

Starts one Spark with a Spark Connect server on a free local port, then `spark-pipelines` as its client, and
finally writes the report from the tables. Stops with all its processes when its standard input ends.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

import yaml
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sharebroker_server.pipeline.report import write_report
from sharebroker_server.pipeline.settings import Settings

TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_ENDED: Final = 143
_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService"
_CONNECT: Final = "org.apache.spark.sql.connect.SparkConnectPlugin"


def main() -> int:
    """Runs the command; returns the exit code of `spark-pipelines` if that is not 0."""
    spec, report, command, *options = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_ENDED))
    _end_with_input()
    os.environ[TOKEN] = secrets.token_hex(16)  # protects the port from other users of this machine
    spark: Any = (
        SparkSession.builder.config("spark.plugins", _CONNECT)
        .config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.connect.grpc.binding.port", "0")
        .getOrCreate()
    )
    try:
        connect_server = getattr(getattr(spark._jvm, f"{_SERVICE}$"), "MODULE$")
        remote = {"SPARK_REMOTE": f"sc://localhost:{connect_server.localPort()}"}
        pipelines = [sys.executable, "-u", "-m", "pyspark.pipelines.cli", command, "--spec", spec, *options]
        code = subprocess.run(pipelines, env=os.environ | remote, check=False).returncode
        if code == 0 and command == "run":
            configuration = yaml.safe_load(Path(spec).read_text())["configuration"]
            write_report(spark, Settings.of(configuration.__getitem__), Path(report))
        return code
    finally:
        with contextlib.suppress(Py4JError, OSError):  # Java received the signal, too
            spark.stop()


def _end_with_input() -> None:
    """Stops this process group when the process that started it is gone."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os.killpg(0, signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
