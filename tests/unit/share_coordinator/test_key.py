import pytest

from services.share_coordinator.core.key import ShareKey, make_key, parse_key
from sharebroker.errors import ErrorCode, KafkaError

TOPIC = "AQIDBAUGBwgJCgsMDQ4PEA"


@pytest.mark.parametrize(
    "group", ["G1", "a:b", "::", ":", "a:AQIDBAUGBwgJCgsMDQ4PEA:3", "ünï", " ", "x" * 249]
)
@pytest.mark.parametrize("partition", [0, 1, 49, 2**31 - 1])
def test_text_and_back_whatever_the_group(group: str, partition: int) -> None:
    key = ShareKey(group, TOPIC, partition)
    assert key.text == f"{group}:{TOPIC}:{partition}"
    assert parse_key(key.text) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "::",
        "group",
        f"group:{TOPIC}",
        f":{TOPIC}:0",
        f"group:{TOPIC}:",
        f"group:{TOPIC}:-1",
        f"group:{TOPIC}:x",
        f"group:{TOPIC}:1 ",
        f"group:{TOPIC}:²",
        f"group:{TOPIC}:2147483648",
        f"group:{TOPIC}:99999999999",
        "group::0",
        f"group:{TOPIC[:-1]}:0",
        f"group:{TOPIC}A:0",
        f"group:{TOPIC[:-1]}=:0",
        f"group:{TOPIC[:-1]}+:0",
        f"group:{'A' * 22}:0",
    ],
)
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_key(text)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.violations


@pytest.mark.parametrize(
    ("group", "topic", "partition", "field"),
    [
        ("", TOPIC, 0, "group_id"),
        ("g", "", 0, "topic_id"),
        ("g", "A" * 22, 0, "topic_id"),
        ("g", TOPIC, -1, "partition"),
        ("g", TOPIC, 2**31, "partition"),
    ],
)
def test_which_field_is_wrong(group: str, topic: str, partition: int, field: str) -> None:
    with pytest.raises(KafkaError) as refused:
        make_key(group, topic, partition)
    assert [violation.field for violation in refused.value.violations] == [field]
