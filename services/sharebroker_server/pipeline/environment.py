"""Spark's own environment: where it is, and how a program runs in it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "SHAREBROKER_SPARK"
_NAME: Final = ".venv-spark"
_HOME: Final = "spark-home"
_PARTS: Final = (".ready", "bin/python", _HOME)
"""What a whole one has; an older one lacks the last."""


class NoSparkError(Exception):
    """There is no such environment; the message says what to do."""


def find_spark(given: Path | None) -> Path:
    """The environment: the one given, else beside this one, else below the working directory.

    Raises NoSparkError.
    """
    looked = [given] if given is not None else [Path(sys.prefix).with_name(_NAME), Path.cwd() / _NAME]
    for folder in looked:
        if all((folder / part).exists() for part in _PARTS):
            return folder.absolute()
    places = " and ".join(dict.fromkeys(map(str, looked)))
    raise NoSparkError(
        f"Spark's environment is missing or too old (looked for {places}): `make spark` brings it, 1 GB; "
        f"--spark or {VARIABLE} names another place."
    )


def python_of(spark: Path) -> str:
    """Its interpreter."""
    return str(spark / "bin" / "python")


def variables(spark: Path, code: Path, settings: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a program there; `code` is importable, `settings` has Spark's files.

    Where the machine has no Java the environment's own is used.
    """
    left_out = ("SPARK_REMOTE", "PYTHONHOME", "VIRTUAL_ENV")
    found = {name: value for name, value in inherited.items() if name not in left_out}
    found |= {
        "SPARK_HOME": str(spark / _HOME),
        "PYSPARK_PYTHON": python_of(spark),
        "PYSPARK_DRIVER_PYTHON": python_of(spark),
        "PYTHONPATH": str(code),
        "PYTHONUNBUFFERED": "1",
        "SPARK_CONF_DIR": str(settings),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "GRPC_VERBOSITY": "ERROR",
        "MPLCONFIGDIR": str(spark / "matplotlib"),
    }
    if shutil.which("java") is None and "JAVA_HOME" not in inherited:
        found["JAVA_HOME"] = str(spark / "java")
    return found


def this_process() -> dict[str, str]:
    """The variables of this process."""
    return dict(os.environ)
