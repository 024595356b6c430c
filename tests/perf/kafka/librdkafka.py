"""librdkafka at work, by its Python client; the figures as JSON in a line.

Arguments: produce or consume, bootstrap servers, topic, group, records.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final

from confluent_kafka import Producer, ShareConsumer

RECORD: Final = b"x" * 100
WARM_UP: Final = 0.2
"""Of the records, so that neither connecting nor joining counts."""


def produce(bootstrap: str, topic: str, _: str, records: int) -> dict[str, float]:
    """Records of 100 bytes, as fast as the queue takes them; until the last is confirmed."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
    first = int(records * WARM_UP)
    begun = 0.0
    for number in range(records):
        if number == first:
            producer.flush()
            begun = time.perf_counter()
        while True:
            try:
                producer.produce(topic, RECORD)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(60.0):
        raise SystemExit("not all records were confirmed")
    return {"rate": (records - first) / (time.perf_counter() - begun)}


def consume(bootstrap: str, topic: str, group: str, records: int) -> dict[str, float]:
    """One member; each poll accepts what the one before returned."""
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    count, begun, first = 0, 0.0, int(records * WARM_UP)
    while count < records:
        messages = consumer.poll(1.0)
        failed = next((message.error() for message in messages if message.error()), None)
        if failed is not None:
            raise SystemExit(str(failed))
        count += len(messages)
        if not begun and count >= first:
            begun, first = time.perf_counter(), count
    took = time.perf_counter() - begun
    consumer.close()
    return {"rate": (count - first) / took}


CASES: Final[dict[str, Any]] = {"produce": produce, "consume": consume}

if __name__ == "__main__":
    case, bootstrap, topic, group, records = sys.argv[1:]
    sys.stdout.write(json.dumps(CASES[case](bootstrap, topic, group, int(records))) + "\n")
