"""A server for each document, and the commands of the documents."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testkit.brokers import Cluster, one_process


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


@pytest.fixture
def environment(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """Provides the commands of the examples: the installed `sharebroker`, and `grpcurl` or its substitute."""
    stand_in = tmp_path / "grpcurl"
    stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("grpcurl.py")} "$@"\n')
    stand_in.chmod(0o755)
    path = [str(Path(sys.executable).parent), *os.environ["PATH"].split(os.pathsep), str(tmp_path)]
    return {**os.environ, "PATH": os.pathsep.join(path), "SHAREBROKER_SERVER": cluster.address}
