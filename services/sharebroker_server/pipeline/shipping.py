"""Ships this service's code to the executors of a cluster, where only the Spark source is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sharebroker_server.pipeline.run_folder import ARCHIVE

_CODE = Path(__file__).parents[2]


def ship_code(spark: Any, code: Path = _CODE) -> None:
    """Adds the code to what the session's tasks can import, if the run has packed it."""
    archive = code / ARCHIVE
    if archive.exists():
        spark.addArtifacts(str(archive), pyfile=True)
