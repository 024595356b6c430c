"""Values and messages with equal fields convert into each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.storage.v1 import share_state_pb2 as pb
from sharebroker_server.proto_values import Conversion, Mapped


class Batch(NamedTuple):
    first: int
    last_offset: int


@dataclass(frozen=True)
class Delta:
    name: str
    delta_index: int
    leader_epoch: int
    state_batches: tuple[Batch, ...] = ()


@dataclass(frozen=True)
class Heartbeat:
    group_id: str
    rack_id: str | None
    topics: tuple[str, ...] | None


@dataclass(frozen=True)
class Record:
    key: Key | None


class Key(NamedTuple):
    group_id: str
    partition: int


class Names(NamedTuple):
    names: tuple[str, ...]


BATCH = Conversion(Batch, pb.ShareStateBatch, {"first": "first_offset"})
DELTA = Conversion(Delta, pb.ShareDelta, {"state_batches": Mapped(nested=BATCH)}, absent=-1)
TOPICS = Mapped(
    "subscribed_topic_names",
    encode=lambda topics: {"names": topics},
    decode=lambda topics: tuple(topics.names),
)
HEARTBEAT = Conversion(Heartbeat, groups.ShareGroupHeartbeatRequest, {"topics": TOPICS})
RECORD = Conversion(
    Record, pb.ShareStateRecord, {"key": Mapped(nested=Conversion(Key, pb.SharePartitionKey))}
)
NAMES = Conversion(Names, groups.TopicNames)
HEARTBEATS = [Heartbeat("g", None, None), Heartbeat("g", "", ()), Heartbeat("g", "r", ("a", "b"))]


def test_fields_of_equal_name_and_renamed_fields_are_converted() -> None:
    message = BATCH.message(Batch(3, 5))
    assert (message.first_offset, message.last_offset) == (3, 5)
    assert BATCH.value(message) == Batch(3, 5)


def test_missing_fields_are_filled_by_the_caller() -> None:
    message = DELTA.message(Delta("a", 7, 2), write_timestamp_ms=9)
    assert (message.delta_index, message.write_timestamp_ms) == (7, 9)
    assert DELTA.value(message, name="b") == Delta("b", 7, 2)


def test_content_from_the_caller_replaces_a_field() -> None:
    assert DELTA.message(Delta("a", 7, 2), delta_index=8).delta_index == 8


def test_nested_values_are_converted_one_by_one() -> None:
    delta = Delta("a", 7, 2, (Batch(3, 5), Batch(6, 6)))
    message = DELTA.message(delta)
    assert [batch.first_offset for batch in message.state_batches] == [3, 6]
    assert DELTA.value(message, name="a") == delta


@pytest.mark.parametrize("epoch", [-1, 0, 4])
def test_the_absent_value_is_not_written(epoch: int) -> None:
    message = DELTA.message(Delta("a", 7, epoch))
    assert message.HasField("leader_epoch") == (epoch != -1)
    assert DELTA.value(message, name="a").leader_epoch == epoch


@pytest.mark.parametrize("heartbeat", HEARTBEATS)
def test_optional_fields_keep_absence_and_emptiness_apart(heartbeat: Heartbeat) -> None:
    message = HEARTBEAT.message(heartbeat)
    assert message.HasField("rack_id") == (heartbeat.rack_id is not None)
    assert HEARTBEAT.value(message) == heartbeat


@pytest.mark.parametrize("record", [Record(None), Record(Key("g", 0))])
def test_a_nested_message_may_be_absent(record: Record) -> None:
    message = RECORD.message(record)
    assert message.HasField("key") == (record.key is not None)
    assert RECORD.value(message) == record


@pytest.mark.parametrize(
    ("conversion", "value"),
    [
        (BATCH, Batch(0, 5)),
        (DELTA, Delta("a", 7, -1)),
        (DELTA, Delta("a", 0, 0, (Batch(3, 5), Batch(6, 6)))),
        *((HEARTBEAT, heartbeat) for heartbeat in HEARTBEATS),
        (RECORD, Record(None)),
        (RECORD, Record(Key("", 0))),
        (NAMES, Names(("a", ""))),
    ],
)
def test_filling_a_message_equals_creating_it(conversion: Conversion[Any, Any], value: Any) -> None:
    message = conversion.message_type()
    conversion.fill(message, value)
    assert message == conversion.message(value)
    assert message.SerializeToString(deterministic=True) == conversion.message(value).SerializeToString(
        deterministic=True
    )
