"""Fixtures for tests on real servers; `tests/conftest.py` loads this as a pytest plugin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from libs.redis_link.link import RedisLink
from libs.testkit.servers import Servers, kinds, versions


def pytest_report_header() -> str:
    """Say which servers this run uses."""
    return f"redis servers: {versions()}"


@pytest.fixture(scope="session")
def redis_servers() -> Iterator[Servers]:
    """The servers of this run; `fresh(kind)` gives an empty one."""
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture(params=kinds())
def redis_url(request: pytest.FixtureRequest, redis_servers: Servers) -> str:
    """The URL of an empty server; the test runs once on each kind there is."""
    return redis_servers.fresh(request.param)


@pytest.fixture
async def redis_link(redis_url: str) -> AsyncIterator[RedisLink]:
    """A link to an empty server; the test runs once on each kind there is."""
    link = await RedisLink.connect(redis_url)
    yield link
    await link.close()
