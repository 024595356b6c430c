"""`make languages`: generates the stubs with each language's usual tool and builds the workers.

A language whose tools are missing is skipped, with a line that names them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from tests.architecture.sources import ROOT

HERE: Final = Path(__file__).parent
BUILT: Final = ROOT / ".cache" / "languages"
BIN: Final = BUILT / "bin"
_TIME: Final = 1200.0
_BUF: Final = Path(sys.executable).parent / "buf"
_PLUGINS: Final = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
)


@dataclass(frozen=True)
class Language:
    """The build of a worker, in a folder of its own with the protos beside it, and its command."""

    name: str
    tools: Sequence[str]
    steps: Sequence[Sequence[str]]
    command: Sequence[str]

    @property
    def folder(self) -> Path:
        """Returns the build folder."""
        return BUILT / self.name

    @property
    def sources(self) -> dict[Path, Path]:
        """Returns the sources, by path in that folder."""
        protos = ROOT / "protos" / "sharebroker"
        found = {self.folder / path.relative_to(HERE / self.name): path for path in _files(HERE / self.name)}
        return found | {
            self.folder / path.relative_to(ROOT): path for path in _files(protos) if path.suffix == ".proto"
        }

    @property
    def missing(self) -> list[str]:
        """Returns the missing tools."""
        return [tool for tool in self.tools if shutil.which(tool) is None]

    @property
    def built(self) -> bool:
        """Returns whether the program exists and was built from the present sources."""
        return (self.folder / "built").exists() and all(
            copy.exists() and copy.read_bytes() == source.read_bytes()
            for copy, source in self.sources.items()
        )

    def build(self) -> None:
        """Generates and compiles. Raises CalledProcessError."""
        (self.folder / "built").unlink(missing_ok=True)
        for copy, source in self.sources.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            fresh = copy.with_name(f"{copy.name}.{os.getpid()}")
            shutil.copy2(source, fresh)
            fresh.replace(copy)  # another process may be running the existing program
        environment = {**os.environ, "GOBIN": str(BIN), "PATH": f"{BIN}:{os.environ['PATH']}"}
        for step in self.steps:
            subprocess.run(step, cwd=self.folder, env=environment, check=True, timeout=_TIME)
        (self.folder / "built").touch()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


LANGUAGES: Final = (
    Language("python", (), (), (sys.executable, "worker.py")),
    Language(
        "go",
        ("go",),
        (
            *(("go", "install", plugin) for plugin in _PLUGINS),
            (str(_BUF), "generate", "protos"),
            ("go", "build", "-buildvcs=false", "-o", "worker", "."),
        ),
        ("./worker",),
    ),
    Language(
        "java",
        ("javac", "mvn"),
        (("mvn", "-q", "-B", "package"),),
        ("java", "-cp", "target/worker.jar:target/dependency/*", "worker.Main"),
    ),
    Language(
        "node",
        ("node", "npm"),
        (("npm", "ci", "--no-audit", "--no-fund"), ("npm", "run", "--silent", "build")),
        ("node", "dist/main.js"),
    ),
    Language("rust", ("cargo",), (("cargo", "build", "--quiet"),), ("target/debug/worker",)),
)


def build(languages: Iterable[Language]) -> bool:
    """Builds each language; returns whether all with their tools succeeded."""
    well = True
    for language in languages:
        if language.missing:
            typer.echo(f"{language.name}: skipped; missing: {', '.join(language.missing)}")
        elif language.built:
            typer.echo(f"{language.name}: built")
        else:
            typer.echo(f"{language.name}: building ...")
            try:
                language.build()
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
                typer.echo(f"{language.name}: {failure}")
                well = False
    return well


def main(only: str = typer.Argument("", help="One language; all if not given.")) -> None:
    """Builds the workers of all languages whose tools are available."""
    raise typer.Exit(not build(language for language in LANGUAGES if only in ("", language.name)))


if __name__ == "__main__":
    typer.run(main)
