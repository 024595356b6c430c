"""`sharebroker import`: writes the topics and groups of an archive into a cluster of which no server runs.

Theory of operation
-------------------

The import holds the leases of all that it writes, so every write is fenced like that of a server. It writes
logs of topics that are not in the catalog yet, then share state, then groups, and the catalog in one last
step. Until then no server uses any of this. A repeated import continues each log at its end, and writes all
else again.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from sharebroker_protocol.clock import now
from sharebroker_server.aio import gather_in_portions
from sharebroker_server.broker.archive_codec import decode_records
from sharebroker_server.broker.archive_folder import ArchiveFolder
from sharebroker_server.broker.backup import Begin
from sharebroker_server.broker.core.archive_plan import plan_import
from sharebroker_server.broker.core.archive_topics import Choices, TargetCluster
from sharebroker_server.broker.exporting import AT_ONCE
from sharebroker_server.broker.import_target import open_target
from sharebroker_server.broker.log_import import LogImport, missing_bytes
from sharebroker_server.broker.settings import ServeSettings


class Imported(NamedTuple):
    """What an import has written: numbers of topics, groups and records, and the topics that it left out."""

    topics: int
    groups: int
    records: int
    skipped: tuple[str, ...]


async def import_archive(settings: ServeSettings, source: Path, choices: Choices, begin: Begin) -> Imported:
    """Imports an archive, or continues an unfinished import of it.

    Raises ArchiveError, RedisError, KafkaError, LogError, LeasesUnavailable, OSError.
    """
    folder = ArchiveFolder(source)
    contents = folder.contents()
    records = [*decode_records(folder.read_metadata(contents.head.metadata))]
    async with AsyncExitStack() as stack:
        target = await open_target(settings, stack)
        place = TargetCluster(target.view.catalog, settings.config, now())
        plan = plan_import(contents.head.archive_id, records, choices, place, target.groups)
        partitions = [each for each in contents.partitions if each.topic_id in plan.topics]
        await target.check_memory(await missing_bytes(target.stores, plan, partitions))
        await target.leases.claim({plan.resource(each): each.leader_epoch for each in partitions})
        offsets = sum(file.end_offset - file.first_offset for each in partitions for file in each.files)
        archive_id = contents.head.archive_id
        logs = LogImport(target.stores, target.leases, folder, archive_id, plan, begin(offsets))
        await gather_in_portions(logs.run, partitions, AT_ONCE)
        await target.write(plan)
    return Imported(
        len(plan.topics),
        len(plan.group_ids),
        sum(partition.records for partition in partitions),
        tuple(plan.planned.skipped),
    )
