"""Keys of share-partitions, and which initialisations keep existing state."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.share_coordinator.core.commands import Initialize, make_key
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint, ShareState
from tests.testkit.tables import each
from tests.unit.share_coordinator.harness import KEY


@pytest.mark.parametrize(
    ("start_offset", "keep_existing", "since_epoch", "keeps"),
    [
        (0, False, 0, False),
        (0, True, 0, True),
        (-1, False, 0, True),
        (-1, False, 3, True),
        (-1, False, 4, False),
        (0, True, 4, False),
    ],
)
def test_state_of_a_deleted_group_never_remains(
    start_offset: int, keep_existing: bool, since_epoch: int, keeps: bool
) -> None:
    state = ShareState.of(ShareCheckpoint(KEY, 0, 3, 1, 7, 0, 5, 5, ()), 1, -1)
    command = Initialize(KEY, 5, start_offset, keep_existing, since_epoch=since_epoch)
    assert command.keeps(state) is keeps


TOPIC = "AQIDBAUGBwgJCgsMDQ4PEA"


@pytest.mark.parametrize(
    "group", ["G1", "a:b", "::", ":", "a:AQIDBAUGBwgJCgsMDQ4PEA:3", "ünï", " ", "x" * 249, "ü" * (2**14 - 1)]
)
@each("partition", [0, 1, 49, 2**31 - 1])
def test_key_text_of_any_group_is_hashed(group: str, partition: int) -> None:
    key = make_key(group, TOPIC, partition)
    assert key == SharePartitionKey(group, TOPIC, partition)
    assert str(key) == f"{group}:{TOPIC}:{partition}"


@each(
    "group, topic, partition, field",
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
def test_error_names_the_invalid_field(group: str, topic: str, partition: int, field: str) -> None:
    with pytest.raises(KafkaError) as refused:
        make_key(group, topic, partition)
    assert [violation.field for violation in refused.value.violations] == [field]
