"""Projects of other topics through the whole pipeline: proposed, changed and replayed, and on a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sharebroker import Admin, Producer
from tests.architecture.sources import ROOT
from tests.pipeline.command import SPARK, command, finished, tables
from tests.spark import clusters
from tests.spark.environment import ENVIRONMENT, START_SECONDS, variables
from tests.testkit.brokers import Cluster, one_process

pytestmark = [
    pytest.mark.skipif(
        not (ENVIRONMENT / "spark-home").exists(),
        reason="Spark's environment is missing or too old: make spark",
    ),
    pytest.mark.slow,
    pytest.mark.timeout(4 * START_SECONDS),
    pytest.mark.xdist_group("spark pipeline"),
]
ARROW = """
import io, pyarrow as pa
for number in range(4):
    content = io.BytesIO()
    table = pa.table({"id": pa.array(range(10 * number, 10 * number + 10)), "city": ["a", "b"] * 5})
    with pa.ipc.new_stream(content, table.schema) as stream:
        stream.write_table(table)
    print(content.getvalue().hex())
"""
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
WRITE = """
import io, json, sys
import fastavro
for number in range(int(sys.argv[2])):
    content = io.BytesIO(b"\\0\\0\\0\\0\\1")
    content.seek(5)
    fastavro.schemaless_writer(content, fastavro.parse_schema(json.loads(sys.argv[1])), {"id": number})
    print(content.getvalue().hex())
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with one_process() as broker:
        yield broker


def publish(broker: Cluster, topic: str, values: Sequence[bytes]) -> None:
    with Producer(broker.address) as producer:
        for value in values:
            producer.send(topic, value)


def initialized(broker: Cluster, folder: Path, topic: str, *options: str) -> Path:
    """The folder of a project that `init` wrote."""
    program = [str(Path(sys.executable).with_name("sharebroker")), "pipeline", "init", topic]
    line = [*program, "--project", str(folder / topic), "--server", broker.address, *options]
    done = finished(line, START_SECONDS)
    assert done.returncode == 0, done.stderr
    return folder / topic


def printed(*line: str) -> list[bytes]:
    """The values that a program prints in hexadecimal digits."""
    done = subprocess.run(line, capture_output=True, check=True, text=True)
    return [*map(bytes.fromhex, done.stdout.split())]


def run(broker: Cluster, project: Path, *options: str, how: str = "run") -> subprocess.CompletedProcess[str]:
    line = command(broker.address, project / "data", *options, how=how, project=str(project))
    return finished(line, 2 * START_SECONDS)


def totals(project: Path) -> tuple[int, int, int]:
    """The numbers of records, valid rows and rejected rows."""
    row: dict[str, Any] = tables(project / "data")["totals"][0]
    assert (row["offsets"], row["differences"]) == (row["bronze"], 0)
    return row["bronze"], row["silver"], row["rejected"]


def test_rejected_rows_are_replayed_after_a_change(broker: Cluster, tmp_path: Path) -> None:
    with Admin(broker.address) as admin:
        admin.create_topic("orders", 2)
    orders = [{"id": number, "state": ("open", "paid")[number % 2]} for number in range(40)]
    publish(broker, "orders", [json.dumps(order).encode() for order in orders])
    project = initialized(broker, tmp_path, "orders")
    publish(broker, "orders", [b'{"id": "o-%d"}' % number for number in range(5)])

    ran = run(broker, project, "--from-beginning")
    assert ran.returncode == 0, ran.stderr
    assert totals(project) == (45, 40, 5)
    found = tables(project / "data")
    assert {row["reason"] for row in found["rejected"]} == {"state is missing"}
    assert {row["state"]: row["row_count"] for row in found["groups"]} == {"open": 20, "paid": 20}
    assert "<h1>orders, read by orders-pipeline</h1>" in (project / "data/report/index.html").read_text()

    publish(broker, "orders", [b'{"id": 100, "state": "open"}'])
    assert run(broker, project).returncode == 0
    assert totals(project) == (46, 41, 5)
    assert sum(row["row_count"] for row in tables(project / "data")["groups"]) == 41  # of this run

    file = project / "pipeline.toml"
    changed = file.read_text().replace('"BIGINT NOT NULL"', '"STRING NOT NULL"')
    file.write_text(
        changed.replace('state = "STRING NOT NULL"', 'state = "STRING"').replace("# day =", "day =")
    )
    refused = run(broker, project)
    assert refused.returncode == 2
    assert "--replay" in refused.stderr
    query = project / "tables" / "by_group.sql"
    query.write_text(
        "SELECT state, count(*) AS row_count, min(day) AS day FROM silver_records GROUP BY state"
    )
    ran = run(broker, project, "--replay")
    assert ran.returncode == 0, ran.stderr
    assert totals(project) == (46, 46, 0)
    assert all(row["day"] for row in tables(project / "data")["groups"])


