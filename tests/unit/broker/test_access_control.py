"""Access by settings: nothing, authentication, ACLs; a cluster that denies everything says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.access_control import AccessControl
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.catalog.acls import AclRecord
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import CatalogRecord
from sharebroker_server.catalog.users import CreateUser, ScramCredentialRecord
from sharebroker_server.config.broker import STANDARD_AUTHORIZER, BrokerConfig
from sharebroker_server.rpc.tls import TlsFiles
from sharebroker_server.security.acl import CLUSTER, AclOperation, Requester, binding
from sharebroker_server.security.acl_authorizer import AclAuthorizer
from sharebroker_server.security.authentication.scram import ScramCredential, ScramMechanism
from sharebroker_server.security.authorizer import ALLOW_ALL
from sharebroker_server.security.principal import Principal
from tests.testkit.memory.stream_log import MemoryStreamLog

SHA_256 = ScramMechanism.SCRAM_SHA_256
CREDENTIAL = ScramCredential(b"salt", b"a", b"b", 4096)
SUPER = ScramCredentialRecord("alice", SHA_256, CREDENTIAL, super_user=True)
ACLS = f"authorizer.class.name={STANDARD_AUTHORIZER}"
ACL = binding(4, "kafka-cluster", 3, "User:bob", "*", 8, 3)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as made:
        yield made


def settings(
    *properties: str, first_user: CreateUser | None = None, tls: TlsFiles | None = None
) -> ServeSettings:
    return ServeSettings(config=BrokerConfig.parse(properties), first_user=first_user, tls=tls)


def cache(*records: CatalogRecord) -> MetadataCache:
    made = MetadataCache(MemoryStreamLog(), BrokerConfig())
    for position, record in enumerate(records, 1):
        made.catalog.apply(record, position)
    return made


def test_without_settings_everything_is_allowed(stack: AsyncExitStack) -> None:
    access = AccessControl(settings(), stack)
    access.open(cache())
    assert (access.authentication.authenticator, access.authorizer) == (None, ALLOW_ALL)


def test_mechanisms_authenticate_users_of_the_catalog(stack: AsyncExitStack) -> None:
    access = AccessControl(settings("sasl.enabled.mechanisms=SCRAM-SHA-256"), stack)
    access.open(cache(SUPER))
    authenticator = access.authentication.authenticator
    assert authenticator is not None
    assert authenticator.users.credentials("alice") == {SHA_256: CREDENTIAL}


def may(access: AccessControl, name: str, operation: AclOperation) -> bool:
    return access.authorizer.allows(Requester(Principal(name), "10.0.0.7"), operation, CLUSTER)


def test_acls_and_super_users_decide(stack: AsyncExitStack) -> None:
    access = AccessControl(settings(ACLS, "super.users=User:root"), stack)
    access.open(cache(SUPER, AclRecord(ACL)))
    assert isinstance(access.authorizer, AclAuthorizer)
    operations = AclOperation.DESCRIBE, AclOperation.ALTER
    allowed = {
        name: [may(access, name, one) for one in operations] for name in ("root", "alice", "bob", "eve")
    }
    assert allowed == {
        "root": [True, True],
        "alice": [True, True],
        "bob": [True, False],
        "eve": [False, False],
    }


def test_brokers_may_do_cluster_action_only(stack: AsyncExitStack) -> None:
    tls = TlsFiles(Path("certificate"), Path("key"), Path("ca"), True, None)
    mapping = "ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/"
    access = AccessControl(
        settings(ACLS, "broker.principals=CN=a", "ssl.client.auth=required", mapping, tls=tls), stack
    )
    access.open(cache())
    assert may(access, "a", AclOperation.CLUSTER_ACTION)
    assert not may(access, "a", AclOperation.ALTER)
    assert not may(access, "CN=a", AclOperation.CLUSTER_ACTION)


def test_everyone_is_allowed_without_acls_if_configured(stack: AsyncExitStack) -> None:
    access = AccessControl(settings(ACLS, "allow.everyone.if.no.acl.found=true"), stack)
    with capture_logs() as logs:
        access.open(cache())
    assert may(access, "eve", AclOperation.ALTER)
    assert logs == []


@pytest.mark.parametrize(
    ("properties", "first_user", "records", "warns"),
    [
        ([ACLS], None, [], True),
        ([ACLS, "super.users=User:a"], None, [], False),
        ([ACLS], CreateUser("a", {}), [], False),
        ([ACLS], None, [SUPER], False),
        ([ACLS], None, [AclRecord(ACL)], False),
        ([], None, [], False),
    ],
)
def test_a_cluster_that_denies_everything_warns(
    stack: AsyncExitStack,
    properties: list[str],
    first_user: CreateUser | None,
    records: list[CatalogRecord],
    warns: bool,
) -> None:
    access = AccessControl(settings(*properties, first_user=first_user), stack)
    with capture_logs() as logs:
        access.open(cache(*records))
    assert ["--admin-user" in line["reason"] for line in logs] == [True] * warns


def test_invalid_settings_are_rejected(stack: AsyncExitStack) -> None:
    with pytest.raises(KafkaError, match=STANDARD_AUTHORIZER):
        settings("authorizer.class.name=com.example.Mine")
    with pytest.raises(KafkaError, match=r"super\.users"):
        AccessControl(settings("super.users=admin"), stack)
