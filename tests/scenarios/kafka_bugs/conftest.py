"""A leader with a share coordinator behind it, on an event loop where waiting takes no time."""

from __future__ import annotations

from tests.unit.share_partition_leader.conftest import harness, pytest_asyncio_loop_factories

__all__ = ["harness", "pytest_asyncio_loop_factories"]
