"""The blocking administration client on a running server."""

from __future__ import annotations

import threading
import uuid

import pytest

from sharebroker import Admin, ErrorCode, IllegalStateError, KafkaError, TopicPartition


def test_calls_return_results_and_raise_errors(server: str) -> None:
    name = f"topic-{uuid.uuid4().hex[:12]}"
    with Admin(server) as admin:
        created = admin.create_topic(name, partitions=2)
        assert admin.describe_topic(name).topic_id == created.topic_id
        places = [TopicPartition(name, number) for number in range(2)]
        assert admin.list_offsets(places) == dict.fromkeys(places, 0)
        admin.delete_topic(name)
        with pytest.raises(KafkaError) as caught:
            admin.describe_topic(name)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_close_ends_the_thread_and_rejects_calls(server: str) -> None:
    def client_threads() -> list[threading.Thread]:
        # gRPC keeps a polling thread of its own for the life of the process.
        return [thread for thread in threading.enumerate() if thread.name == "sharebroker"]

    before = client_threads()
    admin = Admin(server)
    admin.close()
    admin.close()
    assert client_threads() == before
    with pytest.raises(IllegalStateError, match="closed"):
        admin.list_topics()
