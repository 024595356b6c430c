"""The pure part of the Spark source: offsets, tasks, options."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_spark.core.offsets import Batch, Range, from_json, to_json
from sharebroker_spark.core.options import (
    CHOICES,
    NAMES,
    NUMBERS,
    OptionError,
    Options,
    read_options,
    write_options,
)
from sharebroker_spark.core.tasks import snapshot, split_into_tasks, unreached
from tests.architecture.sources import ROOT

NAMED = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
RANGES = st.lists(
    st.builds(
        lambda topic, partition, first, size, count: Range(topic, partition, first, first + size, count),
        NAMED,
        st.integers(0, 5),
        st.integers(0, 2**62),
        st.integers(0, 40),
        st.integers(1, 9),
    ),
    max_size=8,
)

# Offsets


@given(NAMED, st.integers(0, 2**40), RANGES, st.integers(0, 2**45))
def test_an_offset_survives_sparks_checkpoint(
    session: str, number: int, ranges: list[Range], deadline_ms: int
) -> None:
    batch = Batch(session, number).next(ranges, deadline_ms)
    text = json.dumps(to_json(batch))
    again = from_json(json.loads(text))
    assert sorted(again.ranges) == sorted(batch.ranges)
    assert (again.session, again.number, again.deadline_ms) == (session, number + 1, deadline_ms)
    assert json.dumps(to_json(again)) == text
    assert again.records == batch.records


def test_what_it_looks_like() -> None:
    batch = Batch("s").next([Range("b", 10, 4, 5), Range("a", 2, 7, 7, 3), Range("a", 2, 0, 3)], 99)
    assert json.dumps(to_json(batch)) == (
        '{"v": 1, "s": "s", "n": 1, "d": 99, '
        '"r": {"a": {"2": [[0, 3, 1], [7, 7, 3]]}, "b": {"10": [[4, 5, 1]]}}}'
    )


@pytest.mark.parametrize(
    "offset",
    [
        {},
        None,
        {"v": 2, "s": "s", "n": 1, "d": 0, "r": {}},
        {"v": 1, "n": 1, "d": 0, "r": {}},
        {"v": 1, "s": "s", "n": "x", "d": 0, "r": {}},
        {"v": 1, "s": "s", "n": 1, "d": 0, "r": []},
        {"v": 1, "s": "s", "n": 1, "d": 0, "r": {"t": {"0": [[1, 2]]}}},
    ],
)
def test_what_was_not_written_by_this_version_is_refused(offset: Any) -> None:
    with pytest.raises(ValueError, match="checkpoint"):
        from_json(offset)


# Tasks


@given(RANGES, st.integers(1, 50), st.integers(1, 12))
def test_every_offset_is_in_one_task(ranges: list[Range], per_task: int, least: int) -> None:
    tasks = split_into_tasks(ranges, per_task, least)
    offsets = [
        (o.topic, o.partition, x, o.delivery_count) for o in ranges for x in range(o.first, o.last + 1)
    ]
    assert [
        (o.topic, o.partition, x, o.delivery_count)
        for task in tasks
        for o in task
        for x in range(o.first, o.last + 1)
    ] == offsets
    sizes = [sum(one.size for one in task) for task in tasks]
    assert all(0 < size <= per_task for size in sizes)
    assert len(tasks) >= min(least, len(offsets))
    assert not sizes or max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("per_task", "least", "sizes"),
    [(100, 1, [10]), (5, 1, [5, 5]), (4, 1, [4, 3, 3]), (100, 4, [3, 3, 2, 2]), (100, 30, [1] * 10)],
)
def test_how_many_tasks(per_task: int, least: int, sizes: list[int]) -> None:
    ranges = [Range("t", 0, 0, 6), Range("t", 1, 5, 7)]
    assert [sum(one.size for one in task) for task in split_into_tasks(ranges, per_task, least)] == sizes


def test_of_nothing_there_are_no_tasks() -> None:
    assert split_into_tasks([], 10, 4) == []


def test_a_run_that_ends_by_itself_asks_until_it_came_to_the_end() -> None:
    ends = {("t", 0): 10, ("t", 1): 10, ("t", 2): 10}
    ranges = [Range("t", 0, 0, 8), Range("t", 1, 5, 9), Range("u", 2, 0, 99)]
    assert unreached(ends, ranges) == {("t", 0): 10, ("t", 2): 10}
    assert unreached(ends, [Range("t", 0, 20, 25)]) == {("t", 1): 10, ("t", 2): 10}
    assert unreached({}, ranges) == {}


def test_a_table_shows_all_there_is_or_what_is_asked_for() -> None:
    spans = {("t", 1): (5, 9), ("t", 0): (0, 3), ("u", 0): (4, 4)}
    assert snapshot(spans, {}, {}) == [Range("t", 0, 0, 2), Range("t", 1, 5, 8)]
    asked = snapshot(spans, {("t", 1): 2, ("t", 0): 3}, {("t", 1): 7, ("u", 0): 4})
    assert asked == [Range("t", 1, 2, 6)]
    with pytest.raises(OptionError, match="names t-2"):
        snapshot(spans, {}, {("t", 2): 1})
    with pytest.raises(OptionError, match="starts t-0 at 4, beyond its end 3"):
        snapshot(spans, {("t", 0): 4}, {})
    with pytest.raises(OptionError, match="endingOffsets ends u-0 at 6, beyond its log end 4"):
        snapshot(spans, {}, {("u", 0): 6})
    assert snapshot(spans, {}, {("t", 1): 4}) == [Range("t", 0, 0, 2)]  # retention may come first


# Options

NEEDED = {"bootstrap": "localhost:9090", "group": "g", "topics": "a, b,,a"}


def test_defaults() -> None:
    assert read_options(NEEDED, streaming=True) == Options(
        "localhost:9090",
        "g",
        ("a", "b"),
        "",
        10_000,
        5_000,
        1,
        200,
        3_600_000,
        transaction_timeout_ms=900_000,
    )


def test_names_are_told_whatever_their_case() -> None:
    options = read_options(
        {
            **NEEDED,
            "MAXRECORDSPERTRIGGER": "5",
            "Value.Format": "String",
            "onleaselost": "continue",
            "onUnavailable": "FAIL",
            "failOnDataLoss": "false",
            "path": "whatever",
        },
        streaming=True,
    )
    assert (options.max_records, options.value_format) == (5, "string")
    assert options.value_schema == ""
    assert (options.fails_on_lost_lease, options.waits, options.fails_on_data_loss) == (False, False, False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bootstrap": ""}, "bootstrap"),
        ({"bootstrap": "nowhere"}, "HOST:PORT"),
        ({"bootstrap": "tls://nowhere"}, "HOST:PORT"),
        ({"bootstrap": "http://x:1"}, "bootstrap is 'http://x:1'; it must be HOST:PORT"),
        ({"bootstrap": "127.0.0.1:99999"}, "PORT is 1 to 65535"),
        ({"bootstrap": "127.0.0.1:65536"}, "PORT is 1 to 65535"),
        ({"bootstrap": "127.0.0.1:0"}, "PORT is 1 to 65535"),
        ({"bootstrap": "tls://h:99999?ca=/x"}, "PORT is 1 to 65535"),
        ({"bootstrap": "a b:1"}, "HOST:PORT"),
        ({"bootstrap": "h:1/x"}, "HOST:PORT"),
        ({"group": " "}, "group"),
        ({"topics": " , "}, "topics"),
        ({"maxRecordsPerTrigger": "0"}, "1 to 1000000"),
        ({"maxRecordsPerTrigger": "many"}, "must be a number"),
        ({"recordsPerTask": "-1"}, "recordsPerTask"),
        ({"minPartitions": "10001"}, "1 to 10000"),
        ({"maxWaitMs": "60001"}, "0 to 60000"),
        ({"value.format": "avro"}, "bytes or string or json or arrow"),
        ({"value.format": "json"}, "value.schema is missing"),
        ({"value.format": "arrow", "value.schema": " "}, "value.schema is missing"),
        ({"value.schema": "a INT"}, "value.schema is for value.format json or arrow"),
        ({"onMalformed": "drop"}, "keep or reject or fail"),
        ({"sessionId": "x" * 37}, "1 to 36"),
        ({"topcis": "t"}, "unknown option topcis"),
        ({"startingOffsets": '{"a": {"0": 1}}'}, r"startingOffsets .* share\.auto\.offset\.reset"),
        ({"startingoffsets": "earliest"}, "startingOffsets is 'earliest', but applies to batch reads only"),
        ({"endingOffsets": "latest"}, "endingOffsets applies to batch reads only"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read_options({**NEEDED, **given}, streaming=True)


def test_a_schema_goes_with_the_format() -> None:
    options = read_options(
        {**NEEDED, "value.format": "json", "value.schema": " a INT ", "verdicts": "true"}, streaming=True
    )
    assert (options.value_format, options.value_schema, options.verdicts) == ("json", "a INT", True)


def test_a_table_may_be_asked_for_between_offsets() -> None:
    def table(**given: str) -> Options:
        return read_options({"bootstrap": "h:1", "topics": "a,b", **given}, streaming=False)

    options = table(startingOffsets='{"a": {"0": 5, "1": 0}}', endingOffsets="Latest")
    assert (options.starting, options.ending) == ({("a", 0): 5, ("a", 1): 0}, {})
    for text in ("later", "[]", "{}}", '{"a": 5}', '{"a": {"x": 5}}', '{"a": {"0": -1}}', '{"c": {"0": 1}}'):
        with pytest.raises(OptionError, match=r"option endingOffsets is .* must be latest, or offsets"):
            table(endingOffsets=text)


def test_a_server_may_be_reached_by_tls() -> None:
    address = "tls://localhost:9090?ca=/etc/ca.pem"
    assert read_options({**NEEDED, "bootstrap": address}, streaming=True).bootstrap == address


@pytest.mark.parametrize(
    "address",
    [
        "h:65535",
        "[::1]:9090",
        "dns:///broker.example:9090",
        "ipv4:10.0.0.1:9,10.0.0.2:59999",
        "tls://h:65000/",
    ],
)
def test_addresses_as_grpc_has_them(address: str) -> None:
    assert read_options({**NEEDED, "bootstrap": address}, streaming=True).bootstrap == address


def test_a_batch_read_needs_no_group() -> None:
    assert read_options({"bootstrap": "h:1", "topics": "t"}, streaming=False).group == ""


COLUMNS = {"key": "binary", "value": "string"}


@pytest.mark.parametrize(
    ("given", "columns", "said"),
    [
        ({"topic": "t"}, {"key": "binary"}, "column value is missing"),
        ({"topic": "t"}, {}, "the columns are empty"),
        ({"topic": "t"}, {"value": "int"}, "string or binary"),
        ({"topic": "t"}, {"value": "string", "price": "int"}, "column price"),
        ({}, COLUMNS, "topic is missing"),
    ],
)
def test_what_cannot_be_written_is_refused(given: dict[str, str], columns: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        write_options({"bootstrap": "h:1", **given}, columns)


def test_the_topic_is_an_option_or_a_column() -> None:
    assert write_options({"bootstrap": "h:1", "topic": "t"}, COLUMNS)[1] == "t"
    assert write_options({"bootstrap": "h:1"}, {**COLUMNS, "topic": "string"})[1] == ""


def test_every_option_has_a_name() -> None:
    assert len(set(map(str.lower, NAMES))) == len(NAMES)


# The table of options in the README


def test_the_readme_tells_every_option_with_its_default_and_bounds() -> None:
    told = {}
    for line in (ROOT / "libs/spark_source/README.md").read_text().splitlines():
        if line.startswith("| `"):
            name, default, allowed, _ = (cell.strip() for cell in line.strip("|").split("|"))
            told[name.strip("`")] = (default, allowed)
    assert set(told) == set(NAMES)
    for name, (number, low, high) in NUMBERS.items():
        assert told[name] == (str(number), f"{low} to {high}")
    for name, choices in CHOICES.items():
        assert told[name] == (choices[0], ", ".join(choices))


@pytest.mark.parametrize(
    "schema",
    [
        "id BIGINT, name STRING",
        "id:bigint,`odd name`: DECIMAL(10, 2)",
        "a ARRAY<STRUCT<x: INT, m: MAP<STRING, DECIMAL(3,1)>>>, b BOOLEAN NOT NULL",
        "id BIGINT COMMENT 'one, two', name NOTYPE",
        "i INTERVAL DAY TO SECOND, v VARIANT",
        "id BIGINT, ID BIGINT, d DECIMAL, n NUMERIC(38, 38), e DEC(5)",
        "s STRUCT<>, t STRUCT<id: INT, `a,b>`: STRUCT<id: INT>>, u ARRAY",
        "m MAP<STRING, ARRAY<STRUCT<a INT NOT NULL, b: TIMESTAMP_NTZ>>> NOT NULL",
    ],
)
def test_fields_that_spark_can_read(schema: str) -> None:
    options = read_options({**NEEDED, "value.format": "json", "value.schema": schema}, streaming=True)
    assert options.value_schema == schema


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ("id BIGGINT", "id BIGGINT"),
        ("id BIGINT, name", "name"),
        ("id BIGINT,", ""),
        ("n STRING, id STRUCT<a: BLA>", "a: BLA"),
        ("id ARRAY<MAP<STRING, BLA>>", "id ARRAY<MAP<STRING, BLA>>"),
        ("d DECIMAL(99,2)", "d DECIMAL(99,2)"),
        ("s STRUCT<d: DECIMAL(3, 4)>", "d: DECIMAL(3, 4)"),
    ],
)
def test_fields_that_spark_cannot_read(schema: str, field: str) -> None:
    given = {**NEEDED, "value.format": "json", "value.schema": schema}
    with pytest.raises(OptionError, match=rf"option value\.schema has a field .*'{re.escape(field)}'; "):
        read_options(given, streaming=True)


@pytest.mark.parametrize("schema", ["id BIGINT, id STRING", "s STRUCT<id: INT, id: INT>"])
def test_a_field_is_there_once(schema: str) -> None:
    given = {**NEEDED, "value.format": "json", "value.schema": schema}
    with pytest.raises(OptionError, match=r"option value\.schema has .*two fields id; each name"):
        read_options(given, streaming=True)
