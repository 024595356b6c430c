"""Some of Kafka's own tests, of which `make compat` runs all: one for each kind of cluster."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.compat.jvm import compile_classes
from tests.compat.run import TESTS
from tests.compat.worker import Worker
from tests.support.kafka_clusters import SharebrokerCluster
from tests.support.kafka_jars import SUITE, is_there

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("javac") is None or not is_there(SUITE),
        reason="Kafka's tests or Java 17 are missing: make kafka",
    ),
]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("compat")
    compile_classes(folder / "classes")
    with closing(Worker(TESTS, SharebrokerCluster, folder / "classes", folder)) as worker:
        yield worker


@pytest.mark.parametrize(
    ("method", "cases"),
    [
        ("testSubscriptionAndPoll", 2),
        ("testReadCommittedIsolationLevel", 1),
        ("testRenewAcknowledgementOnPoll", 1),
        ("testSharePartitionLagOnShareCoordinatorMovement", 1),
    ],
)
def test_kafkas_test_passes(worker: Worker, method: str, cases: int) -> None:
    found = worker.run(method, 100.0)
    assert [(case.outcome, case.error) for case in found] == [("passed", "")] * cases


def test_all_methods_are_listed(worker: Worker) -> None:
    methods = worker.methods()
    assert len(methods) == 100
    assert all(method.startswith("test") for method in methods)


def test_method_that_times_out_fails_and_the_next_one_runs(worker: Worker) -> None:
    (late,) = worker.run("testAcquisitionLockTimeoutOnConsumer", 0.5)
    assert (late.outcome, late.error) == ("failed", "not done after 0.5 s")
    (next_one,) = worker.run("testPollNoSubscribeFails", 100.0)
    assert next_one.outcome == "passed"
