"""Writes the data folder of this release as sample data: `python -m tests.samples.write`.

A test starts later releases on a copy (`tests/integration/broker/test_samples.py`).
"""

from __future__ import annotations

import asyncio
import io
import tarfile
import tempfile
from pathlib import Path

import orjson

from sharebroker_protocol import clock
from sharebroker_server.telemetry.process import release
from tests.samples.contents import PROPERTIES, clients, created, described
from tests.testkit.brokers import Serve

SAMPLES = Path(__file__).parent
LARGEST = 1 << 20
"""Bytes of a sample; the repository keeps one of each release."""


def write(folder: Path) -> None:
    """Fills a new broker, and writes its stopped data folder and a description of its contents."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sharebroker-") as name:
        options = [option for pair in PROPERTIES for option in ("--set", pair)]
        serve = Serve(Path(name), ["--data", f"{name}/data", *options])
        serve.start()
        try:
            contents = asyncio.run(_fill(serve))
        finally:
            assert serve.stop() == 0, serve.log
        contents = {"release": release(), "written at": clock.now(), **contents}
        packed = _packed(Path(name) / "data")
    assert len(packed) <= LARGEST
    (folder / "data.tar.xz").write_bytes(packed)
    (folder / "contents.json").write_bytes(orjson.dumps(contents, option=orjson.OPT_INDENT_2) + b"\n")


async def _fill(serve: Serve) -> dict[str, object]:
    async with clients(serve.address, serve.kafka) as at, created(at):
        return await described(at)


def _packed(data: Path) -> bytes:
    """Returns the archive of the files that a stopped broker leaves."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for path in sorted(data.rglob("*")):
            if path.name == "node.json" or "appendonlydir" in path.parts:
                archive.add(path, path.relative_to(data), recursive=False, filter=_anonymous)
    return packed.getvalue()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    write(SAMPLES / release())
