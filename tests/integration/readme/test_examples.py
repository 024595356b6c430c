"""The programs of `docs/examples` on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import pytest

from sharebroker import Admin, Producer, Record, ShareConsumer
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


def consumed(server: Server, topic: str, group: str, count: int) -> list[Record]:
    """Returns the next records that a group receives, and no more of them."""
    with Admin(server.address) as admin:
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    found: list[Record] = []
    with ShareConsumer(server.address, group, [topic]) as consumer:
        while records := consumer.poll(20 if len(found) < count else 0.5):
            for record in records:
                record.accept()
            found += records
    return found


def test_worker_resizes_jobs_and_rejects_other_records(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    worker = load("worker")
    for _ in range(2):
        worker.set_up(server.address)
    with Producer(server.address) as producer:
        producer.send(worker.TOPIC, b'{"path": "17.jpg", "width": 200}')
        producer.send(worker.TOPIC, b"no job")
    worker.work(server.address, idle_timeout=3)
    assert "resized 17.jpg to 200 pixels" in caplog.messages
    with Admin(server.address) as admin:
        (failed,) = admin.failed_records(worker.GROUP, worker.TOPIC).entries
    assert (failed.disposition, failed.delivery_count) == ("rejected", 1)
    assert failed.reason.startswith("not a job")


def test_celery_task_is_delayed_and_runs_once_per_order(server: Server) -> None:
    task = load("celery_task")
    task.set_up(server.address)
    with Producer(server.address) as producer:
        task.delay(producer, 17, "ada@example.org", countdown=0.5)
        task.delay(producer, 17, "ada@example.org", countdown=0.5)
        task.delay(producer, 18, "bob@example.org")
    task.work(server.address, idle_timeout=4)
    assert sorted(task.SENT) == [(17, "ada@example.org"), (18, "bob@example.org")]


async def test_web_service_stores_a_repeated_order_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpx = pytest.importorskip("httpx", reason="`make setup` installs FastAPI and httpx")
    pytest.importorskip("fastapi", reason="`make setup` installs FastAPI and httpx")
    monkeypatch.setenv("SHAREBROKER_SERVER", server.address)
    service = load("web_producer")
    with Admin(server.address) as admin:
        admin.create_topic(service.TOPIC, 2, {"message.dedup.window.ms": "600000"})
    client = httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://web")
    async with service.lifespan(service.app), client:
        key = {"Idempotency-Key": "7f3c"}
        responses = [
            await client.post("/orders", json={"customer": "ada", "item": item}, headers=headers)
            for item, headers in (("tea", key), ("tea", key), ("milk", {}))
        ]
        assert (await client.post("/orders", json={"customer": "ada"})).status_code == 422
    assert [response.status_code for response in responses] == [202] * 3
    first, again, other = (response.json() for response in responses)
    assert first == again != other
    assert [record.value for record in consumed(server, service.TOPIC, "cooks", 2)] == [b"tea", b"milk"]


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"({path.name})" in listed for path in EXAMPLES.glob("*.py"))
