"""Fixtures for tests with real servers; `tests/conftest.py` loads this as a pytest plugin."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Generator, Iterator

import pytest
import structlog
from xdist.remote import Producer

from sharebroker_server.redis_link.link import RedisLink
from sharebroker_server.security import audit
from tests.testkit.brokers import Cluster, four_processes, one_process
from tests.testkit.scheduler import GroupScheduling
from tests.testkit.servers import kinds, versions
from tests.testkit.shared_servers import Servers
from tests.testkit.watchdog import Watchdog


def pytest_configure(config: pytest.Config) -> None:
    """Configures plain tracebacks: rich prints every local of every frame, which blocks the loop
    for seconds.
    """
    if config.getoption("loadgroup", False):
        config.pluginmanager.register(_Groups(), "groups")
    config.pluginmanager.register(Watchdog(), "watchdog")
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


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """Distributes tests by groups so that the crash of a worker costs one test."""
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the tests that share fixtures of a module to one worker: each worker would start its servers."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _uses_module_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _uses_module_fixture(item: pytest.Item) -> bool:
    definitions = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009 - it is private
    return any(one.scope == "module" and one.baseid for several in definitions for one in several)


class _Groups:
    """Appends the group of a test to its id, where `--dist loadgroup` reads it.

    pytest-xdist 3.8 assigns an attribute that pytest 9.2 does not read, so that it distributes the tests of a
    group to all workers.
    """

    @pytest.hookimpl(trylast=True)  # after all marks, and after a pytest-xdist that appends them
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            names = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
            suffix = f"@{'_'.join(names)}"
            if names and not item.nodeid.endswith(suffix):
                setattr(item, "_id", type(item.id).parse(item.nodeid + suffix))  # noqa: B010 - it is private


def pytest_runtest_setup() -> None:
    """Closes the windows of the audit log, state of the process, so that no test affects the next one."""
    audit.windows.clear()


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
