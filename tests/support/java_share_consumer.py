"""Kafka's Java share consumer in a separate process, controlled over a pipe."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import IO, NamedTuple

from tests.support.class_data import class_data
from tests.support.java_programs import archive, programs
from tests.support.kafka_jars import JarSet
from tests.support.kafka_tools import TOOL_FLAGS, java, java_environment

SECONDS = 30.0


class Polled(NamedTuple):
    """A record as the consumer received it."""

    partition: int
    offset: int
    delivery_count: int
    value: str


class JavaShareConsumer:
    """One `KafkaShareConsumer`, subscribed to a topic. Raises AssertionError if it reports an error."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def poll(self, records: int, seconds: float = SECONDS) -> list[Polled]:
        """Polls until this many records arrived, or until the timeout."""
        words = [line.split(" ", 4) for line in self._send(f"poll {records} {seconds}")]
        return [Polled(int(part), int(at), int(count), value) for _, part, at, count, value in words]

    def acknowledge(self, offset: int, kind: str) -> None:
        """Acknowledges a record of the last poll."""
        self._send(f"acknowledge {offset} {kind}")

    def commit(self) -> dict[int, str]:
        """Calls commitSync; returns "well", or the name of the exception, by partition."""
        words = [line.split(" ") for line in self._send("commit")]
        return {int(partition): result for _, partition, result in words}

    def close(self) -> None:
        """Closes it, and waits until it has ended."""
        self._send("close")
        self._process.wait(SECONDS)

    def kill(self) -> None:
        """Kills it."""
        self._process.kill()
        self._process.wait(SECONDS)

    def _send(self, command: str) -> list[str]:
        output, commands = _pipe(self._process.stdout), _pipe(self._process.stdin)
        commands.write(f"{command}\n")
        commands.flush()
        lines: list[str] = []
        for line in output:
            if line == "done\n":
                return lines
            lines.append(line.rstrip("\n"))
            assert not line.startswith("error "), line
        raise AssertionError(f"the consumer ended: {lines}")


@contextlib.contextmanager
def share_consumer(
    jars: JarSet, address: str, group: str, topic: str, **settings: str
) -> Iterator[JavaShareConsumer]:
    """Provides a consumer. Properties have underscores for dots."""
    pairs = {"bootstrap.servers": address, "group.id": group}
    pairs |= {name.replace("_", "."): value for name, value in settings.items()}
    words = [f"{name}={value}" for name, value in pairs.items()]
    with class_data(archive(jars)) as flags:
        process = subprocess.Popen(
            java("ShareConsole", topic, *words, flags=[*TOOL_FLAGS, *flags]),
            env=java_environment(jars, [programs()]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield JavaShareConsumer(process)
        finally:
            process.kill()
            process.communicate(timeout=SECONDS)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
