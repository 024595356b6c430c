"""The beginning of an export."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.broker.archive.folder import ArchiveFolder
from sharebroker_server.broker.archive.head import archived_topics, begin_archive
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.archive_selection import Selection
from tests.testkit.shared_servers import Servers
from tests.unit.broker.archive.scene import at, imported, make_archive, opened
from tests.unit.broker.core.archives import BILLS, ORDERS

pytestmark = pytest.mark.servers


async def test_the_state_is_written_before_the_records(redis_servers: Servers, tmp_path: Path) -> None:
    url = redis_servers.fresh("valkey")
    make_archive(tmp_path / "one")
    await imported(url, tmp_path / "one")
    folder = ArchiveFolder(tmp_path / "two")
    assert folder.journal() is None
    async with opened(url) as stores:
        with pytest.raises(ArchiveError, match="no topic or group with data 'x', 'y'"):
            await begin_archive(stores, at(url).config, Selection(["orders", "x"], ["g", "y"]), folder)
        head = await begin_archive(stores, at(url).config, Selection([], ["g"]), folder)
    journal = folder.journal()
    assert journal is not None
    assert (journal.head, journal.partitions) == (head, {})
    assert (head.topics, head.groups, head.group_patterns) == (2, 1, ["g"])
    assert archived_topics(folder, head) == [BILLS, ORDERS]
