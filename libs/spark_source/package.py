"""Puts the source and the client it needs into one archive, for `spark-submit --py-files`: its argument."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

HERE = Path(__file__).resolve().parent


def main(archive: Path) -> None:
    """Build both wheels, which are archives themselves, and join them."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-build-isolation", "-w", folder]
        command += [str(HERE.parent / "protocol"), str(HERE.parent / "python_client"), str(HERE)]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as joined:
            for wheel in sorted(Path(folder).glob("*.whl")):
                with zipfile.ZipFile(wheel) as parts:
                    for name in parts.namelist():
                        joined.writestr(name, parts.read(name))
            # Packages without an __init__.py are found in an archive by their folder's entry only.
            for name in sorted(
                {f"{each}/" for path in joined.namelist() for each in PurePosixPath(path).parents}
            ):
                if name != "./":
                    joined.writestr(name, b"")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
