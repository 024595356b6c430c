"""`sharebroker verify`: checks a group's stored state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from rich.progress import Progress

from sharebroker import aio
from sharebroker.cli.group_snapshot import GroupSnapshot, read_snapshots
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Group, Server
from sharebroker.cli.output import (
    BAD_USAGE,
    FAILED,
    columns,
    console,
    print_failure,
    print_json,
    print_notice,
    readable_time,
    stderr,
    table,
)
from sharebroker.verification.rules import Evidence, VerificationFinding
from sharebroker.verification.runs import OffsetOutcome, OutcomeRun, outcome_runs
from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicPartition

EXAMPLES: Final = (
    "sharebroker verify billing",
    "sharebroker verify billing orders --offsets",
    "sharebroker verify billing --json",
)

_PARTITIONS: Final = (
    *columns("topic", "partition#", "log_start#", "log_end#", "start_offset# START"),
    *columns(*(f"{outcome.key}# {outcome.upper()}" for outcome in OffsetOutcome)),
    *columns("state_epoch# EPOCH", "replayed#", "verdict"),
)
_SPAN: Final = columns("topic", "partition#", "first_offset# FIRST", "last_offset# LAST")
_FINDINGS: Final = (*_SPAN, *columns("kind FINDING", "meaning"))
_OFFSETS: Final = (
    *_SPAN,
    *columns("fate OUTCOME", "delivery_count# DELIVERIES", "failed_at FAILED", "disposition"),
)


def verify(
    group: Group,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]...", help="Only these topics; default: all of the group."),
    ] = None,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Show the outcome of every offset, by runs.")
    ] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Check a group's stored state against its logs, and report the outcome of every offset.

    Replays each share-partition's checkpoint and deltas, and compares the result with the coordinator's live
    state and with the record log. Exit code 0 if everything is consistent, 1 for findings, 2 if the server
    cannot be queried.
    """
    try:
        snapshots = asyncio.run(_read(server, group, topics or ()))
    except KafkaError as error:
        print_failure(error, as_json)
        raise typer.Exit(BAD_USAGE) from None
    document = report(group, snapshots, offsets)
    if as_json:
        print_json(document)
    else:
        _show(document, offsets)
    if not document["well"]:
        raise typer.Exit(FAILED)


def report(group: str, snapshots: Mapping[TopicPartition, GroupSnapshot], offsets: bool) -> dict[str, Any]:
    """Returns the results as plain values; with `offsets` also the outcome of each offset."""
    return {
        "group": group,
        "well": all(snapshot.well for snapshot in snapshots.values()),
        "partitions": [_partition(place, snapshot, offsets) for place, snapshot in snapshots.items()],
    }


def _partition(place: TopicPartition, snapshot: GroupSnapshot, offsets: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"topic": place.topic, "partition": place.partition}
    if snapshot.evidence is not None:
        runs = _outcome_runs(snapshot.evidence, snapshot.failed)
        row |= _facts(snapshot.evidence)
        row |= {
            outcome.key: sum(run.offsets for run in runs if run.outcome is outcome)
            for outcome in OffsetOutcome
        }
        row |= {"offsets": [_offsets(run) for run in runs]} if offsets else {}
    return row | {
        "verdict": "well" if snapshot.well else "wrong",
        "findings": [_finding(finding) for finding in snapshot.findings],
    }


def _outcome_runs(evidence: Evidence, failed: Sequence[OutcomeRun]) -> list[OutcomeRun]:
    return outcome_runs(evidence.log, evidence.start, evidence.replayed(), now() * 1000, failed)


def _facts(evidence: Evidence) -> dict[str, Any]:
    return {
        "log_start": evidence.log.start,
        "log_end": evidence.log.end,
        "start_offset": evidence.start if evidence.start >= 0 else None,
        "state_epoch": evidence.entries[0].state_epoch if evidence.entries else None,
        "replayed": len(evidence.entries),
    }


def _offsets(run: OutcomeRun) -> dict[str, Any]:
    return {
        "first_offset": run.first,
        "last_offset": run.last,
        "fate": run.outcome.key,
        "delivery_count": run.deliveries,
        "failed_at": readable_time(run.failed_at) if run.failed_at else None,
        "disposition": run.disposition or None,
    }


def _finding(finding: VerificationFinding) -> dict[str, Any]:
    first, last = finding.offsets or (None, None)
    return {
        "kind": finding.kind.value,
        "remark": finding.kind.remark,
        "first_offset": first,
        "last_offset": last,
        "meaning": finding.meaning,
    }


def _show(document: dict[str, Any], offsets: bool) -> None:
    """Prints tables without columns for outcomes that no offset has."""
    partitions = document["partitions"]
    if not partitions:
        print_notice(f"Group {document['group']} has no state to verify.")
        return
    none = {outcome.key for outcome in OffsetOutcome if not any(row.get(outcome.key) for row in partitions)}
    console().print(table(partitions, [column for column in _PARTITIONS if column.key not in none]))
    if offsets:
        console().print("", table(_spread(partitions, "offsets"), _OFFSETS))
    if findings := _spread(partitions, "findings"):
        console().print("", table(findings, _FINDINGS))


def _spread(partitions: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Returns the rows below `key` of all partitions, each with its topic and partition."""
    return [
        {"topic": row["topic"], "partition": row["partition"], **item}
        for row in partitions
        for item in row.get(key, ())
    ]


async def _read(
    server: str, group: str, topics: tuple[str, ...] | list[str]
) -> dict[TopicPartition, GroupSnapshot]:
    """Reads the snapshots, with a progress bar on a terminal."""
    with Progress(console=stderr(), transient=True, disable=not stderr().is_terminal) as progress:
        bar = progress.add_task("share-partitions", total=None)
        async with aio.Admin(server) as admin:
            return await read_snapshots(
                admin, group, topics, lambda done, total: progress.update(bar, completed=done, total=total)
            )
