"""`sharebroker export`: writes topics and groups into an archive, while the cluster serves or not.

It only reads. Share state is read when the export begins, and each log afterwards. A repeated export
continues after the last complete file.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from sharebroker_server.aio import gather_in_portions
from sharebroker_server.broker.archive.folder import ArchiveFolder
from sharebroker_server.broker.archive.head import archived_topics, begin_archive, check_not_deleted
from sharebroker_server.broker.archive.log_export import LogExport, log_length
from sharebroker_server.broker.archive.stores import open_to_read
from sharebroker_server.broker.backup import Begin
from sharebroker_server.broker.core.archive_contents import ArchiveContents, ArchiveError, ExportJournal
from sharebroker_server.broker.core.archive_selection import Selection
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.redis_link.directory_lock import DirectoryLock

AT_ONCE: Final = 4
"""Partitions that are exported or imported at the same time."""


async def export_archive(
    settings: ServeSettings, target: Path, selection: Selection, begin: Begin
) -> ArchiveContents:
    """Writes an archive into a new or empty folder, or continues an unfinished export there.

    Raises ArchiveError, RedisError, KafkaError, LogUnavailable, OSError.
    """
    folder = ArchiveFolder(target)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(DirectoryLock(target))
        journal = folder.journal()
        stores = await open_to_read(settings, stack)
        if journal is None:
            journal = ExportJournal(await begin_archive(stores, settings.config, selection, folder))
        head = journal.head
        if [*head.topic_patterns, 0, *head.group_patterns] != [*selection.topics, 0, *selection.groups]:
            raise ArchiveError(f"The unfinished export in {target} has other topics or groups.")
        topics = archived_topics(folder, head)
        partitions = [(topic.topic_id, number) for topic in topics for number in range(topic.partitions)]
        lengths = await gather_in_portions(lambda key: log_length(stores, *key), partitions)
        export = LogExport(stores, folder, journal, begin(sum(lengths)))
        exported = await gather_in_portions(lambda key: export.run(*key), partitions, AT_ONCE)
        await check_not_deleted(stores, settings.config, topics)
        contents = ArchiveContents(head, exported)
        folder.finish(contents)
        return contents
