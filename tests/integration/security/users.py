"""Users of a secured cluster with ACLs, and how their clients connect to both listeners."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sharebroker import Admin, Producer
from sharebroker.acls import Acl
from sharebroker_server.config.broker import STANDARD_AUTHORIZER
from tests.support.client import Client, unique
from tests.support.client import connected as connected_grpc
from tests.support.kafka_client import KafkaClient
from tests.support.kafka_client import connected as connected_kafka
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.sasl import plain
from tests.testkit.secured import Secured, secured

SECONDS: Final = 30.0
NAMES: Final = ("alice", "bob", "mallory")
TOPICS, GROUPS, TRANSACTIONS = "orders", "workers", "alice"

_ACLS: Final = (
    *(
        Acl(f"User:{name}", "read", kind, prefix, "prefixed")
        for name in ("alice", "mallory")
        for kind, prefix in (("topic", TOPICS), ("group", GROUPS))
    ),
    Acl("User:alice", "write", "topic", TOPICS, "prefixed"),
    Acl("User:alice", "write", "transactional-id", TRANSACTIONS, "prefixed"),
)
"""Bob may do nothing. Mallory may read what Alice reads, but neither write nor use her transactions."""


@dataclass(frozen=True)
class Users:
    """A cluster and the folder with the password files of its users."""

    place: Secured
    folder: Path

    def grpc(self, name: str) -> str:
        """Returns a user's address of the gRPC listener."""
        return self.place.address(name, self.folder / name)

    def kafka(self, name: str) -> dict[str, Any]:
        """Returns a user's settings of librdkafka."""
        return self.place.librdkafka("SCRAM-SHA-256", name, password(name))

    def admin(self) -> Admin:
        """Returns a client of the super user."""
        return Admin(self.place.address())

    def publisher(self) -> Producer:
        """Returns a producer of the super user."""
        return Producer(self.place.address())

    def deny(self, name: str, topic: str) -> None:
        """Revokes a user's permission to READ a topic."""
        with self.admin() as admin:
            admin.create_acls([Acl(f"User:{name}", "read", "topic", topic, permission_type="deny")])

    def work(self) -> tuple[str, str]:
        """Returns a new topic with one partition, and a share group that reads from its beginning."""
        topic, group = unique(TOPICS), unique(GROUPS)
        with self.admin() as admin:
            admin.create_topic(topic, 1)
            admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
        return topic, group

    @asynccontextmanager
    async def calls(self, name: str) -> AsyncIterator[Client]:
        """Provides gRPC's stubs with a user."""
        async with connected_grpc(self.grpc(name)) as client:
            yield client

    @asynccontextmanager
    async def requests(self, name: str) -> AsyncIterator[KafkaClient]:
        """Provides an authenticated connection to the Kafka listener."""
        context = ssl.create_default_context(cafile=self.place.authority.file)
        async with connected_kafka(self.place.cluster.kafka, tls=context) as client:
            await client.ask(17, 1, mechanism="PLAIN")
            response = await client.ask(36, 2, auth_bytes=plain(name, password(name)))
            assert response.error_code == 0, response
            yield client


def password(name: str) -> str:
    """Returns a user's password."""
    return f"the secret of {name}"


@contextmanager
def serving_users(
    folder: Path, start: Callable[..., AbstractContextManager[Cluster]] = one_process
) -> Iterator[Users]:
    """Starts a cluster with access control, and creates its users and ACLs."""
    with secured(start, folder, f"--set=authorizer.class.name={STANDARD_AUTHORIZER}") as place:
        users = Users(place, folder)
        with users.admin() as admin:
            for name in NAMES:
                (folder / name).write_text(password(name))
                admin.set_password(name, password(name))
            admin.create_acls(_ACLS)
        yield users
