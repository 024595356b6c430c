"""Changes of ACLs: each has its own result, many are deleted in portions, requests are bounded."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog import acls as rules
from sharebroker_server.catalog.machine import CatalogCommand, CatalogMachine, CatalogReply
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.service import access_changes as module
from sharebroker_server.group_coordinator.service.access_changes import (
    alter_users,
    create_acls,
    delete_acls,
)
from sharebroker_server.security.acl import AclFilter, binding


class Owner:
    """The owner of the catalog. It raises `failure` if that is an error of the call."""

    def __init__(self) -> None:
        self.machine = CatalogMachine(BrokerConfig.parse(()))
        self.position = 0
        self.commands = 0
        self.failure: KafkaError | None = None

    async def write(self, command: CatalogCommand) -> CatalogReply | KafkaError:
        self.commands += 1
        if self.failure is not None:
            return self.failure
        try:
            decision = self.machine.decide(command, 0.0)
        except KafkaError as error:
            return error
        for record in decision.records:
            self.position += 1
            self.machine.apply(record, self.position)
        return decision.reply

    @property
    def names(self) -> list[str]:
        return [acl.resource_name for acl in self.machine.catalog.acls.select(AclFilter())]


@pytest.fixture
def owner() -> Owner:
    return Owner()


def creations(names: Iterable[str]) -> pb.CreateAclsRequest:
    return pb.CreateAclsRequest(
        creations=[
            pb.CreateAclsRequest.Creation(
                resource_type=pb.ACL_RESOURCE_TYPE_TOPIC,
                resource_name=name,
                resource_pattern_type=pb.PATTERN_TYPE_LITERAL,
                principal="User:alice",
                host="*",
                operation=pb.ACL_OPERATION_READ,
                permission_type=pb.ACL_PERMISSION_TYPE_ALLOW,
            )
            for name in names
        ]
    )


def deletions(*names: str | None) -> pb.DeleteAclsRequest:
    return pb.DeleteAclsRequest(
        filters=[
            pb.DeleteAclsRequest.Filter(
                resource_type_filter=pb.ACL_RESOURCE_TYPE_ANY,
                resource_name_filter=name,
                pattern_type_filter=pb.PATTERN_TYPE_ANY,
                operation=pb.ACL_OPERATION_ANY,
                permission_type=pb.ACL_PERMISSION_TYPE_ANY,
            )
            for name in names
        ]
    )


async def test_each_acl_has_its_own_result(owner: Owner) -> None:
    response = await create_acls(creations(["a", "", "b", "a"]), owner.write)
    assert [one.error_code for one in response.results] == [0, ErrorCode.INVALID_REQUEST, 0, 0]
    assert response.results[1].error_message == "Invalid empty resource name"
    assert owner.names == ["a", "b"]


async def test_too_many_acls_have_an_error_each(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_ACLS", 2)
    response = await create_acls(creations("abc"), owner.write)
    assert [one.error_code for one in response.results] == [0, 0, ErrorCode.POLICY_VIOLATION]


async def test_each_filter_has_its_deleted_acls(owner: Owner) -> None:
    await create_acls(creations("abc"), owner.write)
    request = deletions("a", "none", None)
    request.filters.add()
    response = await delete_acls(request, owner.write)
    deleted = [[acl.resource_name for acl in one.matching_acls] for one in response.filter_results]
    assert deleted == [["a"], [], ["b", "c"], []]
    last = response.filter_results[-1]
    assert (int(last.error_code), last.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    acl = response.filter_results[0].matching_acls[0]
    assert (acl.principal, acl.host, acl.pattern_type, acl.operation) == ("User:alice", "*", 3, 3)
    assert owner.names == []


async def test_many_acls_are_deleted_in_portions(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (rules, module):
        monkeypatch.setattr(place, "MAX_DELETED_AT_ONCE", 2)
    await create_acls(creations("abcde"), owner.write)
    owner.commands = 0
    response = await delete_acls(deletions(None), owner.write)
    assert [acl.resource_name for acl in response.filter_results[0].matching_acls] == list("abcde")
    assert (owner.commands, owner.names) == (3, [])


async def test_an_error_of_the_catalog_is_that_of_the_part(owner: Owner) -> None:
    owner.failure = KafkaError(ErrorCode.POLICY_VIOLATION, "full")
    created = await create_acls(creations("a"), owner.write)
    deleted = await delete_acls(deletions(None), owner.write)
    assert int(created.results[0].error_code) == ErrorCode.POLICY_VIOLATION
    assert int(deleted.filter_results[0].error_code) == ErrorCode.POLICY_VIOLATION


async def test_requests_are_bounded(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MAX_CREATIONS", "MAX_FILTERS", "MAX_ALTERATIONS"):
        monkeypatch.setattr(module, limit, 1)
    deletion = pb.AlterUserScramCredentialsRequest.Deletion(name="a")
    for call in (
        create_acls(creations("ab"), owner.write),
        delete_acls(deletions("a", "b"), owner.write),
        alter_users(pb.AlterUserScramCredentialsRequest(deletions=[deletion, deletion]), owner.write),
    ):
        with pytest.raises(KafkaError, match="at most 1") as caught:
            await call
        assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert owner.commands == 0


async def test_a_created_acl_has_the_fields_of_the_request(owner: Owner) -> None:
    await create_acls(creations("a"), owner.write)
    assert list(owner.machine.catalog.acls.select(AclFilter())) == [
        binding(2, "a", 3, "User:alice", "*", 3, 3)
    ]
