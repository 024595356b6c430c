"""Users and ACLs of a server that is measured: its options, their creation, and its clients' properties."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sharebroker_server.config.broker import STANDARD_AUTHORIZER
from tests.perf.processes import BenchFailed
from tests.testkit.certificates import Authority

ADMIN: Final = "admin"
USER: Final = "alice"
MECHANISM: Final = "SCRAM-SHA-256"
SECONDS: Final = 60.0
PORTION: Final = 1_000
"""ACLs that one request creates."""


def options(folder: Path, authority: Authority, *, tls: bool, secured: bool) -> list[str]:
    """Returns options of `serve`, and writes the passwords of both users."""
    chosen = []
    if tls:
        identity = authority.issue("server", "127.0.0.1", "localhost")
        chosen += ["--tls-cert", str(identity.certificate), "--tls-key", str(identity.key)]
        chosen += ["--tls-ca", str(authority.file)]
    if secured:
        for name in (ADMIN, USER):
            (folder / name).write_text(password(name))
        chosen += ["--admin-user", ADMIN, "--admin-password-file", str(folder / ADMIN)]
        chosen += ["--set", f"sasl.enabled.mechanisms={MECHANISM}"]
        chosen += ["--set", f"authorizer.class.name={STANDARD_AUTHORIZER}"]
    return chosen


def password(name: str) -> str:
    """Returns a user's password."""
    return f"password-of-{name}"


def client_config(folder: Path) -> Path:
    """Writes the properties of Kafka's Java clients of the user, without TLS."""
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    config = folder / "client.properties"
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={MECHANISM}\n"
        f'sasl.jaas.config={login} username="{USER}" password="{password(USER)}";\n'
    )
    return config


def add_users(bootstrap: str, authority: Authority | None, acls: int) -> None:
    """Creates the user with its ACLs, and this number of ACLs of others. Raises BenchFailed."""
    admin = AdminClient(_settings(bootstrap, authority))
    _await_first_user(admin)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    made: Any = UserScramCredentialUpsertion(USER, credential, password(USER).encode())
    _finish(admin.alter_user_scram_credentials([made]))
    others = of_others(acls)
    _finish(admin.create_acls(_of_user()))
    while portion := list(islice(others, PORTION)):
        _finish(admin.create_acls(portion))


def _settings(bootstrap: str, authority: Authority | None) -> dict[str, Any]:
    protocol = {"security.protocol": "sasl_plaintext"}
    if authority is not None:
        protocol = {"security.protocol": "sasl_ssl", "ssl.ca.location": str(authority.file)}
    login = {"sasl.mechanism": MECHANISM, "sasl.username": ADMIN, "sasl.password": password(ADMIN)}
    return {"bootstrap.servers": bootstrap, "log_level": "2", **protocol, **login}


def _await_first_user(admin: AdminClient) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            admin.list_topics(timeout=5.0)
        except KafkaException as failure:
            if time.monotonic() > deadline:
                raise BenchFailed(f"the first user cannot connect: {failure}") from None
        else:
            return


def _finish(futures: Any) -> None:
    try:
        for future in futures.values():
            future.result(SECONDS)
    except KafkaException as failure:
        raise BenchFailed(f"users and ACLs were not created: {failure}") from None


def _of_user() -> list[AclBinding]:
    kinds = {ResourceType.TOPIC: "*", ResourceType.GROUP: "*", ResourceType.BROKER: "kafka-cluster"}
    return [
        _allow(USER, kind, name, AclOperation.ALL, ResourcePatternType.LITERAL)
        for kind, name in kinds.items()
    ]


def of_others(count: int) -> Iterator[AclBinding]:
    """Returns ACLs of 100 other users, half of them on prefixes."""
    for number in range(count):
        pattern = ResourcePatternType.PREFIXED if number % 2 else ResourcePatternType.LITERAL
        kind = ResourceType.GROUP if number % 3 == 0 else ResourceType.TOPIC
        yield _allow(f"user-{number % 100}", kind, f"name-{number}", AclOperation.READ, pattern)


def _allow(
    user: str, kind: ResourceType, name: str, operation: AclOperation, pattern: ResourcePatternType
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
