"""`sharebroker import`: writes the topics and groups of an archive into a cluster, which may serve.

Theory of operation
-------------------

The import holds the leases of all that it writes, so every write is fenced like that of a server. First it
writes the logs of topics that are not in the catalog yet: no server uses them. Then servers hand over their
coordinators for a moment. Because catalog and groups may have changed, the import reads and plans again. It
writes share state, then groups, and the catalog in one last step. The servers load all of this when they own
the coordinators again. A repeated import continues each log at its end, and writes all else again.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from sharebroker_protocol.clock import now
from sharebroker_server.aio import gather_in_portions, run_in_daemon_thread
from sharebroker_server.broker.archive.codec import decode_records
from sharebroker_server.broker.archive.exporting import AT_ONCE
from sharebroker_server.broker.archive.folder import ArchiveFolder
from sharebroker_server.broker.archive.import_target import ImportTarget, open_target
from sharebroker_server.broker.archive.log_import import LogImport, missing_bytes
from sharebroker_server.broker.backup import Begin
from sharebroker_server.broker.core.archive_plan import ImportPlan, plan_import
from sharebroker_server.broker.core.archive_topics import Choices, TargetCluster
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
    archive_id = contents.head.archive_id

    def plan_for(target: ImportTarget) -> ImportPlan:
        place = TargetCluster(target.view.catalog, settings.config, now())
        return plan_import(archive_id, records, choices, place, target.groups)

    async with AsyncExitStack() as stack:
        target = await open_target(settings, stack)
        plan = plan_for(target)
        partitions = [each for each in contents.partitions if each.topic_id in plan.topics]
        await target.check_memory(await missing_bytes(target.stores, plan, partitions))
        await target.leases.claim({plan.resource(each): each.leader_epoch for each in partitions})
        offsets = sum(file.end_offset - file.first_offset for each in partitions for file in each.files)
        logs = LogImport(target.stores, target.leases, folder, archive_id, plan, begin(offsets))
        await gather_in_portions(logs.run, partitions, AT_ONCE)
        await target.take_over(stack)
        # In a thread: leases and announcement are renewed meanwhile.
        final = await run_in_daemon_thread(lambda: plan_for(target), "plan of an import")
        final.check_topics_of(plan)
        await target.write(final)
    return Imported(
        len(plan.topics),
        len(plan.group_ids),
        sum(partition.records for partition in partitions),
        tuple(plan.planned.skipped),
    )
