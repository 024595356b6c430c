"""Clients of both listeners that `ssl.principal.mapping.rules` accepts, and that it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from sharebroker import Admin
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication.distinguished_name import subject_of
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.certificates import Authority, Identity
from tests.testkit.waiting import until

SECONDS = 30.0


@dataclass(frozen=True)
class Mapped:
    """A process that gives the certificate of `accepted` a principal, and that of `stranger` none."""

    cluster: Cluster
    authority: Authority
    accepted: Identity
    stranger: Identity

    def address(self, shown: Identity) -> str:
        return (
            f"tls://{self.cluster.address}?ca={self.authority.file}&cert={shown.certificate}&key={shown.key}"
        )

    def lists(self, shown: Identity) -> bool:
        """Returns whether librdkafka is served."""
        try:
            self._kafka(shown).list_topics(timeout=5.0)
        except KafkaException:
            return False
        return True

    def creates(self, shown: Identity, name: str) -> bool:
        """Returns whether librdkafka creates a topic."""
        admin = self._kafka(shown)
        try:
            admin.create_topics([NewTopic(name, 1)])[name].result(SECONDS)
        except KafkaException:
            return False
        return True

    def _kafka(self, shown: Identity) -> AdminClient:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.cluster.kafka,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority.file),
            "ssl.certificate.location": str(shown.certificate),
            "ssl.key.location": str(shown.key),
            "log_level": "2",
        }
        return AdminClient(settings)


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapped]:
    authority = Authority.make(tmp_path_factory.mktemp("mapped") / "authority")
    broker = authority.issue("broker", "127.0.0.1")
    accepted, stranger = (authority.issue(name, f"{name}.example") for name in ("accepted", "stranger"))
    tls = [f"--tls-cert={broker.certificate}", f"--tls-key={broker.key}", f"--tls-ca={authority.file}"]
    escaped = subject_of(accepted.der).replace("\\", "\\\\")
    rules = f"--set=ssl.principal.mapping.rules=RULE:{escaped}/worker/"
    with one_process(*tls, "--set=ssl.client.auth=required", rules) as cluster:
        yield Mapped(cluster, authority, accepted, stranger)


@pytest.fixture(scope="module")
def requested(mapped: Mapped, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapped]:
    """A process that does not require SASL; only the owner of a certificate may create topics."""
    broker = mapped.authority.issue("second", "127.0.0.1")
    tls = [
        f"--tls-cert={broker.certificate}",
        f"--tls-key={broker.key}",
        f"--tls-ca={mapped.authority.file}",
    ]
    options = [
        "ssl.client.auth=required",
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
        "sasl.client.auth=requested",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        f"super.users=User:{subject_of(mapped.accepted.der)}",
    ]
    with one_process(*tls, *(f"--set={option}" for option in options)) as cluster:
        yield Mapped(cluster, mapped.authority, mapped.accepted, mapped.stranger)


def test_without_sasl_both_listeners_use_the_certificate(
    requested: Mapped,
) -> None:
    assert requested.creates(requested.accepted, "by-the-owner")
    assert not requested.creates(requested.stranger, "by-another")
    with Admin(requested.address(requested.accepted)) as admin:
        assert [topic.name for topic in admin.list_topics()] == ["by-the-owner"]
    with Admin(requested.address(requested.stranger)) as admin:
        assert admin.list_topics() == []


def test_kafka_listener_serves_only_certificates_with_a_principal(mapped: Mapped) -> None:
    assert mapped.lists(mapped.accepted)
    assert not mapped.lists(mapped.stranger)
    until(
        lambda: "no rule of ssl.principal.mapping.rules applies" in mapped.cluster.processes[0].log, SECONDS
    )


def test_grpc_listener_serves_only_certificates_with_a_principal(mapped: Mapped) -> None:
    with Admin(mapped.address(mapped.accepted)) as admin:
        admin.list_topics()
    with Admin(mapped.address(mapped.stranger)) as admin, pytest.raises(KafkaError) as caught:
        admin.list_topics()
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
