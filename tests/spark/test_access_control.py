"""The source of users with passwords and ACLs: one may read, another may not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_spark.client import GatewayClient
from sharebroker_spark.core.offsets import PlannedBatch
from sharebroker_spark.core.options import read_options
from sharebroker_spark.driver import Driver
from tests.integration.security.users import Users, serving_users


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    with serving_users(tmp_path_factory.mktemp("users")) as made:
        yield made


def planned(address: str, topic: str, group: str) -> list[tuple[int, int]]:
    """Plans and commits a batch as the source does; returns the offsets of its ranges."""
    given = {"bootstrap": address, "group": group, "topics": topic}
    with closing(GatewayClient(address, waits=True)) as client:
        driver = Driver(read_options(given, streaming=True), client)
        batch = driver.plan(PlannedBatch("s"), None, 0)
        driver.commit(batch)
        driver.close()
    return [(one.first, one.last) for one in batch.ranges]


@pytest.fixture
def work(users: Users) -> tuple[str, str]:
    """A topic with ten records, and a group."""
    topic, group = users.work()
    with users.publisher() as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
        producer.flush()
    return topic, group


def test_a_user_with_read_plans_and_commits(users: Users, work: tuple[str, str]) -> None:
    assert planned(users.grpc("alice"), *work) == [(0, 9)]


def test_a_user_without_acls_plans_nothing(users: Users, work: tuple[str, str]) -> None:
    with pytest.raises(KafkaError) as caught:
        planned(users.grpc("bob"), *work)
    assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert planned(users.grpc("alice"), *work) == [(0, 9)]


def test_a_user_whose_read_of_the_topic_is_denied_plans_nothing(users: Users, work: tuple[str, str]) -> None:
    users.deny("mallory", work[0])
    with pytest.raises(KafkaError) as caught:
        planned(users.grpc("mallory"), *work)
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_wrong_password_is_rejected(users: Users, work: tuple[str, str]) -> None:
    address = users.place.address("alice", users.folder / "bob")
    with pytest.raises(KafkaError) as caught:
        planned(address, *work)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
