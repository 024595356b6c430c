"""Summaries of groups, from what the server lists and describes."""

from __future__ import annotations

from sharebroker.admin_model import (
    ConsumerGroupDescription,
    ConsumerMember,
    ConsumerOffset,
    GroupDescription,
    GroupListing,
    GroupOffset,
    MemberDescription,
)
from sharebroker.cli.group_overview import (
    GroupOverview,
    age,
    consumer_facts,
    groups_view,
    overview,
    overview_row,
)
from sharebroker.cli.output import console
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition
from tests.testkit.tables import each

LISTED = GroupListing("g", "Stable")
MEMBER = MemberDescription("m", 1, "c", "h", frozenset({"t"}), {})
DESCRIBED = GroupDescription("g", "Stable", 3, 3, "simple", (MEMBER, MEMBER))
PLACES = [TopicPartition("t", number) for number in range(3)]
OFFSETS = {
    PLACES[0]: GroupOffset(0, 5, 1, ready=3, locked=2, waiting=0, archiving=0, oldest=40.0),
    PLACES[1]: GroupOffset(0, 7, 1, ready=7, locked=0, waiting=0, archiving=0, oldest=20.0),
    PLACES[2]: GroupOffset(None, None, 0),
}
CONSUMERS = ConsumerGroupDescription(
    "c",
    "Stable",
    "range",
    (ConsumerMember("m", "c", "/h"),),
    {PLACES[0]: ConsumerOffset(4, 6), PLACES[1]: ConsumerOffset(1, None)},
)
FAILED = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "no")


def test_share_group_adds_up_its_partitions() -> None:
    found = overview(LISTED, DESCRIBED, OFFSETS)
    assert found.lags == {PLACES[0]: 5, PLACES[1]: 7}
    assert overview_row(found, 100.0) == {
        "group": "g",
        "type": "share",
        "state": "Stable",
        "members": 2,
        "lag": 12,
        "ready": 10,
        "locked": 2,
        "oldest_age_s": 80.0,
    }


def test_consumer_group_has_members_and_a_lag() -> None:
    found = overview(GroupListing("c", "Stable", "classic"), CONSUMERS, None)
    assert (found.group_type, found.members, found.lag) == ("consumer", 1, 6)
    assert (found.ready, found.locked, found.oldest) == (None, None, None)
    assert consumer_facts(CONSUMERS)["lag"] == 6


def test_unreadable_parts_of_a_group_are_unknown() -> None:
    found = overview(LISTED, FAILED, FAILED)
    assert (found.members, found.lag, found.ready, found.oldest) == (None, None, None, None)
    assert overview(LISTED, DESCRIBED, FAILED).members == 2
    assert overview(LISTED, FAILED, OFFSETS).lag == 12
    assert overview(LISTED, DESCRIBED, {}).lag == 0


def test_the_lag_of_a_group_that_has_read_nothing_is_unknown() -> None:
    found = overview(LISTED, DESCRIBED, {PLACES[2]: OFFSETS[PLACES[2]]})
    assert (found.members, found.lag, found.ready, found.locked) == (2, None, None, None)
    shown = console()
    with shown.capture() as captured:
        shown.print(groups_view([overview_row(found, 100.0)]))
    assert captured.get().splitlines()[1].split() == ["g", "share", "Stable", "2", "-", "-", "-", "-"]


def test_age_of_a_record_of_the_future_is_zero() -> None:
    group = GroupOverview("g", "share", "Stable", 1, {}, 0, 0, 200.0)
    assert overview_row(group, 100.0)["oldest_age_s"] == 0.0


@each(
    "seconds, shown",
    [
        (None, None),
        (0.0, "0.0 s"),
        (59.94, "59.9 s"),
        (60.0, "1 min 0 s"),
        (3_725.0, "1 h 2 min"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_age_has_two_units(seconds: float | None, shown: str | None) -> None:
    assert age(seconds) == shown


def test_groups_are_a_table() -> None:
    shown = console()
    with shown.capture() as captured:
        shown.print(groups_view([overview_row(overview(LISTED, DESCRIBED, OFFSETS), 100.0)]))
    heading, row = captured.get().splitlines()
    assert heading.split() == ["GROUP", "TYPE", "STATE", "MEMBERS", "LAG", "READY", "LOCKED", "OLDEST"]
    assert row.split() == ["g", "share", "Stable", "2", "12", "10", "2", "1", "min", "20", "s"]
