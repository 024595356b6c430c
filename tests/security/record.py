"""`python -m tests.security.record`: sends the requests of all cases to a real Kafka 4.3.1.

Writes the responses with its StandardAuthorizer to `kafka_responses.json`, which `make test` compares with
ours; with `--check` it compares Kafka's with that file. Each case has a user of its own, with ACLs that allow
everything and deny what the case denies.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typing_extensions import override

from sharebroker_server.security.acl import CLUSTER, AclResourceType
from tests.security.cases import Case, all_cases
from tests.security.observed import find_coordinators, observe, topic_ids
from tests.support.kafka_client import KafkaClient, connected, part
from tests.support.kafka_server import KafkaCluster, Node
from tests.testkit.sasl import plain

RESPONSES: Final = Path(__file__).with_name("kafka_responses.json")
ADMIN, PASSWORD = "admin", "p"
_ALL, _LITERAL, _DENY, _ALLOW = 2, 3, 2, 3


class SecuredKafka(KafkaCluster):
    """One broker whose clients authenticate with SASL PLAIN; other nodes and `admin` are super users."""

    def __init__(self, folder: Path, users: Sequence[str]) -> None:
        self._users = users
        super().__init__(folder, properties={"auto.create.topics.enable": "false"})

    @override
    def _broker_properties(self, node: Node) -> dict[str, object]:
        given = super()._broker_properties(node)
        known = " ".join(f'user_{name}="{PASSWORD}"' for name in (ADMIN, *self._users))
        controller = str(given["listeners"]).partition(",")[2]
        clients = f"SASL_PLAINTEXT://127.0.0.1:{node.port}"
        return {
            **given,
            "listeners": f"{clients},{controller}",
            "advertised.listeners": clients,
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'username="{ADMIN}" password="{PASSWORD}" {known};'
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{ADMIN}",
        }


async def authenticate(client: KafkaClient, user: str) -> None:
    """Authenticates a connection with SASL PLAIN."""
    assert (await client.ask(17, 1, mechanism="PLAIN")).error_code == 0
    assert (await client.ask(36, 2, auth_bytes=plain(user, PASSWORD))).error_code == 0


async def grant(admin: KafkaClient, users: Sequence[str], cases: Sequence[Case]) -> None:
    """Creates the ACLs of all cases and waits until the broker has them."""
    acls: list[Any] = []
    for user, case in zip(users, cases, strict=True):
        for kind in AclResourceType:
            name = CLUSTER.name if kind is CLUSTER.type else "*"
            acls.append(_acl(user, kind, name, _ALL, _ALLOW))
        acls += [_acl(user, kind, name, operation, _DENY) for operation, kind, name in case.denials]
    for first in range(0, len(acls), 200):
        created = await admin.ask(30, 3, creations=acls[first : first + 200])
        assert not any(one.error_code for one in created.results), created.results
    every = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    while True:
        listed = await admin.ask(29, 3, **every)
        if sum(len(resource.acls) for resource in listed.resources) >= len(acls):
            return
        await asyncio.sleep(0.1)


def _acl(user: str, kind: int, name: str, operation: int, permission: int) -> Any:
    return part(
        30,
        "AclCreation",
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=_LITERAL,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=permission,
    )


async def ask_all(address: str, cases: Sequence[Case], users: Sequence[str]) -> dict[str, list[str]]:
    """Returns the responses by the names of the cases."""
    async with connected(address) as admin:
        await authenticate(admin, ADMIN)
        ids = await topic_ids(admin)
        await find_coordinators(admin)
        await grant(admin, users, cases)
        responses = {}
        for user, case in zip(users, cases, strict=True):
            async with connected(address) as client:
                await authenticate(client, user)
                responses[case.name] = await observe(client, case, ids)
    return responses


def main(
    check: Annotated[bool, typer.Option(help="Compare with the file, and write nothing.")] = False,
) -> None:
    """Records Kafka's responses."""
    cases = all_cases()
    users = [f"u{number}" for number in range(len(cases))]
    with tempfile.TemporaryDirectory(prefix="sharebroker-security-") as folder:
        cluster = SecuredKafka(Path(folder) / "kafka", users)
        try:
            cluster.start()
            responses = asyncio.run(ask_all(cluster.bootstrap, cases, users))
        finally:
            cluster.stop()
    if not check:
        RESPONSES.write_text(json.dumps(responses, indent=1) + "\n")
        typer.echo(f"{len(responses)} responses in {RESPONSES.name}")
        return
    recorded = json.loads(RESPONSES.read_text())
    different = [name for name in recorded | responses if recorded.get(name) != responses.get(name)]
    for name in different:
        typer.echo(f"{name}\n  recorded: {recorded.get(name)}\n  Kafka: {responses.get(name)}")
    typer.echo(f"{len(responses)} responses of Kafka, {len(different)} of them differ from {RESPONSES.name}")
    raise typer.Exit(bool(different))


if __name__ == "__main__":
    typer.run(main)
