"""Checkouts of earlier commits, from the history of this repository."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path
from typing import Final

from tests.perf.checkout import HERE, Checkout
from tests.testkit.brokers import Program

GIT_SECONDS: Final = 60.0
PRODUCT: Final = ("services", "libs", "pyproject.toml")
"""Paths that a server needs."""


class NoHistory(Exception):
    """A commit is missing, because the repository is no clone or a shallow one."""


def exported(revision: str, folder: Path) -> Checkout:
    """Returns a checkout of a commit's server in `folder`. Raises NoHistory."""
    archive = folder / "product.tar"
    folder.mkdir(parents=True, exist_ok=True)
    _git("archive", f"--output={archive}", revision, *PRODUCT)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()
    return Checkout.at(folder)


def program(checkout: Checkout) -> Program:
    """Returns how a checkout's server is started."""
    return checkout.serve_command(), checkout.environment()


def revision_of(sample: Path) -> str:
    """Returns the commit that added a sample, whose server wrote it. Raises NoHistory."""
    if _git("rev-parse", "--is-shallow-repository") != "false":
        raise NoHistory("the clone is shallow: git fetch --unshallow")
    added = _git("log", "--diff-filter=A", "--format=%H", "--", str(sample / "contents.json"))
    if not added:
        raise NoHistory(f"{sample.name} is not committed")
    return added.splitlines()[-1]


def _git(*words: str) -> str:
    command = ["git", "-C", str(HERE.folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=True)
    except FileNotFoundError:
        raise NoHistory("git is missing") from None
    except subprocess.CalledProcessError as failed:
        raise NoHistory(failed.stderr.strip()) from None
    return done.stdout.strip()
