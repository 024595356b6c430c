"""Redis Cluster: slots of keys, slot ranges and URLs with several hosts."""

from __future__ import annotations

import pytest

from sharebroker_server.leases import names
from sharebroker_server.redis_link.cluster import SlotRange, read_slots, slot_of
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.port import RedisUrlInvalid
from sharebroker_server.redis_link.server import Target

HERE = Target.parse("redis://:secret@here:7000")


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        ("123456789", 0x31C3),  # the check value of CRC16/XMODEM
        ("foo", 12182),
        (b"foo", 12182),
        ("a{foo}b", 12182),
        ("{foo}{bar}", 12182),
        ("{}foo", 9500),
        ("foo{", 7673),
        ("", 0),
    ],
)
def test_slot_of_a_key_equals_redis(key: str | bytes, slot: int) -> None:
    assert slot_of(key) == slot


@pytest.mark.parametrize("resource", [names.partition("topic", 3), names.shard("share-coordinator", 7)])
def test_keys_of_one_script_have_one_slot(resource: str) -> None:
    keys = Keys()
    together = [keys.lease(resource), keys.log(resource), keys.log(resource) + ":index", keys.meta(resource)]
    assert len({slot_of(key) for key in together}) == 1


def test_slot_ranges_are_read() -> None:
    reply = [
        [0, 9, [b"10.0.0.1", 7001, b"id", []], [b"10.0.0.2", 7002, b"id", []]],
        [10, 16383, [b"", 7000, b"id", []]],
        [11, 12, [None, 7003, b"id", []], [b"?", 7004, b"id", []]],
    ]
    assert list(read_slots(reply, HERE)) == [
        SlotRange(0, 9, HERE.at("10.0.0.1", 7001), (HERE.at("10.0.0.2", 7002),)),
        SlotRange(10, 16383, HERE, ()),
        SlotRange(11, 12, HERE.at("here", 7003), (HERE.at("here", 7004),)),
    ]
    assert HERE.at("there", 1).password == "secret"


def test_url_may_have_several_hosts() -> None:
    several = Target.parse_nodes("rediss://me:pw@one:7000,two,three:7002")
    assert [str(target) for target in several] == ["one:7000", "two:6379", "three:7002"]
    assert all(target.tls and target.user == "me" and target.password == "pw" for target in several)
    assert Target.parse_nodes("redis://one/3") == [Target.parse("redis://one/3")]
    assert Target.parse_nodes("unix:///tmp/socket") == [Target.parse("unix:///tmp/socket")]


@pytest.mark.parametrize("url", ["redis://one,two/3", "redis://one:x,two", "http://one,two"])
def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(RedisUrlInvalid):
        Target.parse_nodes(url)
