"""Builds one archive with the source and the client it needs, for `spark-submit --py-files`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

HERE = Path(__file__).resolve().parent


def main(archive: Path) -> None:
    """Builds the wheels, which are zip archives, and merges them into `archive`."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-build-isolation", "-w", folder]
        command += [str(HERE.parent / "protocol"), str(HERE.parent / "python_client"), str(HERE)]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as joined:
            for wheel in sorted(Path(folder).glob("*.whl")):
                with zipfile.ZipFile(wheel) as source:
                    for name in source.namelist():
                        joined.writestr(name, source.read(name))
            # In an archive, packages without an __init__.py are found only by the entry of their folder.
            for name in sorted(
                {f"{parent}/" for path in joined.namelist() for parent in PurePosixPath(path).parents}
            ):
                if name != "./":
                    joined.writestr(name, b"")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
