"""The wheels: their installed packages, which do not collide with a user's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

from sharebroker_protocol.version import __version__ as version
from tests.architecture.sources import ROOT

DISTRIBUTIONS = {
    "sharebroker_server": ROOT,
    "sharebroker_protocol": ROOT / "libs" / "protocol",
    "sharebroker": ROOT / "libs" / "python_client",
}
SPARK = ROOT / "libs" / "spark_source"


def contents(distribution: str, target: Path) -> list[str]:
    """Builds the wheel of a distribution and returns the paths of its files."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    folder = DISTRIBUTIONS.get(distribution, SPARK)
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    (wheel,) = target.glob(f"{distribution}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


OWN_REQUIREMENTS = {
    "sharebroker_server": {f"sharebroker-protocol=={version}", f"sharebroker[cli]=={version}"},
    "sharebroker_protocol": set(),
    "sharebroker": {f"sharebroker-protocol=={version}"},
    "sharebroker_spark": {f"sharebroker-protocol=={version}", f"sharebroker=={version}"},
}


@pytest.mark.parametrize("distribution", OWN_REQUIREMENTS)
def test_wheel_has_the_licence_and_requires_its_own_version(distribution: str, tmp_path: Path) -> None:
    """A client of one version and a protocol of another have different messages."""
    info = f"{distribution}-{version}.dist-info"
    assert f"{info}/licenses/LICENSE" in contents(distribution, tmp_path)
    (wheel,) = tmp_path.glob(f"{distribution}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        metadata = message_from_bytes(archive.read(f"{info}/METADATA"))
    required = metadata.get_all("Requires-Dist", [])
    assert {text for text in required if text.startswith("sharebroker")} == OWN_REQUIREMENTS[distribution]


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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provides an environment with the three wheels, installed without their dependencies."""
    wheels, folder = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("environment")
    for distribution in DISTRIBUTIONS:
        contents(distribution, wheels)
    venv.create(folder, with_pip=False)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        str(folder / "bin" / "python"),
    ]
    install = [*pip, "install", "-q", "--no-index", "--no-deps", *map(str, wheels.glob("*.whl"))]
    subprocess.run(install, check=True, capture_output=True, timeout=60)
    return folder


def run_installed(installed: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of the environment beside the dependencies of this one."""
    # PYTHONPATH ignores the .pth files of editable installations.
    environment = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}
    return subprocess.run(
        [installed / "bin" / command[0], *command[1:]],
        cwd=installed,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_installed_wheels_have_the_commands_of_client_and_server(installed: Path) -> None:
    listed = run_installed(installed, "sharebroker", "--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert {"topics", "serve", "doctor"} <= set(listed.stdout.split())
    served = run_installed(installed, "sharebroker", "serve", "--print-config")
    assert served.returncode == 0, served.stderr
    assert json.loads(served.stdout)


def test_modules_of_installed_wheels_are_imported(installed: Path) -> None:
    program = "import sharebroker, sharebroker_server.broker as b; print(sharebroker.__file__, b.__file__)"
    found = run_installed(installed, "python", "-c", program)
    assert all(path.startswith(str(installed)) for path in found.stdout.split()), found.stderr


WITHOUT_EXTRA = """
import sys
sys.modules["typer"] = None
import sharebroker.aio, sharebroker.blocking.consumer, sharebroker.worker.runner, sharebroker.testing
import sharebroker.cli
sharebroker.cli.main()
"""


def test_client_without_the_extra_cli_names_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "sharebroker: the command line needs more packages: pip install 'sharebroker[cli]'\n"
    )


@pytest.mark.parametrize("folder", [*DISTRIBUTIONS.values(), SPARK])
def test_a_distribution_reads_the_common_version(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    command = [sys.executable, "-m", "hatchling", "version"]
    printed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    assert printed.stdout.strip() == version


def test_the_chart_and_the_images_have_the_common_version() -> None:
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "sharebroker" / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version
    for name in ("docker-compose.yml", "deploy/README.md", "docs/install.md"):
        images = re.findall(r"sharebroker(?:-spark)?:(\d[\w.]*)", (ROOT / name).read_text())
        assert set(images) == {version}, name


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
