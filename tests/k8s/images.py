"""The images of a run: ours from its Dockerfile, and those that no package registry has, built here."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import yaml

from tests.architecture.sources import ROOT, files, name
from tests.deploy.chart import CHART
from tests.k8s.engine import Engine, engine
from tests.k8s.parts import BIN, CACHE, Missing, has_keda, has_metrics_server
from tests.testkit.servers import binaries

SERVER: Final = "docker.io/library/sharebroker:k8s"
SPARK: Final = "docker.io/library/sharebroker-spark:k8s"
PAUSE: Final = "docker.io/library/pause:local"
KEDA: Final = "docker.io/local/keda:1"
METRICS_SERVER: Final = "docker.io/local/metrics-server:1"
KEDA_METRICS: Final = "docker.io/local/keda-metrics-apiserver:1"
VALKEY: Final = yaml.safe_load((CHART / "values.yaml").read_text())["redis"]["builtIn"]["image"]

_DOCKERFILE: Final = ROOT / "deploy" / "Dockerfile"
_STATIC: Final = 'FROM scratch\nCOPY program /{name}\nUSER {user}\nENTRYPOINT ["/{name}"]\n'
# What the chart requires of the image: valkey-server and valkey-cli in the PATH.
_VALKEY: Final = """FROM {base}
RUN apt-get update -qq && apt-get install -qqy --no-install-recommends redis-tools \\
 && ln -s /usr/bin/redis-cli /usr/local/bin/valkey-cli
COPY program /usr/local/bin/valkey-server
"""
_DEBIAN: Final = "ca-certificates,python3,python3-venv,python-is-python3"
_HALF_AN_HOUR: Final = 1800.0


def archive() -> Path:
    """Returns one file for containerd with all images but Spark's; reuses an unchanged one. Raises
    Missing.
    """
    names = [SERVER, VALKEY, PAUSE, *([KEDA, KEDA_METRICS] if has_keda() else [])]
    names += [METRICS_SERVER] if has_metrics_server() else []
    return _archive("images", _build, names)


def spark_archive() -> Path:
    """Returns the image with Spark, 1 GB and more, in a file of its own. Raises Missing."""

    def build(docker: Engine) -> None:
        docker.build(SPARK, _DOCKERFILE, ROOT, ["--target", "spark"])

    return _archive("spark", build, [SPARK])


def _archive(kind: str, build: Callable[[Engine], None], names: Sequence[str]) -> Path:
    path = CACHE / f"{kind}-{_digest()}.tar"
    if not path.exists():
        for old in CACHE.glob(f"{kind}-*.tar"):
            old.unlink()
        with engine() as docker:
            _base(docker)
            build(docker)
            docker.run("save", "-o", f"{path}.new", *names)
        Path(f"{path}.new").replace(path)
    return path


def _digest() -> str:
    """Returns a digest of all inputs."""
    digest = hashlib.sha256()
    sent = [path for path in files() if name(path).startswith(("libs/", "services/", "deploy/Dockerfile"))]
    sent += [ROOT / "pyproject.toml", *sorted((ROOT / "deploy").glob("*.lock")), Path(__file__)]
    for path in sent:
        digest.update(name(path).encode())
        digest.update(path.read_bytes())
    digest.update(repr((has_keda(), has_metrics_server())).encode())
    return digest.hexdigest()[:16]


def base() -> str:
    """Returns the base image of ours."""
    (found,) = re.findall(r"^ARG BASE=(\S+)$", _DOCKERFILE.read_text(), re.MULTILINE)
    return str(found)


def _base(docker: Engine) -> None:
    """Returns the base image: from its registry, or built from Debian's packages under its name."""
    if docker.has(base()):
        return
    try:
        docker.run("pull", "-q", base())
    except Missing:
        root = Path(tempfile.mkdtemp(prefix="sharebroker-debian-"))
        try:
            _debian(root)
            packed = root.with_suffix(".tar")
            _run("tar", "-C", str(root), "-cf", str(packed), ".")
            docker.run("import", "--change", "ENV LANG=C.UTF-8", str(packed), base())
            packed.unlink()
        finally:
            shutil.rmtree(root, ignore_errors=True)


def _debian(root: Path) -> None:
    _run("debootstrap", "--variant=minbase", f"--include={_DEBIAN}", "bookworm", str(root))
    for rubbish in ("var/cache/apt/archives", "var/lib/apt/lists"):
        for path in (root / rubbish).rglob("*"):
            if path.is_file():
                path.unlink()


def _run(*words: str) -> None:
    done = subprocess.run(
        ["nice", "-n", "15", *words], capture_output=True, text=True, check=False, timeout=_HALF_AN_HOUR
    )
    if done.returncode:
        raise Missing(f"{words[0]} failed: {(done.stdout + done.stderr)[-2000:]}")


def _build(docker: Engine) -> None:
    docker.build(SERVER, _DOCKERFILE, ROOT)
    valkey = _VALKEY.format(base=base())
    _around(docker, VALKEY, binaries()["valkey"], valkey)
    _around(docker, PAUSE, BIN / "pause", _STATIC.format(name="pause", user=65535))
    if has_keda():
        _around(docker, KEDA, BIN / "keda", _STATIC.format(name="keda", user=1000))
        _around(docker, KEDA_METRICS, BIN / "keda-adapter", _STATIC.format(name="keda-adapter", user=1000))
    if has_metrics_server():
        program = "metrics-server"
        _around(docker, METRICS_SERVER, BIN / program, _STATIC.format(name=program, user=1000))


def _around(docker: Engine, image: str, program: Path, dockerfile: str) -> None:
    """Builds an image around one program."""
    folder = Path(tempfile.mkdtemp(prefix="sharebroker-image-"))
    try:
        shutil.copy(program, folder / "program")
        (folder / "program").chmod(0o755)
        (folder / "Dockerfile").write_text(dockerfile)
        docker.build(image, folder / "Dockerfile", folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
