"""`sharebroker state`: shows persisted share-group state."""

from __future__ import annotations

from typing import Any, Final

import typer
from rich.columns import Columns
from rich.console import Group as Stack
from rich.padding import Padding

import sharebroker
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Group, Partition, Server, Topic, examples
from sharebroker.cli.output import Column, columns, console, print_json, table
from sharebroker.inspection import StoredState, StoredStateRecord
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition

app = typer.Typer(no_args_is_help=True, help="Show the persisted state of share-partitions.")

_STATES: Final = {0: "available", 2: "acknowledged", 4: "archived"}
_LOG: Final = columns(
    "position#",
    "kind RECORD",
    "checkpoint_epoch# CHECKPOINT",
    "delta_index# DELTA",
    "start_offset# START",
    "leader_epoch# LEADER",
    "runs STATE BATCHES",
)


@app.command(
    epilog=examples(
        "sharebroker state show billing orders 0", "sharebroker state show billing orders 0 --json"
    )
)
def show(
    group: Group,
    topic: Topic,
    partition: Partition,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show a share-partition's stored checkpoint and deltas, and the state they replay to."""
    with sharebroker.Admin(server) as admin:
        response = admin.inspect_state(group, TopicPartition(topic, partition))
    if not response.records:
        missing = f"Group {group} has no state in partition {partition} of topic {topic}."
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, missing)
    if as_json:
        print_json(state_document(response))
    else:
        console().print(side_by_side(response))


def state_document(response: StoredState) -> dict[str, Any]:
    """Returns the response as plain values."""
    return {
        "shard": response.shard,
        "stream": response.stream,
        "records": [record_row(record) for record in response.records],
        "folded": None if response.folded is None else record_row(response.folded),
        "consistent": response.consistent,
        "share_checkpoint_offset": response.share_checkpoint_offset,
        "earliest_share_offset": response.earliest_share_offset,
    }


def record_row(record: StoredStateRecord) -> dict[str, Any]:
    """Returns a stored record as plain values; a delta has no state epoch, a checkpoint no delta index."""
    is_delta = record.kind == "delta"
    return {
        "position": record.position or None,
        "kind": record.kind,
        "checkpoint_epoch": record.checkpoint_epoch,
        "delta_index": record.delta_index if is_delta else None,
        "state_epoch": None if is_delta else record.state_epoch,
        "leader_epoch": record.leader_epoch,
        "start_offset": record.start_offset if record.start_offset >= 0 else None,
        "delivery_complete_count": (
            record.delivery_complete_count if record.delivery_complete_count >= 0 else None
        ),
        "state_batches": [
            {
                "first_offset": batch.first_offset,
                "last_offset": batch.last_offset,
                "delivery_state": batch.delivery_state,
                "delivery_count": batch.delivery_count,
            }
            for batch in record.state_batches
        ],
    }


def side_by_side(response: StoredState) -> Stack:
    """Returns the log beside the replayed state, with the stream's name below."""
    document = state_document(response)
    rows = [row | {"runs": runs(row)} for row in document["records"]]
    log = table(rows, _LOG, title="In the log")
    folded = table(_facts(document["folded"]), (Column("", "name"), Column("", "value")), title="Replayed")
    agreement = "agrees" if response.consistent else "DOES NOT AGREE"
    place = f"shard {response.shard}"
    if response.share_checkpoint_offset is not None:
        place = (
            f"Share Checkpoint Offset {response.share_checkpoint_offset}, "
            f"Earliest Share Offset {response.earliest_share_offset}"
        )
    return Stack(
        Columns([Padding(log, (0, 4, 0, 0)), folded]),
        f"\nStream {response.stream} ({place}); the coordinator's live state {agreement}.",
    )


def runs(row: dict[str, Any]) -> str:
    """Formats state batches as `100-109 acknowledged (1)`, one per line."""
    return "\n".join(
        f"{batch['first_offset']}-{batch['last_offset']} "
        f"{_STATES.get(batch['delivery_state'], batch['delivery_state'])} ({batch['delivery_count']})"
        for batch in row["state_batches"]
    )


def _facts(folded: dict[str, Any] | None) -> list[dict[str, Any]]:
    if folded is None:
        return [{"name": "no state", "value": ""}]
    shown = ("start_offset", "state_epoch", "leader_epoch", "checkpoint_epoch", "delivery_complete_count")
    facts = [{"name": name.replace("_", " "), "value": folded[name]} for name in shown]
    return [*facts, {"name": "state batches", "value": runs(folded)}]
