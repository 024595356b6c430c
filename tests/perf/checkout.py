"""A checkout of this repository and how its server is started, without importing any of its code.

A checkout may be older or newer than the benchmark: its server's module is found by its path.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODULES: Final = ("sharebroker_server.broker", "services.broker")
"""Modules that serve when run by `python -m`, newest name first."""

FOLDERS: Final = (
    ".",
    "services",
    "libs",
    "libs/protocol",
    "libs/python_client",
    "libs/spark_source",
)
"""Folders that may hold top-level packages."""

GIT_SECONDS: Final = 10.0


class NoServer(Exception):
    """A folder has no server to start."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A working tree of this repository; `folder` is absolute."""

    folder: Path

    @classmethod
    def at(cls, folder: Path) -> Checkout:
        """The checkout in `folder`. Raises NoServer when it has no server."""
        checkout = cls(folder.resolve())
        checkout.serve_command()
        return checkout

    @property
    def import_path(self) -> list[Path]:
        """Folders from which its modules are imported: those of its pytest settings, then the known ones."""
        settings = self.folder / "pyproject.toml"
        known: list[str] = []
        if settings.exists():
            tool = tomllib.loads(settings.read_text(encoding="utf-8")).get("tool", {})
            known = tool.get("pytest", {}).get("ini_options", {}).get("pythonpath", [])
        paths = dict.fromkeys((self.folder / name).resolve() for name in (*known, *FOLDERS))
        return [path for path in paths if path.is_dir()]

    @property
    def python(self) -> str:
        """Its own interpreter, or the one that runs this."""
        own = self.folder / ".venv" / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    @property
    def module(self) -> str | None:
        """The module that serves; None when there is none under a known name."""
        for module in MODULES:
            file = Path(*module.split(".")) / "__main__.py"
            if any((folder / file).exists() for folder in self.import_path):
                return module
        return None

    def serve_command(self, *, runner: Sequence[str] = ("-m",)) -> list[str]:
        """The command that serves, without options; `runner` are the words before the module's name.

        Raises NoServer.
        """
        if (module := self.module) is not None:
            return [self.python, *runner, module]
        script = self.folder / ".venv" / "bin" / "sharebroker"
        if not script.exists():
            raise NoServer(f"{self.folder} has neither {' nor '.join(MODULES)} nor .venv/bin/sharebroker")
        return [str(script), "serve"]

    def environment(self) -> dict[str, str]:
        """An environment in which its modules, and no others of the same name, are imported."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, self.import_path))}

    def revision(self) -> str:
        """Its commit, with a plus sign when files differ from it; "unknown" outside of git."""
        try:
            commit = self._git("rev-parse", "--short", "HEAD")
            changed = self._git("status", "--porcelain", "--untracked-files=no")
        except (OSError, subprocess.SubprocessError):
            return "unknown"
        return f"{commit}+" if changed else commit

    def _git(self, *words: str) -> str:
        command = ["git", "-C", str(self.folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=True)
        return done.stdout.strip()


HERE: Final = Checkout(Path(__file__).resolve().parents[2])
"""The checkout that this file belongs to."""
