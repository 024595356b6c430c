import pytest

from sharebroker_server.coordinator_runtime.hashing import java_string_hash, shard_of


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("ab", 3105),
        ("hello", 99162322),
        ("Hello, World!", 1498789909),
        ("polygenelubricants", -(2**31)),
        ("é", 233),
        ("\u20ac", 8364),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
        ("\ud800", 0xD800),
    ],
)
def test_hash_equals_javas(text: str, hashed: int) -> None:
    assert java_string_hash(text) == hashed


@pytest.mark.parametrize(
    ("text", "shards", "shard"),
    [("", 50, 0), ("polygenelubricants", 50, 0), ("hello", 50, 22), ("hello", 1, 0)],
)
def test_shards(text: str, shards: int, shard: int) -> None:
    assert shard_of(text, shards) == shard


def test_the_absolute_value_of_the_least_hash_is_0() -> None:
    assert shard_of("polygenelubricants", 7) == 0  # 2**31 % 7 would be 2
