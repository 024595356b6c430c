"""Lists the fields that conversions leave out: a forgotten field would be lost without an error."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

from sharebroker_server.proto_values import Conversion
from tests.architecture.sources import name, python

LEFT_OUT = {
    # The key of a stored record is stored beside its content.
    ("CheckpointTombstone", "ShareCheckpointTombstone"): {"key"},
    ("CurrentRecord", "GroupCurrentMemberAssignment"): {"group_id", "member_id"},
    ("DeltaTombstone", "ShareDeltaTombstone"): {"key"},
    ("GroupRecord", "GroupMetadata"): {"group_id"},
    ("OffsetRecord", "GroupRecord"): {"partition"},
    ("ShareCheckpoint", "ShareCheckpoint"): {"key"},
    ("ShareCheckpoint", "Checkpoint"): {"key", "state_batches"},
    ("ShareDelta", "ShareDelta"): {"key"},
    # Inspection names the share-partition once, for all its records, and omits the journal.
    ("CheckpointTombstone", "LogRecord"): {"key"},
    ("DeltaTombstone", "LogRecord"): {"key"},
    ("ShareCheckpoint", "LogRecord"): {"failed", "kept_since", "key"},
    ("ShareDelta", "LogRecord"): {"failed", "key"},
    ("ShareState", "LogRecord"): {"last_delta_index", "delta_indices", "kept_since"},
    # Requests: the caller converts these fields, or they are of no use to the receiver.
    ("AckBatch", "Range"): {"token"},
    ("AckPart", "Partition"): {"blameless", "delay", "lock", "reason"},
    ("AddPartitions", "AddPartitionsToTxnRequest"): {"producer"},
    ("Committed", "Partition"): {"at_ms"},
    ("End", "EndTxnRequest"): {"producer"},
    ("Initialize", "PartitionData"): {"key"},
    ("Join", "JoinGroupRequest"): {"fresh_id", "reply_id"},
    ("ReadStaged", "ReadStagedVerdictsRequest"): {"producer"},
    ("Stage", "StageVerdictsRequest"): {"producer"},
    ("Sync", "SyncGroupRequest"): {"member", "reply_id"},
    ("VerifyPartitions", "AddPartitionsToTxnRequest"): {"producer"},
    ("Write", "PartitionData"): {"key"},
    # Only the share coordinator writes complete journals.
    ("JournalUpdate", "JournalUpdate"): {"complete"},
    # Responses: parts of the state that a client does not receive.
    ("HeartbeatReply", "ShareGroupHeartbeatResponse"): {"initialize", "pending"},
    ("Profile", "Member"): {"stream_id", "principal"},
    ("Staged", "ReadStagedVerdictsResponse"): {"batch", "producer_epoch"},
    ("ShareGroup", "DescribedGroup"): {
        "since_epoch", "metadata_hash", "revision", "topics", "_subscribed", "_covered"
    },
    ("Transaction", "Marker"): {
        "timeout_ms", "partitions", "last_producer_epoch", "previous_producer_id", "next_producer_id",
        "start_ms", "updated_ms", "version", "staged",
    },
}  # fmt: skip
STATES_OF_TRANSACTIONS = ("Transaction", "TransactionState")
"""Two messages of this name have different fields; a client receives only some of them."""


def test_conversions_omit_only_listed_fields() -> None:
    found = {pair: fields for pair, fields in left_out().items() if pair != STATES_OF_TRANSACTIONS}
    assert found == LEFT_OUT


def left_out() -> dict[tuple[str, str], set[str]]:
    """Returns the fields without a counterpart, by the names of the value and of the message."""
    for path in python("services", "libs/sharebroker_server"):
        if "proto_values import" in path.read_text():
            import_module(name(path).split("/", 1)[1].removesuffix(".py").replace("/", "."))
    found: dict[tuple[str, str], set[str]] = {}
    gc.unfreeze()  # frozen objects, such as those of collected modules, are not listed
    conversions: list[Conversion[Any, Any]] = [item for item in gc.get_objects() if type(item) is Conversion]
    gc.freeze()
    for conversion in conversions:
        missing = conversion.left_out()
        if missing and conversion.value_type.__module__.startswith("sharebroker"):
            names = conversion.value_type.__name__, conversion.message_type.DESCRIPTOR.name
            found[names] = found.get(names, set()) | missing
    return found
