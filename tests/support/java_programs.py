"""The Java programs of tests, compiled once into a jar of the cache: a start does not compile them again."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.kafka_jars import CACHE, CLIENTS, LOCK, ROOT, SERVER, JarSet

FOLDER: Final = CACHE / "programs"
SOURCES: Final = (ROOT / "tests" / "compat", ROOT / "tests" / "support" / "java")
COMPILE_SECONDS: Final = 120.0


@cache
def programs() -> Path:
    """Returns the jar, named by the hash of its sources; compiles them if it is missing.

    They are compiled against the oldest clients and run with all. Raises CalledProcessError.
    """
    sources = sorted(path for folder in SOURCES for path in folder.glob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (LOCK, *sources))).hexdigest()
    jar = FOLDER / f"{digest[:16]}.jar"
    FOLDER.mkdir(exist_ok=True)
    with jar.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            _compile(sources, jar)
    return jar


def archive(jars: JarSet) -> Path:
    """Returns the class data archive of all programs with this set of jars."""
    return programs().with_suffix(f".{jars.name}.jsa")


def _compile(sources: list[Path], jar: Path) -> None:
    class_path = f"{CLIENTS[min(CLIENTS)].class_path}:{SERVER.class_path}"
    with tempfile.TemporaryDirectory(dir=FOLDER) as place:
        command = ["javac", "-J-XX:TieredStopAtLevel=1", "-cp", class_path, "-d", place, *map(str, sources)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=COMPILE_SECONDS)
        classes = sorted(Path(place).glob("*.class"))
        new = Path(place) / jar.name
        with zipfile.ZipFile(new, "w") as packed:
            for path in classes:
                packed.write(path, path.name)
        new.rename(jar)
