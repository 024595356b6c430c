"""`make kafka`: downloads Apache Kafka's jars with Maven to `.cache/kafka` and checks them against
`tests/compat/jars.lock`; `.cache/kafka/bin` has scripts of Kafka's command line tools.

Maven's own settings name its repository; the lock file has the hashes of the jars.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from tests.support.kafka_scripts import write_scripts

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "kafka"
POMS: Final = ROOT / "tests" / "compat" / "poms"
LOCK: Final = ROOT / "tests" / "compat" / "jars.lock"
MAVEN_SECONDS: Final = 600.0


class JarsMissing(Exception):
    """Jars are missing, or differ from the lock file; the text names the remedy."""


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars of one class path: a pom's dependencies at one version of Kafka."""

    name: str
    pom: str
    version: str
    zookeeper: bool = False
    """Whether its server needs ZooKeeper, which is among the jars."""

    @property
    def folder(self) -> Path:
        """Returns the folder of its jars."""
        return CACHE / self.name

    @property
    def class_path(self) -> str:
        """Returns the class path for `java -cp` or CLASSPATH."""
        return str(self.folder / "*")


SERVER: Final = JarSet("4.3.1", "server", "4.3.1")
NEXT_SERVER: Final = JarSet("4.4.0", "broker", "4.4.0")
"""The first release with dead letter queues (KIP-1191); the tools of `SERVER` work against it."""
MIRROR: Final = JarSet("mirror-4.3.1", "mirror", "4.3.1")
"""MirrorMaker; it needs the jars of `SERVER` as well."""
SUITE: Final = JarSet("suite-4.3.1", "suite", "4.3.1")
WIRE: Final = JarSet("wire-4.3.1", "wire", "4.3.1")
"""Compiled tests of Kafka's core, which are added to those of `SUITE`."""

CLIENTS: Final = {
    version: JarSet(f"clients-{version}", "clients", version) for version in ("4.2.2", "4.3.1", "4.4.0")
}
ALL: Final = (SERVER, NEXT_SERVER, MIRROR, SUITE, WIRE, *CLIENTS.values())
SPARK: Final = JarSet("spark-4.2.0", "spark", "4.2.0")
"""For `make bench-spark` alone."""

UPSTREAMS: Final = {
    "2.8.2": JarSet("2.8.2", "broker", "2.8.2", zookeeper=True),
    "3.9.2": JarSet("3.9.2", "broker", "3.9.2"),
}
"""Releases without share groups, for `make kafka-upstream`."""


def is_there(jars: JarSet) -> bool:
    """Returns whether a set was downloaded; its hashes were checked then."""
    return jars.folder.is_dir()


def bring(jars: JarSet, locked: dict[str, str] | None) -> dict[str, str]:
    """Downloads a set into its folder with Maven; returns the hash of each jar by "set/jar".

    Raises JarsMissing when Maven is absent or fails, or a jar differs from the one in `locked`.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissing("Maven is needed to bring Kafka's jars: apt-get install maven")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        jars_folder = Path(place) / "jars"
        _copy(maven, jars, jars_folder)
        found = {f"{jars.name}/{path.name}": _sha256(path) for path in sorted(jars_folder.glob("*.jar"))}
        if locked is not None and found != locked:
            wrong = sorted(
                name for name in found.keys() | locked.keys() if found.get(name) != locked.get(name)
            )
            raise JarsMissing(f"Different from {LOCK.relative_to(ROOT)}: {', '.join(wrong)}")
        shutil.rmtree(jars.folder, ignore_errors=True)
        jars_folder.rename(jars.folder)
    return found


def _copy(maven: str, jars: JarSet, folder: Path) -> None:
    # Maven requires a pom in a writable folder.
    shutil.copy(POMS / f"{jars.pom}.xml", folder.parent / "pom.xml")
    command = [maven, "--batch-mode", "--quiet", f"-Dkafka.version={jars.version}"]
    command += [f"-DoutputDirectory={folder}", "dependency:copy-dependencies"]
    done = subprocess.run(
        command, cwd=folder.parent, capture_output=True, text=True, timeout=MAVEN_SECONDS, check=False
    )
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
        raise JarsMissing(f"Maven failed: {errors[0] if errors else done.stderr.strip()}")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_lock() -> dict[str, str]:
    lines = LOCK.read_text().splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def main(
    lock: Annotated[bool, typer.Option(help="Write the lock file from Maven's downloads.")] = False,
    spark: Annotated[bool, typer.Option(help="Bring Spark's own source for Kafka, and that alone.")] = False,
    upstream: Annotated[bool, typer.Option(help="Bring the releases without share groups alone.")] = False,
) -> None:
    """Downloads the missing sets."""
    locked = {} if lock else _read_lock()
    found: dict[str, str] = {}
    older = tuple(UPSTREAMS.values())
    for jars in (*ALL, SPARK, *older) if lock else (SPARK,) if spark else older if upstream else ALL:
        expected = {name: digest for name, digest in locked.items() if name.startswith(f"{jars.name}/")}
        if is_there(jars) and not lock:
            continue
        typer.echo(f"{jars.folder.relative_to(ROOT)} ...")
        try:
            found |= bring(jars, None if lock else expected)
        except (JarsMissing, subprocess.TimeoutExpired) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
    if lock:
        LOCK.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(found.items())))
    write_scripts(CACHE / "bin", SERVER.name)
    typer.echo(
        f"Kafka {SERVER.version}: {sum(1 for _ in CACHE.rglob('*.jar'))} jars in {CACHE.relative_to(ROOT)}, "
        f"tools in {(CACHE / 'bin').relative_to(ROOT)}"
    )


if __name__ == "__main__":
    typer.run(main)
