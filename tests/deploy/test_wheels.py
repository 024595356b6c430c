"""The wheels: their installed packages, which do not collide with a user's own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

DISTRIBUTIONS = {
    "sharebroker_server": ROOT,
    "sharebroker_protocol": ROOT / "libs" / "protocol",
    "sharebroker": ROOT / "libs" / "python_client",
}


def contents(distribution: str, target: Path) -> list[str]:
    """Builds the wheel of a distribution and returns the paths of its files."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=DISTRIBUTIONS[distribution], check=True, capture_output=True, timeout=60)
    (wheel,) = target.glob(f"{distribution}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_wheel_installs_one_top_level_package(distribution: str, tmp_path: Path) -> None:
    top = {name.split("/")[0] for name in contents(distribution, tmp_path)}
    assert {name for name in top if not name.endswith(".dist-info")} == {distribution}


def test_server_wheel_has_every_service_and_no_test_code(tmp_path: Path) -> None:
    packages = {name.split("/")[1] for name in contents("sharebroker_server", tmp_path)}
    assert {
        "broker",
        "gateway",
        "group_coordinator",
        "share_coordinator",
        "share_partition_leader",
    } <= packages
    assert "testkit" not in packages


WITHOUT_SERVER = """
import sys
from importlib.util import find_spec
sys.path[:0] = sys.argv[1:]  # without the paths of editable installations, which -S leaves out
import sharebroker.aio, sharebroker.blocking.consumer, sharebroker.cli.app
assert sharebroker.__file__.startswith(sys.argv[1]), sharebroker.__file__
assert find_spec("sharebroker_server") is None
"""


def test_client_works_without_server_code(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    for distribution in ("sharebroker_protocol", "sharebroker"):
        contents(distribution, tmp_path)
        (wheel,) = tmp_path.glob(f"{distribution}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(installed)
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        WITHOUT_SERVER,
        str(installed),
        sysconfig.get_path("purelib"),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_server_starts_beside_a_project_with_packages_services_and_libs(tmp_path: Path) -> None:
    for name in ("services", "libs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not the server')\n")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    }
    done = subprocess.run(
        [sys.executable, "-m", "sharebroker_server.broker", "--print-config"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "group.share.record.lock.duration.ms" in done.stdout
