"""Holders: whoever holds a record, its member can be told, and nobody can pass for another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.share_partition_leader.core.in_flight import DELAYED_RELEASE
from sharebroker_server.share_partition_leader.partition.lock_holders import (
    member_of,
    of_member,
    of_new_stream,
)

MEMBERS = st.text(st.sampled_from("a1@\n\0é"), max_size=8) | st.text(max_size=36)


@given(MEMBERS)
def test_the_member_can_be_told_from_each_of_its_holders(member: str) -> None:
    assert member_of(of_member(member)) == member
    assert member_of(of_new_stream(member)) == member


@given(MEMBERS, MEMBERS)
def test_no_member_id_passes_for_another_holder(one: str, other: str) -> None:
    streams = {of_new_stream(one), of_new_stream(one), of_new_stream(other)}
    assert len(streams) == 3
    assert not streams & {of_member(one), of_member(other)}
    assert (of_member(one) == of_member(other)) is (one == other)


def test_what_was_released_for_later_is_held_by_no_member() -> None:
    assert DELAYED_RELEASE not in {of_member(""), of_member("m"), of_new_stream("")}
    assert member_of(DELAYED_RELEASE) == ""
