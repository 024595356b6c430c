"""Spark's environment: its location, and the variables of a program in it."""

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
"""The files of a complete environment; older ones lack the last."""


class NoSparkError(Exception):
    """The environment does not exist; the message names the remedy."""


def find_spark(given: Path | None) -> Path:
    """Returns the given environment, else one beside this one or below the working directory.

    Raises NoSparkError.
    """
    candidates = [given] if given is not None else [Path(sys.prefix).with_name(_NAME), Path.cwd() / _NAME]
    for folder in candidates:
        if all((folder / part).exists() for part in _PARTS):
            return folder.absolute()
    places = " and ".join(dict.fromkeys(map(str, candidates)))
    raise NoSparkError(
        f"Spark's environment is missing or too old (looked for {places}): `make spark` installs it (1 GB); "
        f"--spark or {VARIABLE} sets another path."
    )


def python_of(spark: Path) -> str:
    """Returns its Python interpreter."""
    return str(spark / "bin" / "python")


def variables(spark: Path, code: Path, settings: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables of a program; `code` is importable, `settings` has Spark's files.

    If the machine has no Java, the environment's own is used.
    """
    excluded = ("SPARK_REMOTE", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in inherited.items() if name not in excluded}
    environment |= {
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
        environment["JAVA_HOME"] = str(spark / "java")
    return environment


def this_process() -> dict[str, str]:
    """Returns the variables of this process."""
    return dict(os.environ)
