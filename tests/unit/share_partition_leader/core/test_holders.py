"""Holders of locks: a member id and a principal can neither be lost nor imitate another holder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import LONGEST_HOLDER
from sharebroker_server.share_partition_leader.core.runs import (
    MAX_CACHED_PRINCIPALS,
    encoded_principal,
    is_held_by,
    member_holder,
    member_of,
    principal_of,
    stream_holder,
)

MEMBERS = st.text(st.sampled_from("a1@\n\0é"), max_size=8) | st.text(max_size=36)


PRINCIPALS = st.just("") | st.text(st.sampled_from("a1@/%\n\0é:"), max_size=8).map("User:{}".format)


@given(MEMBERS, PRINCIPALS)
def test_every_holder_contains_its_member_and_its_principal(member: str, principal: str) -> None:
    for holder in (member_holder(member, principal), stream_holder(7, member, principal)):
        assert member_of(holder) == member
        assert principal_of(holder) == principal


@given(st.tuples(MEMBERS, PRINCIPALS), st.tuples(MEMBERS, PRINCIPALS))
def test_only_the_same_member_of_the_same_principal_is_the_same_holder(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert (member_holder(*one) == member_holder(*other)) is (one == other)
    assert is_held_by(stream_holder(7, *one), *other) is (one == other)
    assert is_held_by(member_holder(*one), other[0], None) is (one[0] == other[0])


def test_without_authentication_a_holder_contains_no_principal() -> None:
    assert member_holder("m", "User:ANONYMOUS") == member_holder("m") == "@m"


@given(MEMBERS, MEMBERS)
def test_no_member_id_equals_a_session_holder(one: str, other: str) -> None:
    streams = {stream_holder(1, one), stream_holder(2, one), stream_holder(3, other)}
    assert len(streams) == 3
    assert not streams & {member_holder(one), member_holder(other)}
    assert (member_holder(one) == member_holder(other)) is (one == other)


@pytest.mark.parametrize("holder", [member_holder, partial(stream_holder, 7)])
def test_a_holder_that_could_not_be_stored_is_rejected(holder: Callable[[str, str], str]) -> None:
    spare = LONGEST_HOLDER - len(holder("m", "User:é"))
    assert len(holder("m" * (spare + 1), "User:é")) == LONGEST_HOLDER
    with pytest.raises(KafkaError, match=f"{LONGEST_HOLDER + 1} characters") as refused:
        holder("m" * (spare + 2), "User:é")
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in refused.value.violations] == ["member_id"]


def test_a_limited_number_of_encoded_principals_is_cached() -> None:
    holders = {member_holder("m", f"User:{number}") for number in range(MAX_CACHED_PRINCIPALS + 10)}
    assert len(holders) == MAX_CACHED_PRINCIPALS + 10
    assert encoded_principal.cache_info().currsize == MAX_CACHED_PRINCIPALS
