"""The scripts that `make kafka` writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.kafka_jars import SERVER
from tests.support.kafka_scripts import MAIN_CLASSES, write_scripts
from tests.support.kafka_tools import TOOL_SECONDS


def test_script_runs_its_tool_from_any_folder(tmp_path: Path) -> None:
    cache = tmp_path / "with space"
    write_scripts(cache / "bin", SERVER.name)
    (cache / SERVER.name).symlink_to(SERVER.folder)
    script = cache / "bin" / "kafka-share-groups.sh"
    done = subprocess.run(
        [script, "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=TOOL_SECONDS,
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, SERVER.version), done.stderr


def test_every_tool_has_a_script(tmp_path: Path) -> None:
    write_scripts(tmp_path, SERVER.name)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.sh" for name in MAIN_CLASSES}
    write_scripts(tmp_path, SERVER.name)
