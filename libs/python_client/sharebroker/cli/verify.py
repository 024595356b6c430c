"""`sharebroker verify`"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from rich.progress import Progress

from sharebroker.aio.admin import Admin
from sharebroker.cli.failures import BAD_USAGE, FAILED, explain
from sharebroker.cli.group_snapshot import GroupSnapshot, survey
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Group, Server
from sharebroker.cli.output import Column, console, print_json, say, stderr, table
from sharebroker.verification.offset_outcomes import OffsetOutcome, OutcomeRun, fates
from sharebroker.verification.rules import Evidence, Finding
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicPartition

EXAMPLES: Final = (
    "sharebroker verify billing",
    "sharebroker verify billing orders --offsets",
    "sharebroker verify billing --json",
)

_PARTITIONS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("LOG START", "log_start", number=True),
    Column("LOG END", "log_end", number=True),
    Column("START", "start_offset", number=True),
    *(Column(fate.upper(), fate.key, number=True) for fate in OffsetOutcome),
    Column("EPOCH", "state_epoch", number=True),
    Column("REPLAYED", "replayed", number=True),
    Column("VERDICT", "verdict"),
)
_PLACE: Final = (Column("TOPIC", "topic"), Column("PARTITION", "partition", number=True))
_SPAN: Final = (
    Column("FIRST", "first_offset", number=True),
    Column("LAST", "last_offset", number=True),
)
_FINDINGS: Final = (*_PLACE, *_SPAN, Column("FINDING", "kind"), Column("MEANING", "meaning"))
_OFFSETS: Final = (
    *_PLACE,
    *_SPAN,
    Column("FATE", "fate"),
    Column("DELIVERIES", "delivery_count", number=True),
)


def verify(
    group: Group,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]...", help="Only these topics; all if none is named."),
    ] = None,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Show the fate of every offset, by runs.")
    ] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Check a group's stored state against its logs, and tell what became of every offset.

    Replays each share-partition's checkpoint and deltas, and compares with what the coordinator answers from
    and with the record log. Exit code 0: all well, 1: something is wrong, 2: it could not be asked.
    """
    try:
        found = asyncio.run(_survey(server, group, topics or ()))
    except KafkaError as error:
        say(f"sharebroker: {explain(error)}")
        raise typer.Exit(BAD_USAGE) from None
    document = report(group, found, offsets)
    if as_json:
        print_json(document)
    else:
        _show(document, offsets)
    if not document["well"]:
        raise typer.Exit(FAILED)


def report(group: str, found: Mapping[TopicPartition, GroupSnapshot], offsets: bool) -> dict[str, Any]:
    """What was found, as plain values; the fates of single offsets only if asked for."""
    return {
        "group": group,
        "well": all(surveyed.well for surveyed in found.values()),
        "partitions": [_partition(place, surveyed, offsets) for place, surveyed in found.items()],
    }


def _partition(place: TopicPartition, surveyed: GroupSnapshot, offsets: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"topic": place.topic, "partition": place.partition}
    if surveyed.evidence is not None:
        runs = _fates(surveyed.evidence)
        row |= _facts(surveyed.evidence)
        row |= {fate.key: sum(run.offsets for run in runs if run.fate is fate) for fate in OffsetOutcome}
        row |= {"offsets": [_offsets(run) for run in runs]} if offsets else {}
    return row | {
        "verdict": "well" if surveyed.well else "wrong",
        "findings": [_finding(finding) for finding in surveyed.findings],
    }


def _fates(evidence: Evidence) -> list[OutcomeRun]:
    return fates(evidence.log, evidence.start, evidence.replayed())


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
        "fate": run.fate.key,
        "delivery_count": run.deliveries,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    first, last = finding.offsets or (None, None)
    return {
        "kind": finding.kind.value,
        "remark": finding.kind.remark,
        "first_offset": first,
        "last_offset": last,
        "meaning": finding.meaning,
    }


def _show(document: dict[str, Any], offsets: bool) -> None:
    """Tables as narrow as may be: fates that no offset has are left out."""
    partitions = document["partitions"]
    if not partitions:
        say(f"Group {document['group']} has no state to verify.")
        return
    none = {fate.key for fate in OffsetOutcome if not any(row.get(fate.key) for row in partitions)}
    console().print(table(partitions, [column for column in _PARTITIONS if column.key not in none]))
    if offsets:
        console().print("", table(_spread(partitions, "offsets"), _OFFSETS))
    if findings := _spread(partitions, "findings"):
        console().print("", table(findings, _FINDINGS))


def _spread(partitions: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """The rows below `key` of all partitions, each with its place."""
    return [
        {"topic": row["topic"], "partition": row["partition"], **item}
        for row in partitions
        for item in row.get(key, ())
    ]


async def _survey(
    server: str, group: str, topics: tuple[str, ...] | list[str]
) -> dict[TopicPartition, GroupSnapshot]:
    """With a bar on a terminal: a large group takes a while."""
    with Progress(console=stderr(), transient=True, disable=not stderr().is_terminal) as progress:
        bar = progress.add_task("share-partitions", total=None)
        async with Admin(server) as admin:
            return await survey(
                admin, group, topics, lambda done, total: progress.update(bar, completed=done, total=total)
            )