def without_services(folder: Path) -> dict[str, str]:
    """The environment of executors that have the Spark source only."""
    environment = variables(folder)
    places = environment["PYTHONPATH"].split(os.pathsep)
    kept = [place for place in places if Path(place) not in (ROOT, ROOT / "services")]
    return environment | {"PYTHONPATH": os.pathsep.join(kept)}


def test_avro_values_are_read_on_a_cluster(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "variables", without_services)
    with Admin(broker.address) as admin:
        admin.create_topic("events", 1)
    python = str(ENVIRONMENT / "bin" / "python")
    values = printed(python, "-c", WRITE, json.dumps(SCHEMA), "30")
    publish(broker, "events", [*values, b"\xff"])
    schema = tmp_path / "event.avsc"
    schema.write_text(json.dumps(SCHEMA))
    project = initialized(broker, tmp_path, "events", "--avro-schema", str(schema), "--confluent")
    publish(broker, "events", [b"\0\0\0\0\2\0"])
    with (project / "pipeline.toml").open("a") as file:
        file.write('\n[spark]\n"spark.executor.memory" = "512m"\n"spark.driver.host" = "127.0.0.1"\n')
    with clusters.cluster(tmp_path) as master:
        ran = run(broker, project, "--from-beginning", "--master", master, "--spark", str(SPARK))
    assert ran.returncode == 0, ran.stderr
    assert totals(project) == (32, 30, 2)
    reasons = {row["reason"] for row in tables(project / "data")["rejected"]}
    assert reasons == {"no schema id precedes the value", "the schema id is unknown"}


def section(name: str, table: str = "silver_records", y: str = "rides") -> str:
    """A section of a report, with a chart of the column `y`."""
    query = f"SELECT city, count(*) AS rides FROM {table} GROUP BY city"
    chart = f'{{ kind = "bars", x = "city", y = ["{y}"] }}'
    return f'[report.{name}]\ntitle = "{name}"\nquery = "{query}"\nchart = {chart}\n'


def test_arrow_values_are_rows_and_a_report_is_checked_before_a_run(broker: Cluster, tmp_path: Path) -> None:
    with Admin(broker.address) as admin:
        admin.create_topic("trips", 2)
    publish(broker, "trips", [*printed(str(ENVIRONMENT / "bin" / "python"), "-c", ARROW), b"no stream"])
    project = initialized(broker, tmp_path, "trips")
    file = project / "pipeline.toml"
    sound = file.read_text()
    file.write_text(f"{sound}\n{section('missing', 'no_table')}{section('drawn', y='trips')}")
    checked = run(broker, project, how="dry-run")
    assert checked.returncode == 1
    assert "The pipeline failed in report_drawn, report_missing" in checked.stderr, checked.stderr
    file.write_text(f"{sound}\n{section('cities')}")

    ran = run(broker, project, "--from-beginning")
    assert ran.returncode == 0, ran.stderr
    assert totals(project) == (5, 40, 1)
    assert {row["city"]: row["rides"] for row in tables(project / "data")["cities"]} == {"a": 20, "b": 20}
