"""Users on both listeners: what an ACL allows works with every client, everything else is denied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka import ShareConsumer as KafkaShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from sharebroker import Admin, KafkaError, Producer, ShareConsumer, TopicPartition
from sharebroker_protocol.errors import ErrorCode
from tests.integration.security.users import GROUPS, SECONDS, TOPICS, Users, serving_users
from tests.support.client import rejection, unique
from tests.testkit.waiting import until

pytestmark = [pytest.mark.servers, pytest.mark.xdist_group("two users")]
GROUP_DENIED, TOPIC_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    with serving_users(tmp_path_factory.mktemp("users")) as made:
        yield made


@pytest.fixture
def work(users: Users) -> tuple[str, str]:
    return users.work()


def delivery(settings: dict[str, Any], topic: str) -> int | None:
    """Returns the error code of a record that librdkafka sends; None if it is written."""
    producer, errors = KafkaProducer(settings), list[Any]()
    producer.produce(topic, b"one", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    (error,) = errors
    return None if error is None else int(error.code())


def found(poll: Callable[[], list[Any]], wanted: object) -> None:
    """Polls until a record's value or an error's code is the one that is wanted.

    Raises AssertionError for another one.
    """
    seen: list[object] = []

    def polled() -> bool:
        try:
            messages = poll()
        except KafkaException as failure:
            seen.append(failure.args[0].code())
        else:
            errors = (message.error() for message in messages)
            seen.extend(
                error.code() if error else message.value()
                for message, error in zip(messages, errors, strict=True)
            )
        return wanted in seen

    until(polled, SECONDS)


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def test_kafka_producers(users: Users, work: tuple[str, str]) -> None:
    topic, _ = work
    assert delivery(users.kafka("alice"), topic) is None
    assert delivery(users.kafka("bob"), topic) == TOPIC_DENIED
    assert delivery(users.kafka("mallory"), topic) == TOPIC_DENIED


@pytest.mark.parametrize("share", [False, True])
def test_kafka_consumers(users: Users, work: tuple[str, str], share: bool) -> None:
    topic, group = work
    assert delivery(users.kafka("alice"), topic) is None
    for name, wanted in (("alice", b"one"), ("bob", GROUP_DENIED)):
        settings = users.kafka(name) | {"group.id": group if share else unique(GROUPS)}
        if share:
            members = KafkaShareConsumer(settings)
            members.subscribe([topic])
            found(lambda member=members: list(member.poll(0.5)), wanted)  # type: ignore[misc]
            members.close()
        else:
            consumer = KafkaConsumer(settings | {"auto.offset.reset": "earliest"})
            consumer.subscribe([topic])
            found(lambda member=consumer: member.consume(1, 0.5), wanted)  # type: ignore[misc]
            consumer.close()


def test_kafka_admin_clients(users: Users, work: tuple[str, str]) -> None:
    topic, _ = work
    clients = {name: AdminClient(users.kafka(name)) for name in ("alice", "bob", "mallory")}
    visible = {name: topic in client.list_topics(timeout=SECONDS).topics for name, client in clients.items()}
    assert visible == {"alice": True, "bob": False, "mallory": True}
    attempts = [
        clients["mallory"].delete_topics([topic]),
        clients["bob"].create_topics([NewTopic(unique(TOPICS), 1)]),
    ]
    for attempt in attempts:
        (future,) = attempt.values()
        with pytest.raises(KafkaException) as caught:
            future.result(SECONDS)
        assert caught.value.args[0].code() == TOPIC_DENIED
    assert topic in clients["alice"].list_topics(timeout=SECONDS).topics


def test_python_clients(users: Users, work: tuple[str, str]) -> None:
    topic, group = work
    with Producer(users.grpc("alice")) as producer:
        producer.publish(topic, b"one")
    for name in ("bob", "mallory"):
        with Producer(users.grpc(name)) as producer:
            assert code_of(lambda made=producer: made.publish(topic, b"two")) is TOPIC_DENIED  # type: ignore[misc]
    with ShareConsumer(users.grpc("alice"), group, [topic]) as consumer:
        records = consumer.poll(SECONDS)
        assert [record.value for record in records] == [b"one"]
        records[0].accept()
    with ShareConsumer(users.grpc("bob"), group, [topic]) as consumer:
        assert code_of(lambda: consumer.poll(SECONDS)) is GROUP_DENIED
    with Admin(users.grpc("bob")) as admin:
        assert topic not in [one.name for one in admin.list_topics()]
        assert code_of(lambda: admin.create_topic(unique(TOPICS), 1)) is TOPIC_DENIED
        assert code_of(admin.list_acls) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with Admin(users.grpc("mallory")) as admin:
        assert topic in [one.name for one in admin.list_topics()]
        assert code_of(lambda: admin.delete_topic(topic)) is TOPIC_DENIED


def test_recalling_a_scheduled_record_needs_write_on_the_topic(users: Users, work: tuple[str, str]) -> None:
    topic, group = work
    place = TopicPartition(topic, 0)
    with users.admin() as admin:
        admin.alter_topic_configs(topic, {"delivery.delay.enable": "true"})
    with Producer(users.grpc("alice")) as producer:
        producer.publish(topic, b"recalled", deliver_after=3600)
        producer.publish(topic, b"one")
    for name in ("bob", "mallory"):
        with Admin(users.grpc(name)) as admin:
            assert code_of(lambda made=admin: made.recall_record(place, 0)) is TOPIC_DENIED  # type: ignore[misc]
    with Admin(users.grpc("alice")) as admin:
        admin.recall_record(place, 0)
        assert code_of(lambda: admin.recall_record(place, 1)) is ErrorCode.RESOURCE_NOT_FOUND
    with ShareConsumer(users.grpc("alice"), group, [topic]) as consumer:
        assert [record.value for record in consumer.poll(SECONDS)] == [b"one"]


async def test_unary_calls(users: Users, work: tuple[str, str]) -> None:
    topic, group = work
    async with users.calls("alice") as alice, users.calls("bob") as bob:
        await alice.publish(topic, ["one"])
        acquired = await alice.acquire(group, topic, 1)
        assert [record.text for record in acquired.records] == ["one"]
        assert await alice.acknowledge(group, acquired.member_id, acquired.records) == [ErrorCode.NONE]
        assert (await rejection(bob.publish(topic, ["two"]))).code is TOPIC_DENIED
        assert (await rejection(bob.acquire(group, topic, 1))).code is GROUP_DENIED
        denied = bob.acknowledge(group, acquired.member_id, acquired.records)
        assert (await rejection(denied)).code is GROUP_DENIED
