"""The beginning of an export: the state of topics and groups, written before any record is read."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from sharebroker_protocol.clock import now
from sharebroker_server.broker.archive.codec import decode_records, encode_records
from sharebroker_server.broker.archive.folder import ArchiveFolder
from sharebroker_server.broker.archive.stored_state import read_catalog, read_groups, read_share_state
from sharebroker_server.broker.archive.stores import Stores
from sharebroker_server.broker.core.archive_contents import ArchiveError, Head
from sharebroker_server.broker.core.archive_selection import Selection, archive_records, group_ids
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.telemetry.process import release


async def begin_archive(
    stores: Stores, config: BrokerConfig, selection: Selection, folder: ArchiveFolder
) -> Head:
    """Reads the state, writes it as the metadata of an archive, and starts its journal.

    Raises ArchiveError, LogUnavailable, OSError.
    """
    begun_at = now()
    states = [
        state for machine in await read_share_state(stores, config) for state in machine.checkpoints(begun_at)
    ]
    view = await read_catalog(stores, config)
    machines = await read_groups(stores, view)
    records = list(archive_records(view.catalog, machines, states, selection))
    topics = {record.topic.name for record in records if isinstance(record, TopicRecord)}
    groups = group_ids(records)
    if missing := selection.unmatched(topics, groups):
        raise ArchiveError(f"The cluster has no topic or group with data {', '.join(map(repr, missing))}.")
    head = Head(
        str(uuid.uuid4()),
        release(),
        begun_at,
        selection.topics,
        selection.groups,
        len(topics),
        len(groups),
        folder.write_metadata(encode_records(records)),
    )
    folder.begin(head)
    return head


def archived_topics(folder: ArchiveFolder, head: Head) -> list[Topic]:
    """Returns the topics of an archive. Raises ArchiveError, OSError."""
    records = decode_records(folder.read_metadata(head.metadata))
    return [record.topic for record in records if isinstance(record, TopicRecord)]


async def check_not_deleted(stores: Stores, config: BrokerConfig, topics: Iterable[Topic]) -> None:
    """Raises ArchiveError if a topic was deleted: the end of its log may be missing in the archive."""
    view = await read_catalog(stores, config)
    deleted = [topic.name for topic in topics if view.topic_by_id(topic.topic_id) is None]
    if deleted:
        raise ArchiveError(
            f"{', '.join(deleted)} was deleted during the export. Remove the folder, and repeat the command."
        )
