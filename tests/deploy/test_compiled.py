"""The server's wheel with compiled modules: which modules Python imports, and what their tests find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from hatch_build import CORES, FOLDER
from tests.architecture.sources import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.servers,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("compiled"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]

MODULES = sorted(path for core in CORES for path in (ROOT / core).glob("*.py"))


def _below_its_root(path: Path) -> Path:
    """Returns the path of a module below `services` or `libs`."""
    return Path(*path.relative_to(ROOT).parts[1:])


LIST_FILES = f"""
import importlib
for name in {[".".join(_below_its_root(path).with_suffix("").parts) for path in MODULES]}:
    print(importlib.import_module(name).__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provides the server's wheel with compiled modules."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    # The compiler takes most of the time, and optimises nothing that the tests observe.
    environment = os.environ | {"HATCH_BUILD_HOOKS_ENABLE": "1", "MYPYC_OPT_LEVEL": "0"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=500)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provides an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return packages


def imported(site: Path, **variables: str) -> list[Path]:
    """Returns the files of the cores' modules that the environment's Python imports."""
    # The paths of other packages are last, so that the wheel's own .pth file decides.
    others = [sysconfig.get_path("purelib"), str(ROOT / "libs" / "protocol")]
    program = f"import sys; sys.path.extend({others}){LIST_FILES}"
    python = site.parents[2] / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        [python, "-P", "-c", program], env=environment, cwd=site, capture_output=True, text=True, check=True
    )
    return [Path(line) for line in done.stdout.split()]


def test_wheel_has_compiled_modules_beside_all_sources(wheel: Path) -> None:
    assert not wheel.name.endswith("-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    compiled = [name for name in names if name.startswith(f"{FOLDER}/") and name.endswith(".so")]
    assert len(compiled) == len(MODULES) + 1  # and the library that they share
    assert {str(_below_its_root(path)) for path in MODULES} <= set(names)


@pytest.mark.parametrize("variables", [{}, {"SHAREBROKER_PURE": "0"}, {"SHAREBROKER_PURE": ""}])
def test_installed_compiled_modules_are_imported(site: Path, variables: dict[str, str]) -> None:
    files = imported(site, **variables)
    assert len(files) == len(MODULES)
    assert all(path.suffix == ".so" and path.is_relative_to(site / FOLDER) for path in files)


def test_sharebroker_pure_imports_the_sources(site: Path) -> None:
    files = imported(site, SHAREBROKER_PURE="1")
    assert files == [site / _below_its_root(path) for path in MODULES]


def test_tests_of_the_cores_pass_with_compiled_modules(site: Path) -> None:
    paths = (str(site / FOLDER), ".", "services", "libs", "libs/protocol", "libs/python_client")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=fast"]
    chosen = ["-m", "not patches and not slow", "-o", f"pythonpath={' '.join(paths)}"]
    cores = ["share_partition_leader", "share_coordinator", "record_log"]
    tests = [path for core in cores for path in (f"unit/{core}/core", f"property/{core}")]
    done = subprocess.run(
        [*command, *chosen, *(f"tests/{name}" for name in tests)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout
