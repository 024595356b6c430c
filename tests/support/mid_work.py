"""A group in mid-work before its topic is moved, and the rest of its work afterwards."""

from __future__ import annotations

from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from tests.support.client import REJECT, RELEASE, Client
from tests.testkit.waiting import eventually

RECORDS = 60


class Work:
    """A group in mid-work: a third of its records is accepted, one was released, others are locked."""

    def __init__(self) -> None:
        self.texts = [str(number) for number in range(RECORDS)]
        self.accepted: list[str] = []
        self.topic = self.topic_id = self.group_id = ""

    async def begin(self, client: Client) -> None:
        """Creates topic and group, publishes, and does a part of the work."""
        self.topic, self.topic_id = await client.create(retention_ms="-1")
        self.group_id = await client.group(share_delivery_count_limit="9")
        await client.publish(self.topic, self.texts)
        held = await client.acquire_all(self.group_id, self.topic, RECORDS * 2 // 3, "early")
        accepted = held[1::2]
        assert set(await client.acknowledge(self.group_id, "early", accepted)) == {0}
        assert set(await client.acknowledge(self.group_id, "early", held[:1], RELEASE)) == {0}
        assert set(await client.acknowledge(self.group_id, "early", held[2:3], REJECT)) == {0}
        self.accepted = [record.text for record in accepted]

    async def failed(self, client: Client) -> list[tuple[int, int, int]]:
        """Returns first and last offset and delivery count of the failed records."""
        request = admin.ListFailedRecordsRequest(group_id=self.group_id, topic=self.topic)
        response = await client.admin.ListFailedRecords(request, timeout=30.0)
        return [(each.first_offset, each.last_offset, each.delivery_count) for each in response.entries]

    async def finish(self, client: Client) -> None:
        """Does the rest of the work: all other records arrive, once."""
        left = sorted({*self.texts} - {*self.accepted, "2"})
        assert await self.failed(client) == [(2, 2, 1)]
        found: dict[str, int] = {}

        async def complete() -> bool:
            response = await client.acquire(self.group_id, self.topic, RECORDS, member="late", wait=0.5)
            for record in response.records:
                assert record.text not in found
                found[record.text] = record.delivery_count
            assert set(await client.acknowledge(self.group_id, "late", response.records)) <= {0}
            return len(found) >= len(left)

        await eventually(complete, 60.0)
        assert sorted(found) == left
        assert found["0"] == 2, "the delivery count of the released record was kept"
        assert await client.finished(self.group_id, self.topic_id) == {*range(RECORDS)}
