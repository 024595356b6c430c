"""Kafka clients authenticate again before their session ends (KIP-368), and lose nothing."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.librdkafka_statistics import Disconnects
from tests.testkit.brokers import one_process
from tests.testkit.secured import Secured, secured
from tests.testkit.waiting import until

pytestmark = pytest.mark.xdist_group("reauthentication")  # its tests share a cluster

SESSION = 2.0
SECONDS = 30.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    option = f"--set=connections.max.reauth.ms={int(SESSION * 1000)}"
    with secured(one_process, tmp_path_factory.mktemp("sessions"), option) as made:
        yield made


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_librdkafka_produces_across_sessions(place: Secured, mechanism: str) -> None:
    settings = place.librdkafka(mechanism)
    admin = AdminClient(settings)
    (created,) = admin.create_topics([NewTopic(mechanism, 1)]).values()
    created.result(SECONDS)
    disconnects = Disconnects()
    producer, errors = Producer(settings | disconnects.settings), list[object]()
    at_disconnect = (0, monotonic())

    def outlived() -> bool:
        """Returns whether a connection outlived sessions; a late librdkafka connects again."""
        nonlocal at_disconnect
        producer.produce(mechanism, b"record", on_delivery=lambda error, _: errors.append(error))
        producer.poll(0.1)
        if disconnects.count > at_disconnect[0]:
            at_disconnect = (disconnects.count, monotonic())
        return monotonic() - at_disconnect[1] > 2.5 * SESSION

    until(outlived, 2 * SECONDS)
    assert producer.flush(SECONDS) == 0
    assert errors
    assert not [error for error in errors if error is not None]
