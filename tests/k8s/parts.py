"""`make k8s-parts`: builds Kubernetes and the programs on it from their released Go modules, once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

import typer

from tests.architecture.sources import ROOT
from tests.k8s.machine import lacking

HERE: Final = Path(__file__).parent
CACHE: Final = ROOT / ".cache" / "k8s"
BIN: Final = CACHE / "bin"
VERSION: Final = "1.34.4"
"""Of Kubernetes: the last minor release whose kubelet starts on cgroup v1 by default."""

KEDA: Final = "v2.21.0"
METRICS_SERVER: Final = "sigs.k8s.io/metrics-server"
METRICS_VERSION: Final = "v0.9.0"
_HOUR: Final = 3600.0
_STAMP: Final = "k8s.io/component-base/version"


class Missing(Exception):
    """A missing requirement, as a sentence."""


@dataclass(frozen=True)
class Part:
    """A program: the package it is built from, in a module of our own that requires `module`."""

    name: str
    module: str
    version: str
    package: str
    flags: str = ""

    @property
    def path(self) -> Path:
        """Returns the path of the program."""
        return BIN / self.name

    @property
    def folder(self) -> Path:
        """Returns the folder of its module; parts of the same module share it."""
        return CACHE / "src" / (self.module or self.name).replace("/", "_")


def _kubernetes(name: str) -> Part:
    stamps = {"gitVersion": f"v{VERSION}", "gitMajor": "1", "gitMinor": "34", "gitTreeState": "clean"}
    flags = " ".join(f"-X {_STAMP}.{key}={value}" for key, value in stamps.items())
    return Part(name, "k8s.io/kubernetes", f"v{VERSION}", f"k8s.io/kubernetes/cmd/{name}", flags)


_KEDA: Final = "github.com/kedacore/keda/v2"
PARTS: Final = (
    *map(
        _kubernetes,
        ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "kube-proxy"),
    ),
    Part("coredns", "github.com/coredns/coredns", "v1.14.7", "."),
    Part("pause", "", "", "."),
    Part("keda", _KEDA, KEDA, f"{_KEDA}/cmd/operator"),
    Part("keda-adapter", _KEDA, KEDA, f"{_KEDA}/cmd/adapter"),
    Part("metrics-server", METRICS_SERVER, METRICS_VERSION, f"{METRICS_SERVER}/cmd/metrics-server"),
)


def missing() -> list[Part]:
    """Returns the parts that are not built yet."""
    return [part for part in PARTS if not part.path.exists()]


def needed() -> list[Part]:
    """Returns the missing parts that every trial requires."""
    return [part for part in missing() if part.module not in (_KEDA, METRICS_SERVER)]


def has_keda() -> bool:
    """Returns whether KEDA is built; it costs most, and a trial can run without it."""
    return not any(part.module == _KEDA for part in missing())


def has_metrics_server() -> bool:
    """Returns whether metrics-server is built, from which autoscalers read CPU."""
    return not any(part.module == METRICS_SERVER for part in missing())


def module_folder(module: str, version: str) -> Path:
    """Returns the source folder of a module, which is downloaded if needed."""
    return Path(_download(module, version)["Dir"])


def build(part: Part) -> None:
    """Builds a part. Raises CalledProcessError."""
    part.folder.mkdir(parents=True, exist_ok=True)
    if not (part.folder / "go.mod").exists():
        _prepare(part)
    words = ["build", "-trimpath", "-ldflags", f"-s -w {part.flags}".strip(), "-o", f"{part.path}.new"]
    _go([*words, part.package], part.folder)
    Path(f"{part.path}.new").replace(part.path)


def _prepare(part: Part) -> None:
    """Creates a module that requires the part's at its version; `go install` refuses modules with
    replacements.
    """
    if part.package == ".":
        shutil.copy(HERE / "go" / part.name / "main.go", part.folder)
        _go(["mod", "init", f"example.com/{part.name}"], part.folder)
        if part.module:
            _go(["get", f"{part.module}@{part.version}"], part.folder)
            _go(["mod", "tidy"], part.folder)
        return
    found = _download(part.module, part.version)
    lines = ["module example.com/own", f"require {part.module} {part.version}"]
    for line in Path(found["GoMod"]).read_text().splitlines():
        if not line.startswith(("module ", "toolchain ")) and "k8s.io/sample-" not in line:
            # The staging modules of the Kubernetes repository are released separately, as v0.
            name, beside, _ = line.partition(" => ./staging/src/")
            own = name.split()[-1] if beside else ""
            lines.append(f"{name} => {own} v0.{VERSION.removeprefix('1.')}" if beside else line)
    (part.folder / "go.mod").write_text("\n".join(lines) + "\n")
    (part.folder / "go.sum").write_bytes((Path(found["Dir"]) / "go.sum").read_bytes())


def _download(module: str, version: str) -> dict[str, str]:
    CACHE.mkdir(parents=True, exist_ok=True)
    found: dict[str, str] = json.loads(_go(["mod", "download", "-json", f"{module}@{version}"], CACHE))
    return found


def _go(words: Sequence[str], folder: Path) -> str:
    flags: Mapping[str, str] = {"GOFLAGS": "-p=2 -mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
    done = subprocess.run(
        ["nice", "-n", "15", "go", *words],
        cwd=folder,
        env={**os.environ, **flags},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_HOUR,
    )
    return done.stdout


def main() -> None:
    """Builds the missing parts."""
    wants = lacking()
    if shutil.which("go") is None:
        wants.append("Go 1.26 or newer is needed to build Kubernetes: https://go.dev/dl")
    if wants:
        typer.echo("\n".join(wants), err=True)
        raise typer.Exit(2)
    BIN.mkdir(parents=True, exist_ok=True)
    todo = missing()
    if todo:
        typer.echo(f"{len(todo)} programs are to be built: about 25 minutes of two cores, 10 GB, once")
    for part in todo:
        begun = monotonic()
        typer.echo(f"{part.name} ...", nl=False)
        build(part)
        typer.echo(f" {monotonic() - begun:.0f} s")


if __name__ == "__main__":
    typer.run(main)
