"""Records that wait for a delay, a durable lock or a dead letter are exported and imported."""

from __future__ import annotations

import time
from pathlib import Path

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as dead_letters
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.model import RecordState
from tests.durability.append_only import embedded
from tests.integration.broker.commands.commands import command
from tests.support.client import REJECT, RELEASE, RENEW, TIMEOUT, Client, connected, decision, unique
from tests.testkit.brokers import Serve, one_process
from tests.testkit.waiting import eventually

HOUR_MS = 3_600_000
DELAY_MS = 8_000


async def permit_letters(client: Client, topic: str, permitted: bool) -> None:
    """Permits groups to write dead letters to a topic, or no longer."""
    change = cluster.IncrementalAlterConfigsRequest.Config(
        name="errors.deadletterqueue.group.enable", value=str(permitted).lower()
    )
    resource = cluster.IncrementalAlterConfigsRequest.Resource(
        resource_type=cluster.RESOURCE_TYPE_TOPIC, resource_name=topic, configs=[change]
    )
    request = cluster.IncrementalAlterConfigsRequest(resources=[resource])
    response = await client.admin.IncrementalAlterConfigs(request, timeout=TIMEOUT)
    assert not response.responses[0].error_code, response


async def letters(client: Client, topic: str) -> list[int]:
    """Returns the offsets of the records that have a dead letter, in the order of their letters."""
    request = dead_letters.ListDeadLettersRequest(topic=topic)
    response = await client.dead_letters.ListDeadLetters(request, timeout=TIMEOUT)
    return [letter.source_offset for letter in response.letters]


async def test_records_that_wait_are_moved_and_end_their_waits_in_the_target(tmp_path: Path) -> None:
    archive = str(tmp_path / "archive")
    with one_process() as source:
        async with connected(source.address) as client:
            topic, topic_id = await client.create()
            queue, _ = await client.create(name=unique("dlq.letters"))
            await permit_letters(client, queue, True)
            group_id = await client.group(errors_deadletterqueue_topic_name=queue)

            async def decide(
                record: share.ShareRecord, kind: int, *, delay_ms: int | None = None, lock_ms: int = 0
            ) -> None:
                chosen = decision(record, kind, delay_ms)
                chosen.lock_ms = lock_ms
                request = share.AcknowledgeRequest(
                    group_id=group_id, member_id="early", acknowledgements=[chosen]
                )
                response = await client.share.Acknowledge(request, timeout=TIMEOUT)
                assert [result.error_code for result in response.results] == [0]

            await client.publish(topic, map(str, range(7)))
            held = await client.acquire_all(group_id, topic, 7, "early")
            await decide(held[0], REJECT)

            async def first_letter() -> bool:
                return await letters(client, queue) == [0]

            await eventually(first_letter, 60.0)
            await permit_letters(client, queue, False)
            await decide(held[1], REJECT)
            released = time.time()
            await decide(held[2], RELEASE, delay_ms=DELAY_MS)
            await decide(held[3], RELEASE, delay_ms=HOUR_MS)
            await decide(held[4], RENEW, lock_ms=HOUR_MS)
            await decide(held[5], RELEASE)
            assert await stored_state(client, group_id, topic_id, 1) == RecordState.ARCHIVING
        done = await command("export", archive, "--data", str(embedded(source).parent))
        assert done.returncode == 0, done.stderr
    done = await command("import", archive, "--data", str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr
    serve = Serve(tmp_path, ["--data", str(tmp_path / "new")])
    serve.start()
    try:
        async with connected(serve.address) as client:
            verified = await command("verify", group_id, "--server", serve.address)
            assert verified.returncode == 0, verified.stdout
            assert await letters(client, queue) == [0]
            assert await stored_state(client, group_id, topic_id, 1) == RecordState.ARCHIVING
            counts: dict[str, int] = {}

            async def arrived(*texts: str) -> bool:
                response = await client.acquire(group_id, topic, 10, member="late", wait=0.5)
                counts.update({record.text: record.delivery_count for record in response.records})
                return {*counts} >= {*texts}

            await eventually(lambda: arrived("2", "5", "6"), 60.0)
            assert time.time() >= released + DELAY_MS / 1000, "the delay was kept"
            assert counts == {"2": 2, "5": 2, "6": 1}, "the others wait"
            assert await client.acknowledge(group_id, "early", held[4:5]) == [0], "its holder has the lock"
            await permit_letters(client, queue, True)

            async def written() -> bool:
                return await letters(client, queue) == [0, 1] and 1 in await client.finished(
                    group_id, topic_id
                )

            await eventually(written, 60.0)
        serve.restart()
        async with connected(serve.address) as client:
            await client.publish(topic, ["7"])
            await eventually(lambda: arrived("7"), 60.0)
            assert await letters(client, queue) == [0, 1], "each letter was written once"
    finally:
        serve.stop()


async def stored_state(client: Client, group_id: str, topic_id: str, offset: int) -> int:
    """Returns the state of a record as stored."""
    folded = (await client.inspect(group_id, topic_id)).folded
    return next(
        batch.delivery_state
        for batch in folded.state_batches
        if batch.first_offset <= offset <= batch.last_offset
    )
