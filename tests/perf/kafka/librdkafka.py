"""librdkafka at work, by its Python client.

Arguments: produce or consume, bootstrap servers, topic, group prefix, records of the topic. Writes its
progress as ShareBench.java does, and works until its standard input ends.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Producer, ShareConsumer

RECORD: Final = b"x" * 100
SAMPLE_SECONDS: Final = 0.2
PASS: Final = 0.9
"""Of the topic's records, so that no poll waits for the last ones."""

PASSES: Final = 40
"""The existing groups: named with a prefix and a number from 0."""


class Progress:
    """Counts records and writes a sample every now and then; `ended` once the input ends."""

    def __init__(self) -> None:
        self.count = 0
        self.ended = False
        self._next = 0.0
        threading.Thread(target=self._until_input_ends, daemon=True).start()

    def add(self, records: int) -> None:
        """Adds completed records."""
        self.count += records
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + SAMPLE_SECONDS
            write(f"sample {self.count} {time.perf_counter_ns()}")

    def _until_input_ends(self) -> None:
        while sys.stdin.read(1):
            pass
        self.ended = True


def write(line: str) -> None:
    """Writes one line and flushes it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def produce(bootstrap: str, topic: str, _group: str, _records: int, progress: Progress) -> None:
    """Publishes records of 100 bytes as fast as possible; a record counts once it is confirmed."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
    sent = 0
    write("pass")
    while not progress.ended:
        try:
            for _ in range(1000):
                producer.produce(topic, RECORD)
                sent += 1
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)
        progress.add(sent - len(producer) - progress.count)
    if producer.flush(60.0):
        raise SystemExit("not all records were confirmed")


def consume(bootstrap: str, topic: str, group: str, records: int, progress: Progress) -> None:
    """Runs one member; each poll accepts the records of the previous one."""
    for number in range(PASSES):
        if progress.ended:
            return
        consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": f"{group}-{number}"})
        consumer.subscribe([topic])
        write("pass")
        end = progress.count + int(records * PASS)
        while progress.count < end and not progress.ended:
            messages = consumer.poll(1.0)
            failed = next((message.error() for message in messages if message.error()), None)
            if failed is not None:
                raise SystemExit(str(failed))
            progress.add(len(messages))
        consumer.close()
    if not progress.ended:
        raise SystemExit(f"all {PASSES} groups have read the topic")


CASES: Final[dict[str, Callable[[str, str, str, int, Progress], None]]] = {
    "produce": produce,
    "consume": consume,
}

if __name__ == "__main__":
    case, bootstrap, topic, group, records = sys.argv[1:]
    CASES[case](bootstrap, topic, group, int(records), Progress())
