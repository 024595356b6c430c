"""A cluster whose clients must authenticate, over TLS, and the settings of its clients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from sharebroker import Admin
from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.testkit.brokers import Cluster
from tests.testkit.certificates import Authority
from tests.testkit.waiting import until

_SECONDS: Final = 60.0
"""Longest time until the first user exists at each broker, on a busy machine."""

ADMIN: Final = "admin"
PASSWORD: Final = "the admin's secret: a=1"


@dataclass(frozen=True)
class Secured:
    """A cluster, the authority of its certificates, and the file with the password of its first user."""

    cluster: Cluster
    authority: Authority
    password_file: Path

    def address(
        self, user: str | None = ADMIN, password_file: Path | None = None, *, listener: str | None = None
    ) -> str:
        """Returns a user's address of a gRPC listener; by default that of the last broker."""
        login = f"&user={user}&password_file={password_file or self.password_file}" if user else ""
        return f"tls://{listener or self.cluster.address}?ca={self.authority.file}{login}"

    def librdkafka(
        self, mechanism: str, user: str = ADMIN, password: str = PASSWORD
    ) -> dict[str, str | int | float | bool]:
        """Returns librdkafka's settings."""
        return {
            "bootstrap.servers": self.cluster.kafka,
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(self.authority.file),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": "2",
        }

    def java(self, mechanism: str, user: str = ADMIN, password: str = PASSWORD) -> dict[str, object]:
        """Returns the properties of Java's clients and tools."""
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.file,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
            f'username="{user}" password="{password}";',
        }

    @property
    def logs(self) -> str:
        """The output of all processes."""
        return "".join(process.log for process in self.cluster.processes)


@contextlib.contextmanager
def secured(
    start: Callable[..., AbstractContextManager[Cluster]], folder: Path, *options: str
) -> Iterator[Secured]:
    """Starts a cluster with TLS, all mechanisms and a first user, which exists at each broker.

    `folder` is a new folder for its files.
    """
    authority = Authority.make(folder / "authority")
    broker = authority.issue("broker", "127.0.0.1", "localhost")
    password_file = folder / "password"
    password_file.write_text(f"{PASSWORD}\n")
    tls = [f"--tls-cert={broker.certificate}", f"--tls-key={broker.key}", f"--tls-ca={authority.file}"]
    users = [f"--admin-user={ADMIN}", f"--admin-password-file={password_file}"]
    mechanisms = "--set=sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    with start(*tls, *users, mechanisms, *options) as cluster:
        place = Secured(cluster, authority, password_file)
        until(lambda: "first user created" in place.logs, _SECONDS)
        for gateway in cluster.gateways:
            until(partial(_authenticates, place.address(listener=gateway.address)), _SECONDS)
        yield place


def _authenticates(address: str) -> bool:
    """Returns whether the first user exists at a broker: one without the catalog follows it."""
    try:
        with Admin(address) as admin:
            admin.list_features()
    except KafkaError as error:
        if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise
        return False
    return True
