from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from sharebroker_server.telemetry import metrics as module
from sharebroker_server.telemetry.metrics import (
    MICROSECOND,
    YIELD,
    AppendMetricsByLog,
    Exposition,
    Family,
    Histogram,
    MetricKind,
    Metrics,
    Sample,
    counter,
    gauge,
    lines,
    number,
    seconds_of,
)


def read(*families: Family) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Returns the samples that Prometheus' own parser reads from our text, by name and labels."""
    text = "".join(line for family in families for line in lines(family))
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_label_values_are_escaped() -> None:
    label = 'a "quoted" \\ back\nslash, {brace}='
    assert read(gauge("some", 'with \\ and\nline "end"', [(("group", label), 2)])) == {
        ("some", (("group", label),)): 2
    }


def test_numbers_are_exported_unchanged() -> None:
    exported = read(gauge("one", "", [((), 1.5)]), counter("two_total", "", [((), 10**15)]))
    assert exported == {("one", ()): 1.5, ("two_total", ()): 10**15}


@pytest.mark.parametrize(
    ("value", "text"), [(math.inf, "+Inf"), (-math.inf, "-Inf"), (3.0, "3"), (0.000128, "0.000128")]
)
def test_number_is_rendered_as_text(value: float, text: str) -> None:
    assert number(value) == text


def test_a_histogram_counts_by_powers_of_two() -> None:
    histogram = Histogram()
    for value in (0, 1, 2, 3, 4, 1000):
        histogram.add(value)
    samples = list(histogram.samples(("log", "x"), low=1, high=3))
    assert [(s.suffix, s.labels[2:], s.value) for s in samples] == [
        ("_bucket", ("le", "2"), 2),
        ("_bucket", ("le", "4"), 4),
        ("_bucket", ("le", "8"), 5),
        ("_bucket", ("le", "+Inf"), 6),
        ("_sum", (), 1010),
        ("_count", (), 6),
    ]


def test_durations_are_exported_in_seconds() -> None:
    histogram = Histogram()
    histogram.add_seconds(0.0005)
    histogram.add_seconds(-1.0)  # a clock that moved backwards
    exported = read(seconds_of("took_seconds", "help", "log", {"a": histogram}, low=9, high=9))
    assert exported == {
        ("took_seconds_bucket", (("log", "a"), ("le", "0.000512"))): 2,
        ("took_seconds_bucket", (("log", "a"), ("le", "+Inf"))): 2,
        ("took_seconds_sum", (("log", "a"),)): pytest.approx(500 * MICROSECOND),
        ("took_seconds_count", (("log", "a"),)): 2,
    }


def test_yield_markers_are_not_exported() -> None:
    family = Family("some", MetricKind.GAUGE, "", [YIELD, Sample((), 1), YIELD])
    assert list(lines(family))[1:] == ["", "some 1\n", ""]


def test_collectors_are_read_at_each_scrape_in_order() -> None:
    metrics, values = Metrics(), [1]

    def first() -> Iterable[Family]:
        yield gauge("first", "", [((), values[0])])

    metrics.add(first)
    metrics.add(lambda: [gauge("second", "", [])])
    assert read(*metrics.families()) == {("first", ()): 1}
    values[0] = 2
    assert [family.name for family in metrics.families()] == ["first", "second"]
    assert read(*metrics.families()) == {("first", ()): 2}


class Numbers:
    """A collector with one number."""

    def __init__(self) -> None:
        self.value = 1
        self.reads = 0

    def families(self) -> Iterable[Family]:
        self.reads += 1
        yield gauge("number", "", ((("n", str(index)), self.value) for index in range(100)))


@pytest.fixture
def numbers() -> Numbers:
    return Numbers()


@pytest.fixture
async def exposition(numbers: Numbers) -> AsyncIterator[Exposition]:
    metrics = Metrics()
    metrics.add(numbers.families)
    made = Exposition(metrics)
    yield made
    await made.close()


async def test_concurrent_scrapes_share_one_rendering(exposition: Exposition, numbers: Numbers) -> None:
    texts = await asyncio.gather(*(exposition.text() for _ in range(200)))
    assert len({*texts}) == 1
    assert numbers.reads == 1


async def test_rendering_is_cached_briefly(
    exposition: Exposition, numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CACHE_SECONDS", 3600.0)
    first = await exposition.text()
    numbers.value = 2
    assert await exposition.text() == first
    assert exposition.renderings == 1


async def test_an_old_rendering_is_replaced(
    exposition: Exposition, numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CACHE_SECONDS", -1.0)
    await exposition.text()
    numbers.value = 2
    assert b'number{n="99"} 2\n' in await exposition.text()


async def test_rendering_yields_to_other_tasks(
    exposition: Exposition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SLICE", -1.0)
    rendering = asyncio.create_task(exposition.text())
    turns = 0
    while not rendering.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 100


async def test_a_cancelled_scrape_does_not_cancel_the_rendering(exposition: Exposition) -> None:
    impatient = asyncio.create_task(exposition.text())
    patient = asyncio.create_task(exposition.text())
    await asyncio.sleep(0)
    impatient.cancel()
    assert b"number" in await patient


async def test_a_refresh_that_fails_is_logged_and_nothing_else(numbers: Numbers) -> None:
    metrics = Metrics()
    metrics.add(numbers.families)

    async def fails() -> None:
        raise RuntimeError("no response")

    metrics.refreshes.append(fails)
    with capture_logs() as logs:
        assert b"number" in await Exposition(metrics).text()
    assert [entry["event"] for entry in logs] == ["metrics refresh failed"]


async def test_a_refresh_that_takes_long_is_not_begun_twice(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CACHE_SECONDS", -1.0)
    monkeypatch.setattr(module, "REFRESH_TIMEOUT", 0.0)
    metrics, begun = Metrics(), 0
    metrics.add(numbers.families)

    async def never_ends() -> None:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    metrics.refreshes.append(never_ends)
    exposition = Exposition(metrics)
    assert await exposition.text() != await exposition.text()
    assert begun == 1
    await exposition.close()


def test_appends_and_failures_are_counted_by_kind() -> None:
    appends = AppendMetricsByLog()
    with appends.of("partition").timed(3, 100):
        pass
    with pytest.raises(OSError, match="lost"), appends.of("partition").timed(1, 7):
        raise OSError("lost")
    families = {family.name: list(family.samples) for family in appends.families()}
    ((_, size, _),) = families["sharebroker_log_append_bytes_total"]
    assert size == 100
    ((labels, failures, _),) = families["sharebroker_log_append_failures_total"]
    assert (labels, failures) == (("log", "partition", "error", "OSError"), 1)
    assert [sample.value for sample in families["sharebroker_log_append_records"]][-2:] == [3, 1]
