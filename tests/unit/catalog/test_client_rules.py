"""Commands about users, ACLs, quotas and features reach their rules."""

from __future__ import annotations

from sharebroker_server.catalog.acls import CreateAcl
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.client_rules import decide_client
from sharebroker_server.catalog.features import FeatureUpdate, UpdateFeatures
from sharebroker_server.catalog.quotas import AlterQuotas, QuotaChange, QuotaEntity, QuotaKey, QuotaRecord
from sharebroker_server.catalog.records import ClusterRecord
from sharebroker_server.catalog.users import CreateUser
from sharebroker_server.security.acl import binding


def test_each_command_has_the_records_of_its_rules() -> None:
    state = TopicCatalog()
    quota = AlterQuotas((("user", "alice"),), (QuotaChange("producer_byte_rate", 5.0),))
    expected = QuotaRecord(QuotaEntity("alice"), QuotaKey.PRODUCER_BYTE_RATE, 5.0)
    assert decide_client(state, quota, 1) == ((expected,), {})
    assert decide_client(state, CreateUser("alice", {}), 1)[1] == {}
    acl = binding(2, "orders", 3, "User:alice", "*", 3, 3)
    assert decide_client(state, CreateAcl(acl), 1)[1] == (acl,)
    state.apply(ClusterRecord("c", {"share.version": 1}), 1)
    update = UpdateFeatures((FeatureUpdate("share.version", 0, 2),), {})
    record = ClusterRecord("c", {"share.version": 0}, 2)
    assert decide_client(state, update, 1) == ((record,), record)
