"""The view reads users and ACLs of the current catalog, also after a reload replaced it."""

from __future__ import annotations

from sharebroker_server.catalog.access_view import AccessView
from sharebroker_server.catalog.acls import AclRecord
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.users import ScramCredentialRecord
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.security.acl import binding
from sharebroker_server.security.authentication.scram import ScramCredential, ScramMechanism
from tests.testkit.memory.stream_log import MemoryStreamLog

SHA_256 = ScramMechanism.SCRAM_SHA_256
CREDENTIAL = ScramCredential(b"salt", b"a", b"b", 4096)
ACL = binding(2, "orders", 3, "User:alice", "*", 3, 3)


def test_users_and_acls() -> None:
    cache = MetadataCache(MemoryStreamLog(), BrokerConfig())
    view = AccessView(cache)
    assert (view.credentials("alice"), view.any_credential(SHA_256)) == ({}, None)
    assert (view.is_super_user("alice"), len(view.acls)) == (False, 0)
    replacement = TopicCatalog()
    replacement.apply(ScramCredentialRecord("alice", SHA_256, CREDENTIAL, super_user=True), 1)
    replacement.apply(AclRecord(ACL), 2)
    cache.catalog = replacement
    assert (view.credentials("alice"), view.any_credential(SHA_256)) == ({SHA_256: CREDENTIAL}, CREDENTIAL)
    assert (view.is_super_user("alice"), ACL in view.acls) == (True, True)
