from hypothesis import given, settings
from hypothesis import strategies as st

from sharebroker_server.coordinator_runtime.host import java_string_hash, shard_of


@settings(deadline=None)
@given(st.text())
def test_shard_equals_the_formula(text: str) -> None:
    data = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)]
    total = sum(unit * 31 ** (len(units) - 1 - place) for place, unit in enumerate(units))
    assert java_string_hash(text) == (total + 2**31) % 2**32 - 2**31


@settings(deadline=None)
@given(st.text(), st.integers(1, 200))
def test_every_key_has_a_shard(text: str, shards: int) -> None:
    assert 0 <= shard_of(text, shards) < shards
