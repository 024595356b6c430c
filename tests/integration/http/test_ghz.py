"""The ghz command in docs/grpc.md works against a live server."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess

import pytest

from tests.architecture.sources import ROOT
from tests.support.client import connected
from tests.testkit.brokers import one_process

_BUILT = ROOT / ".cache" / "bin" / "ghz"
GHZ = str(_BUILT) if _BUILT.exists() else shutil.which("ghz")
_EXAMPLE = re.compile(r"^```sh ghz\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(GHZ is None, reason="ghz is not here: `make ghz` brings it")
async def test_documented_ghz_command_works() -> None:
    (example,) = _EXAMPLE.findall((ROOT / "docs" / "grpc.md").read_text())
    with one_process() as cluster:
        async with connected(cluster.address) as client:
            await client.create(1, name="greetings")
        script = example.replace("127.0.0.1:9090", cluster.address).replace("ghz --", f"{GHZ} --", 1)
        command = ["sh", "-ec", script]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\[OK\]\s+1000 responses", done.stdout), done.stdout
