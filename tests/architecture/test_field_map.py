"""The field map in protos/README.md is complete: it lists every field of every translated RPC."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

from google.protobuf.descriptor import Descriptor

from sharebroker_protocol.cluster.v1 import cluster_pb2
from sharebroker_protocol.gateway.v1 import admin_pb2, produce_pb2, share_pb2
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2
from tests.architecture.sources import ROOT
from tests.testkit.tables import each

TRANSLATED: dict[str, ModuleType] = {
    "ShareGroupHeartbeat": group_coordinator_pb2,
    "ShareGroupDescribe": group_coordinator_pb2,
    "ShareFetch": share_pb2,
    "ShareAcknowledge": share_pb2,
    "InitializeShareGroupState": share_coordinator_pb2,
    "ReadShareGroupState": share_coordinator_pb2,
    "WriteShareGroupState": share_coordinator_pb2,
    "DeleteShareGroupState": share_coordinator_pb2,
    "ReadShareGroupStateSummary": share_coordinator_pb2,
    "FindCoordinator": admin_pb2,
    "DescribeShareGroupOffsets": group_coordinator_pb2,
    "AlterShareGroupOffsets": group_coordinator_pb2,
    "DeleteShareGroupOffsets": group_coordinator_pb2,
    "ListGroups": group_coordinator_pb2,
    "DeleteGroups": group_coordinator_pb2,
    "Metadata": admin_pb2,
    "CreateTopics": cluster_pb2,
    "DeleteTopics": cluster_pb2,
    "CreatePartitions": cluster_pb2,
    "DescribeConfigs": admin_pb2,
    "IncrementalAlterConfigs": cluster_pb2,
    "DescribeAcls": admin_pb2,
    "CreateAcls": cluster_pb2,
    "DeleteAcls": cluster_pb2,
    "DescribeClientQuotas": admin_pb2,
    "AlterClientQuotas": cluster_pb2,
    "UpdateFeatures": cluster_pb2,
    "DescribeUserScramCredentials": admin_pb2,
    "AlterUserScramCredentials": cluster_pb2,
    "Produce": produce_pb2,
    "Fetch": share_partition_leader_pb2,
    "ListOffsets": share_partition_leader_pb2,
    "DeleteRecords": share_partition_leader_pb2,
    "WriteTxnMarkers": share_partition_leader_pb2,
    "DescribeProducers": share_partition_leader_pb2,
    "InitProducerId": transaction_coordinator_pb2,
    "AddPartitionsToTxn": transaction_coordinator_pb2,
    "EndTxn": transaction_coordinator_pb2,
    "DescribeTransactions": transaction_coordinator_pb2,
    "ListTransactions": transaction_coordinator_pb2,
}
_QUOTED = re.compile(r"`([a-z_\[\].]+)`")


@each("rpc", TRANSLATED)
@each("arrow, side", [("→", "Request"), ("←", "Response")])
def test_every_field_is_mapped(rpc: str, arrow: str, side: str) -> None:
    message = getattr(TRANSLATED[rpc], rpc + side).DESCRIPTOR
    assert set(_mapped(_section(rpc), arrow)) == set(_fields(message))


def test_only_translated_rpcs_are_mapped() -> None:
    field_map = (ROOT / "protos" / "README.md").read_text().partition("## Field map")[2]
    assert set(re.findall(r"^### (\w+)$", field_map, re.MULTILINE)) == set(TRANSLATED)


def test_differences_have_a_reason() -> None:
    text = (ROOT / "protos" / "README.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith(("| → ", "| ← "))]
    assert rows
    assert not [row for row in rows if not row.split("|")[3].strip()]


def _section(rpc: str) -> list[str]:
    text = (ROOT / "protos" / "README.md").read_text()
    return text.partition(f"\n### {rpc}\n")[2].partition("\n### ")[0].splitlines()


def _mapped(lines: list[str], arrow: str) -> Iterator[str]:
    """Yields the proto fields of a section: a line of unchanged fields, or a row's second column."""
    for line in lines:
        if line.startswith(arrow):
            yield from _QUOTED.findall(line)
        if line.startswith(f"| {arrow}"):
            yield from _QUOTED.findall(line.split("|")[2])


def _fields(message: Descriptor, parent: str = "") -> Iterator[str]:
    """Yields the paths of all fields that hold a value; a map is one value."""
    for field in message.fields:
        nested = field.message_type
        is_map = nested is not None and nested.GetOptions().map_entry
        path = f"{parent}{field.name}{'[]' if field.is_repeated and not is_map else ''}"
        if nested is not None and not is_map:
            yield from _fields(nested, f"{path}.")
        else:
            yield path
