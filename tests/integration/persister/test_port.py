"""Where a broker stores share state, over real sockets and Redis."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.support.client import connected
from tests.testkit.brokers import Serve

PERSISTER: Final = "group.share.persister.class.name"
KAFKA: Final = "org.apache.kafka.server.share.persister."


@pytest.mark.parametrize(
    ("setting", "stored"),
    [
        (f"{PERSISTER}={KAFKA}DefaultStatePersister", True),
        (f"{PERSISTER}=DefaultStatePersister", True),
        (f"{PERSISTER}={KAFKA}NoOpStatePersister", False),
        (f"{PERSISTER}=NoOpStatePersister", False),
        (f"{PERSISTER}=", False),
        ("group.share.state.storage=log", True),
    ],
)
async def test_accepted_records_survive_a_restart_unless_the_persister_is_no_op(
    tmp_path: Path, setting: str, stored: bool
) -> None:
    options = ["--data", str(tmp_path / "data"), "--set", setting]
    serve = Serve(tmp_path, options, "all")
    serve.start()
    try:
        async with connected(serve.address) as client:
            topic, _ = await client.create()
            group_id = await client.group()
            await client.publish(topic, ["a", "b"])
            records = await client.acquire_all(group_id, topic, 2, "m1")
            assert await client.acknowledge(group_id, "m1", records) == [ErrorCode.NONE] * 2
        serve.restart()
        async with connected(serve.address) as client:
            await client.publish(topic, ["c"])
            expected = ["c"] if stored else ["a", "b", "c"]
            again = await client.acquire_all(group_id, topic, len(expected), "m2")
            assert [(record.text, record.delivery_count) for record in again] == [
                (text, 1) for text in expected
            ]
    finally:
        serve.stop()
