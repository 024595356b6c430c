"""The index of ACLs decides like a list of them; it does so after any additions and removals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.security.acl import (
    ANY,
    MATCH,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    Resource,
)
from sharebroker_server.security.acl_rules import AclRules

HOSTS = ("10.0.0.1", "10.0.0.2")
PRINCIPALS = ("User:a", "User:b")
ALLOWED_BY = {
    AclOperation.DESCRIBE: {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER", "ALL"},
    AclOperation.DESCRIBE_CONFIGS: {"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"},
}

names = st.text("ab", min_size=1, max_size=4)
kinds = st.sampled_from((AclResourceType.TOPIC, AclResourceType.GROUP))
operations = st.sampled_from(AclOperation)
acls = st.builds(
    AclBinding,
    kinds,
    names | st.just("*"),
    st.sampled_from(PatternType),
    st.sampled_from((*PRINCIPALS, "User:*")),
    st.sampled_from((*HOSTS, "*", "10.0.0.0/31")),
    operations,
    st.sampled_from(AclPermissionType),
)
questions = st.tuples(st.sampled_from(PRINCIPALS), st.sampled_from(HOSTS), operations)


def about(acl: AclBinding, resource: Resource) -> bool:
    if acl.resource_type is not resource.type:
        return False
    if acl.pattern_type is PatternType.PREFIXED:
        return resource.name.startswith(acl.resource_name)
    return acl.resource_name in (resource.name, "*")


def of_requester(acl: AclBinding, principal: str, host: str) -> bool:
    in_range = acl.host == "10.0.0.0/31" and host == "10.0.0.1"
    return acl.principal in (principal, "User:*") and (acl.host in (host, "*") or in_range)


def naive(
    present: list[AclBinding], principal: str, host: str, operation: AclOperation, resource: Resource
) -> bool | None:
    near = [acl for acl in present if about(acl, resource)]
    mine = [acl for acl in near if of_requester(acl, principal, host)]
    denied = [
        acl
        for acl in mine
        if acl.permission_type is AclPermissionType.DENY and acl.operation.name in (operation.name, "ALL")
    ]
    allowing = ALLOWED_BY.get(operation, {operation.name, "ALL"})
    allowed = [
        acl
        for acl in mine
        if acl.permission_type is AclPermissionType.ALLOW and acl.operation.name in allowing
    ]
    return (bool(allowed) and not denied) if near else None


@given(st.lists(acls, max_size=12), st.lists(st.integers(0, 11)), questions, kinds, names | st.just("*"))
def test_index_decides_like_a_list(
    added: list[AclBinding],
    removed: list[int],
    question: tuple[str, str, AclOperation],
    kind: AclResourceType,
    name: str,
) -> None:
    rules, present = AclRules(added), list(dict.fromkeys(added))
    for index in removed:
        if index < len(added):
            rules.remove(added[index])
            present = [acl for acl in present if acl != added[index]]
    resource = Resource(kind, name)
    assert rules.decide(*question, resource) is naive(present, *question, resource)
    assert len(rules) == len(present)


filters = st.builds(
    AclFilter,
    kinds | st.just(ANY),
    st.none() | names | st.just("*"),
    st.sampled_from((ANY, MATCH, *PatternType)),
    st.none() | st.sampled_from((*PRINCIPALS, "User:*")),
    st.none() | st.sampled_from((*HOSTS, "*")),
    operations | st.just(ANY),
    st.sampled_from((ANY, *AclPermissionType)),
)


@given(st.lists(acls, max_size=12), filters)
def test_index_selects_matching_acls(added: list[AclBinding], wanted: AclFilter) -> None:
    selected = list(AclRules(added).select(wanted))
    assert selected == [acl for acl in dict.fromkeys(added) if wanted.matches(acl)]
