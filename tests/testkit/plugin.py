"""Fixtures for tests with real servers; `tests/conftest.py` loads this as a pytest plugin."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Generator, Iterator

import pytest
import structlog

from sharebroker_server.redis_link.link import RedisLink
from tests.testkit.brokers import Cluster, four_processes, one_process
from tests.testkit.servers import kinds, versions
from tests.testkit.shared_servers import Servers


def pytest_configure() -> None:
    """Configures plain tracebacks: rich prints every local of every frame, which blocks the loop
    for seconds.
    """
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.processors.add_log_level, renderer])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempts the collected tests, which live as long as the run, from garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_report_header() -> str:
    """Reports the servers of this run."""
    return f"redis servers: {versions()}"


@pytest.fixture(scope="session")
def redis_servers() -> Iterator[Servers]:
    """The servers of this run; `fresh(kind)` returns an empty one."""
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.servers) for kind in kinds()])
def redis_url(request: pytest.FixtureRequest, redis_servers: Servers) -> str:
    """The URL of an empty server; the test runs once per kind."""
    return redis_servers.fresh(request.param)


@pytest.fixture
async def redis_link(redis_url: str) -> AsyncIterator[RedisLink]:
    """A link to an empty server; the test runs once per kind."""
    link = await RedisLink.connect(redis_url)
    yield link
    await link.close()


TEST_PROPERTIES = (
    # Lower limits, so that groups may use short locks and sessions.
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.min.session.timeout.ms=1000",
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.heartbeat.interval.ms=500",
)


@pytest.fixture(
    scope="session",
    params=[pytest.param(start, marks=pytest.mark.servers) for start in ("one process", "four processes")],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster, shared by the tests of a run, which use their own topics and groups."""
    options = [option for pair in TEST_PROPERTIES for option in ("--set", pair)]
    start = one_process if request.param == "one process" else four_processes
    with start(*options) as running_cluster:
        yield running_cluster


@pytest.fixture
def server(cluster: Cluster) -> str:
    """The gRPC address of a running cluster."""
    return cluster.address
