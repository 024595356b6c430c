"""Decisions by random ACLs equal those of Kafka's StandardAuthorizer.

ACLS is the number of sets of ACLs; `make security` compares 10,000.
"""

from __future__ import annotations

import os
from random import Random

from sharebroker_server.security.acl import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    Requester,
    Resource,
)
from sharebroker_server.security.acl_authorizer import AclAuthorizer
from sharebroker_server.security.acl_rules import AclRules
from sharebroker_server.security.principal import Principal
from tests.support.kafka_tools import needs_kafka, run_program

SETS = int(os.environ.get("ACLS", "500"))
SECONDS = 300.0
PER_SET = 12

NAMES = ("a", "ab", "abc", "abd", "b", "hardcode", "é", "*", "a*")
USERS = ("ann", "bob", "root")
HOSTS = ("10.0.0.1", "10.0.0.2")
KINDS = (AclResourceType.TOPIC, AclResourceType.GROUP)

pytestmark = needs_kafka


class _Acls:
    """A random set of ACLs."""

    def __init__(self, random: Random) -> None:
        few = random.sample(list(AclOperation), 4)  # few operations, so that ACLs meet
        self.operations = few
        self.acls = AclRules(
            AclBinding(
                random.choice(KINDS),
                random.choice(NAMES),
                random.choice(list(PatternType)),
                random.choice((*(f"User:{user}" for user in USERS), "User:*")),
                random.choice((*HOSTS, "*", "*", "*")),
                random.choice((*few, AclOperation.ALL)),
                random.choice(list(AclPermissionType)),
            )
            for _ in range(random.randint(0, 9))
        )

    def is_super_user(self, name: str) -> bool:
        return False


def test_decisions_equal_kafkas() -> None:
    random = Random(77)
    lines: list[str] = []
    ours: list[tuple[str, bool]] = []
    for number in range(SETS):
        source, default = _Acls(random), random.random() < 0.3
        lines.append(_line("S", "User:root", str(default).lower()))
        acls = list(source.acls.select(AclFilter()))
        lines += [_line("A", *acl) for acl in acls]
        authorizer = AclAuthorizer(source, super_users=["User:root"], default=default)
        for _ in range(PER_SET):
            user, host, kind = random.choice(USERS), random.choice(HOSTS), random.choice(KINDS)
            operation = random.choice((*source.operations, AclOperation.DESCRIBE))
            if operation is AclOperation.ALL:
                continue
            requester, name = Requester(Principal(user), host), random.choice(NAMES)
            lines.append(_line("Q", user, host, operation, kind, name))
            context = f"set {number}, {acls}, default {default}: {lines[-1]!r}"
            ours.append((context, authorizer.allows(requester, operation, Resource(kind, name))))
            lines.append(_line("T", user, host, operation, kind))
            ours.append((f"{context} by type", authorizer.allows_any(requester, operation, kind)))
    kafkas = run_program("AclDecisions", stdin="".join(lines), timeout=SECONDS).checked().lines
    assert len(kafkas) == len(ours)
    different = [
        context for (context, mine), theirs in zip(ours, kafkas, strict=True) if mine != (theirs == "1")
    ]
    assert not different[:3], f"{len(different)} of {len(ours)}"
    assert {mine for _, mine in ours} == {True, False}


def _line(*fields: str | int) -> str:
    return "\t".join(field if isinstance(field, str) else str(int(field)) for field in fields) + "\n"
