"""One server and one Spark session for all modules that only check its results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.spark.tour import Tour, take_tour
from tests.testkit.brokers import Cluster, one_process


@pytest.fixture(scope="session")
def spark_server() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def tour(spark_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Tour:
    return asyncio.run(take_tour(spark_server, tmp_path_factory.mktemp("spark")))
