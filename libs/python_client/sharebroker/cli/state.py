"""`sharebroker state …`"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from rich.columns import Columns
from rich.console import Group as Stack
from rich.padding import Padding

from sharebroker.blocking.admin import Admin
from sharebroker.cli.failures import FAILED
from sharebroker.cli.options import DEFAULT_SERVER, MOST, AsJson, Group, Server, Topic, examples
from sharebroker.cli.output import Column, console, print_json, say, table
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2 import InspectShareGroupStateResponse

app = typer.Typer(no_args_is_help=True, help="Look at the durable state of share-partitions.")

_STATES: Final = {0: "available", 2: "acknowledged", 4: "archived"}
_LOG: Final = (
    Column("POSITION", "position", number=True),
    Column("RECORD", "kind"),
    Column("CHECKPOINT", "checkpoint_epoch", number=True),
    Column("DELTA", "delta_index", number=True),
    Column("START", "start_offset", number=True),
    Column("LEADER", "leader_epoch", number=True),
    Column("RUNS", "runs"),
)


@app.command(
    epilog=examples(
        "sharebroker state show billing orders 0", "sharebroker state show billing orders 0 --json"
    )
)
def show(
    group: Group,
    topic: Topic,
    partition: Annotated[
        int, typer.Argument(metavar="PARTITION", min=0, max=MOST, help="Number of the partition.")
    ],
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show a share-partition's checkpoint and deltas as they lie in Redis, beside what they fold to."""
    with Admin(server) as admin:
        answer = admin.inspect_state(group, TopicPartition(topic, partition))
    if not answer.records:
        say(f"Group {group} has no state in partition {partition} of topic {topic}.")
        raise typer.Exit(FAILED)
    if as_json:
        print_json(state_document(answer))
    else:
        console().print(side_by_side(answer))


def state_document(answer: InspectShareGroupStateResponse) -> dict[str, Any]:
    """The answer as plain values."""
    return {
        "shard": answer.shard,
        "stream": answer.stream,
        "records": [record_row(record) for record in answer.records],
        "folded": record_row(answer.folded) if answer.HasField("folded") else None,
        "consistent": answer.consistent,
    }


def record_row(record: InspectShareGroupStateResponse.LogRecord) -> dict[str, Any]:
    """A record's facts; a delta has no state epoch, a checkpoint no index."""
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


def side_by_side(answer: InspectShareGroupStateResponse) -> Stack:
    """The log on the left, the folded value on the right, where they lie below."""
    document = state_document(answer)
    rows = [row | {"runs": runs(row)} for row in document["records"]]
    log = table(rows, _LOG, title="In the log")
    folded = table(_facts(document["folded"]), (Column("", "name"), Column("", "value")), title="Folded")
    agree = "agrees" if answer.consistent else "DOES NOT AGREE"
    return Stack(
        Columns([Padding(log, (0, 4, 0, 0)), folded]),
        f"\nStream {answer.stream} (shard {answer.shard}); the coordinator's live value {agree}.",
    )


def runs(row: dict[str, Any]) -> str:
    """State batches in words: `100-109 acknowledged (1)`, one a line."""
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
    return [*facts, {"name": "runs", "value": runs(folded)}]
