"""A group's records on their way into Parquet, interrupted: shared by the crash tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.spark.environment import Program, running
from tests.support.client import Client
from tests.testkit.brokers import Serve

PARTITIONS, RECORDS = 2, 250


@dataclass
class Transfer:
    """A topic of two partitions, a group, and a folder with checkpoint and output."""

    serve: Serve
    client: Client
    folder: Path
    topic: str
    topic_id: str
    group: str
    runs: list[Program] = field(default_factory=list)

    @classmethod
    async def prepared(cls, serve: Serve, client: Client, folder: Path, **configs: str) -> Transfer:
        """Creates it with records, evenly spread."""
        topic, topic_id = await client.create(PARTITIONS)
        for partition in range(PARTITIONS):
            await client.publish(topic, map(str, range(RECORDS)), partition=partition)
        return cls(serve, client, folder, topic, topic_id, await client.group(**configs))

    @contextmanager
    def run(
        self, at: tuple[int, str] | None = None, master: str = "local[2]", files: str = "", **options: str
    ) -> Iterator[Program]:
        """Provides the program, which stops at a moment of a batch; ends it afterwards."""
        given = {"bootstrap": self.serve.address, "topics": self.topic, "group": self.group,
                 "maxRecordsPerTrigger": "100", **options}  # fmt: skip
        asked = json.dumps({"options": given, "folder": str(self.folder), "at": list(at or (0, ""))})
        variables = {"SPARK_TEST_MASTER": master, "SPARK_TEST_FILES": files}
        with running("transfer", self.folder / f"run-{len(self.runs)}", asked, **variables) as program:
            self.runs.append(program)
            yield program

    async def wait_until_stopped(self, program: Program) -> None:
        """Waits until it has stopped. The source signals that with a file: its output is not the
        program's.
        """
        await asyncio.to_thread(program.until, (self.folder / "stands").exists)
        (self.folder / "stands").unlink()

    def resume(self) -> None:
        """Resumes a stopped program."""
        (self.folder / "go").touch()

    def log(self, name: str) -> list[int]:
        """Returns the batches in Spark's log of `offsets` (planned) or `commits` (done)."""
        folder = self.folder / "checkpoint" / name
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())

    def planned(self, number: int) -> Any:
        """Returns the source's offset that Spark recorded for a batch."""
        text = (self.folder / "checkpoint" / "offsets" / str(number)).read_text()
        return json.loads(text.splitlines()[-1])

    async def ends(self, program: Program) -> None:
        """Checks that it succeeds, and that every record is in the table once, and accepted."""
        rows = await asyncio.to_thread(program.wait_for_value, "rows")
        assert await asyncio.to_thread(program.ends) == 0
        assert [row[:3] for row in rows] == [
            [partition, offset, str(offset)] for partition in range(PARTITIONS) for offset in range(RECORDS)
        ]
        for partition in range(PARTITIONS):
            finished = await self.client.finished(self.group, self.topic_id, partition)
            assert finished == set(range(RECORDS))
        assert self.log("offsets") == self.log("commits")
