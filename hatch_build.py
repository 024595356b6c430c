"""Compiles cores, which do no I/O, with mypyc: `python hatch_build.py FOLDER`, or for a wheel.

Without FOLDER it compiles only the scan of records, beside its source (see `record_scan`).

The folder is a portion of the namespace package `sharebroker_server`. If it comes before the sources in
`sys.path`, Python imports its modules instead of theirs. The sources stay as they are, and are always there.
In a wheel, a .pth file places the folder there, unless SHAREBROKER_PURE is set.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT: Final = Path(__file__).parent

CORES: Final = (
    "services/sharebroker_server/share_partition_leader/core",
    "services/sharebroker_server/share_coordinator/core",
    "libs/sharebroker_server/record_log/core",
)
"""Folders of modules that are compiled. Neither they nor the folders above have an `__init__.py`: such a
package has one path only."""

SCAN: Final = "libs/sharebroker_server/record_log/core/record_scan.py"
"""The module that is worth its lines only when it is compiled; `make setup` compiles it."""

FOLDER: Final = "sharebroker_compiled"
"""The folder of the compiled modules in a wheel."""

PTH: Final = (
    'import os, sys; os.environ.get("SHAREBROKER_PURE", "0") in ("", "0") and '
    f'sys.path.insert(sys.path.index(sitedir), os.path.join(sitedir, "{FOLDER}"))\n'
)
"""Python executes this line at its start; `sitedir` is the folder of the .pth file."""


class CompiledCores(BuildHookInterface[Any]):
    """Adds the compiled modules to the server's wheel; enabled by HATCH_BUILD_HOOKS_ENABLE."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles the modules before the wheel is packed."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory()
        modules, pth = Path(self._folder.name, "modules"), Path(self._folder.name, "pth")
        subprocess.run([sys.executable, __file__, str(modules)], check=True)
        pth.write_text(PTH)
        build_data["force_include"] |= {str(modules): FOLDER, str(pth): f"{FOLDER}.pth"}
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes the folder of the modules."""
        if version != "editable":
            self._folder.cleanup()


def compile_cores(folder: Path) -> None:
    """Compiles the cores into a folder, which has extension modules only; needs a C compiler."""
    modules = sorted(str(path.relative_to(ROOT)) for core in CORES for path in (ROOT / core).glob("*.py"))
    _compile(modules, folder.absolute(), group_name="sharebroker")


def compile_scan() -> None:
    """Compiles the scan of records beside its source; processes that have loaded it keep the former file."""
    (ROOT / "build").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=ROOT / "build") as folder:
        _compile([SCAN], Path(folder))
        for path in Path(folder).rglob("*.so"):
            path.replace((ROOT / SCAN).with_name(path.name))


def _compile(modules: list[str], folder: Path, group_name: str | None = None) -> None:
    from mypyc.build import mypycify  # only the build needs it
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    os.chdir(ROOT)  # module names follow from relative paths
    with TemporaryDirectory() as generated:
        extensions = mypycify(
            modules,
            opt_level=os.environ.get("MYPYC_OPT_LEVEL", "3"),  # as for mypy's own wheel
            debug_level="0",
            target_dir=generated,
            group_name=group_name,
        )
        command = build_ext(Distribution({"ext_modules": extensions}))
        command.build_lib, command.build_temp = str(folder), generated
        command.ensure_finalized()
        command.run()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compile_cores(Path(sys.argv[1]))
    else:
        compile_scan()
