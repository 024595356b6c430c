"""Announcements of members."""

from __future__ import annotations

from sharebroker_server.leases.port import LEAVING, ClusterMember

MEMBER = ClusterMember("1/2", 1, frozenset({"gateway"}), "here:1", "here:2", "0.1.0", 0.5)


def test_a_leaving_member_keeps_its_roles_and_has_no_kafka_address() -> None:
    leaving = MEMBER.as_leaving()
    assert (leaving.is_leaving, leaving.is_dead, leaving.kafka) == (True, False, "")
    assert leaving.roles == {"gateway", LEAVING}


def test_a_dead_member_has_neither_roles_nor_address() -> None:
    dead = MEMBER.as_dead()
    assert (dead.owner, dead.is_dead, dead.is_leaving) == ("1/2", True, False)


def test_skew_does_not_change_a_member() -> None:
    assert ClusterMember("1/2", 1, frozenset({"gateway"}), "here:1", "here:2", "0.1.0", 9.0) == MEMBER
