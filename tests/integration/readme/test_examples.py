"""The programs of `docs/examples` on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import pytest

from sharebroker import Producer
from sharebroker.testing import Server
from tests.architecture.sources import ROOT

pytestmark = pytest.mark.servers
EXAMPLES = ROOT / "docs" / "examples"


def load(name: str) -> Any:
    """Imports a program of the folder."""
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server({"group.share.min.delivery.count.limit": "2"}) as server:
        yield server


def test_job_queue_retries_jobs_and_keeps_dead_ones(server: Server) -> None:
    queue = load("job_queue")
    ran: list[tuple[str, int]] = []

    @queue.job  # type: ignore[untyped-decorator]  # the module is loaded by its path
    def flaky(number: int) -> None:
        ran.append(("flaky", number))
        if len(ran) == 1:
            raise ValueError("not yet")

    @queue.job  # type: ignore[untyped-decorator]  # the module is loaded by its path
    def hopeless(number: int) -> None:
        raise ValueError("never")

    queue.set_up(server.address, attempts=2)
    with Producer(server.address) as producer:
        queue.enqueue(producer, "flaky", number=1)
        queue.enqueue(producer, "hopeless", number=2)
        queue.enqueue(producer, "unknown", delay=0.2)
    queue.work(server.address, idle_timeout=3)
    assert ran == [("flaky", 1), ("flaky", 1)]
    dead = sorted(letter["name"] for letter in queue.dead_jobs(server.address, 5))
    assert dead == ["hopeless", "unknown"]
    assert list(queue.dead_jobs(server.address, 1)) == []


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"({path.name})" in listed for path in EXAMPLES.glob("*.py"))
