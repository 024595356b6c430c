import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.share_coordinator.core.key import make_key

TOPIC = "AQIDBAUGBwgJCgsMDQ4PEA"


@pytest.mark.parametrize(
    "group", ["G1", "a:b", "::", ":", "a:AQIDBAUGBwgJCgsMDQ4PEA:3", "ünï", " ", "x" * 249, "ü" * (2**14 - 1)]
)
@pytest.mark.parametrize("partition", [0, 1, 49, 2**31 - 1])
def test_the_text_that_is_hashed_whatever_the_group(group: str, partition: int) -> None:
    key = make_key(group, TOPIC, partition)
    assert key == SharePartitionKey(group, TOPIC, partition)
    assert str(key) == f"{group}:{TOPIC}:{partition}"


@pytest.mark.parametrize(
    ("group", "topic", "partition", "field"),
    [
        ("", TOPIC, 0, "group_id"),
        ("x" * 2**15, TOPIC, 0, "group_id"),
        ("ü" * 2**14, TOPIC, 0, "group_id"),
        ("g", "", 0, "topic_id"),
        ("g", "A" * 22, 0, "topic_id"),
        ("g", TOPIC[:-1], 0, "topic_id"),
        ("g", TOPIC + "A", 0, "topic_id"),
        ("g", TOPIC + "\n", 0, "topic_id"),
        ("g", TOPIC[:-1] + "=", 0, "topic_id"),
        ("g", TOPIC[:-1] + "+", 0, "topic_id"),
        ("g", TOPIC, -1, "partition"),
        ("g", TOPIC, 2**31, "partition"),
    ],
)
def test_which_field_is_wrong(group: str, topic: str, partition: int, field: str) -> None:
    with pytest.raises(KafkaError) as refused:
        make_key(group, topic, partition)
    assert [violation.field for violation in refused.value.violations] == [field]
