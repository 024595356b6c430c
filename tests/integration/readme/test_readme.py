"""The examples of the README do what it says, in its order, on a fresh server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.testkit.brokers import one_process
from tests.architecture.sources import ROOT

_EXAMPLE = re.compile(r"^```(sh|python) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DOCUMENTED_SERVER = "127.0.0.1:9090"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The examples' commands: the installed `sharebroker`, and `grpcurl` or what stands in for it."""
    stand_in = tmp_path / "grpcurl"
    stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("grpcurl.py")} "$@"\n')
    stand_in.chmod(0o755)
    path = [str(Path(sys.executable).parent), *os.environ["PATH"].split(os.pathsep), str(tmp_path)]
    return {**os.environ, "PATH": os.pathsep.join(path)}


@pytest.fixture
def server() -> Iterator[str]:
    with one_process() as cluster:
        yield cluster.address


@pytest.mark.timeout(180)
def test_examples_of_the_readme(server: str, environment: dict[str, str]) -> None:
    environment["SHAREBROKER_SERVER"] = server
    told = []
    for language, text in _EXAMPLE.findall((ROOT / "README.md").read_text()):
        example = text.replace(_DOCUMENTED_SERVER, server)
        command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
        done = subprocess.run(
            [*command, example], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{example}\n{done.stdout}\n{done.stderr}"
        told.append(done.stdout + done.stderr)
    shop, work, _, python, grpcurl, acknowledged = told
    assert "Accepted 2." in shop
    assert '{"ID": 2, "CUSTOMER": "BOB"}' in work
    assert python.count("accepted, durable") == python.count("b'{") >= 1
    assert '"text": "world"' in grpcurl
    assert '"lockToken": "4294967297"' in grpcurl
    assert "errorCode" not in acknowledged
