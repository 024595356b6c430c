"""The benchmark beside Kafka: reading programs' output, flags, ratios and the table."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import pytest
from rich.console import Console

from tests.perf.kafka.bench import NAMES
from tests.perf.kafka.figures import FIGURES, NOT_YET_MEASURED, ROWS, Figure
from tests.perf.kafka.load import ProducerReports, drive, read_sample
from tests.perf.kafka.programs import figures_of
from tests.perf.kafka.report import Remarks, as_json, ratio, show
from tests.perf.kafka.systems import (
    DURABLE,
    KAFKA,
    KAFKA_FLAGS,
    LIKE_FOR_LIKE,
    jvm_flags,
    require_full_compiler,
)
from tests.perf.processes import BenchFailed
from tests.perf.procfs import Usage
from tests.perf.steady import Measured, Meter, Rule, Sample

RATE = Figure("producer.rate", "produced", "records/s", 0.8)


def used() -> Usage:
    """What the server has used."""
    return Usage(2.5, 1000)


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        ("sample 12 3500000000 ", Sample(12, 3.5, 2.5, 1000)),
        ("sample 12 3500000000 1500,250\n", Sample(12, 3.5, 2.5, 1000, (1.5, 0.25))),
        ("pass", None),
        ("SLF4J: no provider", None),
        ("", None),
    ],
)
def test_samples_are_read(line: str, sample: Sample | None) -> None:
    assert read_sample(line, used) == sample


def test_reports_of_the_producer_add_up() -> None:
    read = ProducerReports()
    line = "{} records sent, {} records/sec (1.0 MB/sec), 3.0 ms avg latency, 40.0 ms max latency."
    assert read(line.format(1000, "2000.0"), used) == Sample(1000, 0.5, 2.5, 1000)
    assert read("[warn] something else", used) is None
    assert read(line.format(0, "0.0"), used) is None
    assert read(line.format(500, "250.0"), used) == Sample(1500, 2.5, 2.5, 1000)


def test_program_runs_until_measured_and_ends_when_its_input_closes() -> None:
    source = (
        "import sys, threading, itertools, time\n"
        "print('pass', flush=True)\n"
        "end = threading.Event()\n"
        "threading.Thread(target=lambda: (sys.stdin.read(), end.set())).start()\n"
        "for n in itertools.count():\n"
        "    print(f'sample {n * 100} {n * 10**9}', flush=True)\n"
        "    if end.wait(0.001): break\n"
    )
    meter = Meter(Rule(100, windows=2), seconds=5)
    measured = drive([sys.executable, "-c", source], {}, used, meter, limit=30)
    assert (measured.rate, measured.steady) == (100, True)


def test_a_program_that_fails_reports_its_error() -> None:
    source = "raise ValueError('no topic')"
    with pytest.raises(BenchFailed, match="ended too early: ValueError: no topic"):
        drive([sys.executable, "-c", source], {}, used, Meter(Rule(1), 1), limit=30)


def test_a_program_that_hangs_is_ended() -> None:
    source = "import time; time.sleep(60)"
    with pytest.raises(BenchFailed, match=r"not done after 0\.2 s"):
        drive([sys.executable, "-c", source], {}, used, Meter(Rule(1), 1), limit=0.2)


def test_figures_of_a_program_are_named_and_scaled() -> None:
    measured = Measured(1000, 2.0, 0.004, 3_000_000, [1.0, 2.0, 3.0], 7.0, steady=True)
    assert figures_of(measured) == {
        "records": 1000,
        "rate": 500,
        "server_cpu": 4.0,
        "rss": 3.0,
        "steady": 1.0,
        "warm_seconds": 7.0,
        "p50": 2.0,
        "p99": 3.0,
    }


def test_flags_end_at_the_main_class() -> None:
    assert jvm_flags(["java", "-Xmx1G", "-server", "kafka.Kafka", "-x"]) == ["-Xmx1G", "-server"]


@pytest.mark.parametrize("flag", ["-XX:TieredStopAtLevel=1", "-Xint", "-XX:-TieredCompilation"])
def test_restricted_compiler_is_rejected(flag: str) -> None:
    with pytest.raises(BenchFailed):
        require_full_compiler(["java", "-Xmx1G", flag, "kafka.Kafka"])


def test_the_broker_of_the_benchmark_has_its_full_compiler() -> None:
    require_full_compiler(["java", *KAFKA_FLAGS, "kafka.Kafka", "server.properties"])


@pytest.mark.parametrize(
    ("ours", "kafka", "expected"),
    [(500.0, 250.0, 2.0), (None, 250.0, None), (500.0, None, None), (500.0, 0.0, None)],
)
def test_ratio_divides_our_figure_by_kafkas(
    ours: float | None, kafka: float | None, expected: float | None
) -> None:
    found: dict[str, Mapping[str, float]] = {
        LIKE_FOR_LIKE: {} if ours is None else {RATE.key: ours},
        KAFKA: {} if kafka is None else {RATE.key: kafka},
    }
    assert ratio(RATE, LIKE_FOR_LIKE, found) == expected


def test_every_program_has_a_row() -> None:
    assert {figure.program for figure in FIGURES} == {*NAMES, "memory"}
    assert {row.program for row in ROWS} < set(NAMES)


def results() -> dict[str, list[Mapping[str, float]]]:
    """Three runs on each system."""
    return {
        KAFKA: [
            {"producer.rate": rate, "producer.server_cpu": 1.0, "producer.steady": float(rate != 900)}
            for rate in (900.0, 1000.0, 5000.0)
        ],
        LIKE_FOR_LIKE: [{"producer.rate": rate, "producer.server_cpu": 0.5} for rate in (1.0, 900.0, 901.0)],
        DURABLE: [{"producer.rate": 500.0}],
    }


def test_table_has_medians_ratios_cpu_versions_and_unsupported_cases() -> None:
    console = Console(width=220, record=True, file=None, quiet=False)
    with console.capture() as captured:
        show(results(), Remarks(["Kafka: flags"], ["run 1: not steady"], ["x: failed"]), console)
    text = captured.get()
    for part in ("~ 1,000 records/s", " 900 records/s", "0.90×", "0.50×", "0.50 µs", "met"):
        assert part in text
    for part in (
        "Kafka: flags",
        "was not steady in some run",
        "x: failed",
        "not yet measured",
        *NOT_YET_MEASURED,
    ):
        assert part in text
    assert "implicit" not in text.replace("implicit, 1 member", "", 2)  # rows without figures are omitted


def test_json_has_every_run() -> None:
    document = json.loads(as_json(results(), Remarks(["Kafka: flags"])))
    figure = next(each for each in document["figures"] if each["key"] == "producer.rate")
    assert figure["median"] == {KAFKA: 1000, LIKE_FOR_LIKE: 900, DURABLE: 500}
    assert figure["ratio"] == {LIKE_FOR_LIKE: 0.9, DURABLE: 0.5}
    assert len(document["runs"][KAFKA]) == 3
    assert document["about"] == ["Kafka: flags"]
