"""The code for executors, which is shipped only if a run packed it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from sharebroker_server.pipeline.run_folder import RunFolder, SparkOptions
from sharebroker_server.pipeline.shipping import ship_code


class Session:
    """A session that keeps what is added."""

    def __init__(self) -> None:
        self.added: list[Any] = []

    def addArtifacts(self, *paths: str, pyfile: bool) -> None:
        self.added.append((paths, pyfile))


def test_code_is_packed_and_shipped_for_a_cluster_only(tmp_path: Path) -> None:
    session, folder = Session(), RunFolder(tmp_path)
    with folder.locked({}):
        folder.stage({}, SparkOptions("local[2]", "1g"))
        ship_code(session, folder.code)
        assert session.added == []
        folder.stage({}, SparkOptions("spark://h:7077", "1g"))
        ship_code(session, folder.code)
    (((archive,), pyfile),) = session.added
    assert pyfile
    with zipfile.ZipFile(archive) as packed:
        names = packed.namelist()
    assert {"sharebroker_server/", "sharebroker_server/pipeline/state_replay.py"} < {*names}
