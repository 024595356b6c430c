"""The options of the format."""

from __future__ import annotations

import pytest

from sharebroker_spark.core.options import (
    CHOICES,
    NAMES,
    NUMBERS,
    OptionError,
    Options,
    StateOptions,
    read_options,
    state_options,
    write_options,
)
from tests.architecture.sources import ROOT
from tests.testkit.tables import each

NEEDED = {"bootstrap": "localhost:9090", "group": "g", "topics": "a, b,,a"}


def test_unset_options_have_their_defaults() -> None:
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


def test_option_names_ignore_case() -> None:
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


@each(
    "given, message",
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
def test_invalid_options_are_rejected_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_options({**NEEDED, **given}, streaming=True)


def test_json_format_accepts_a_schema() -> None:
    options = read_options(
        {**NEEDED, "value.format": "json", "value.schema": " a INT ", "verdicts": "true"}, streaming=True
    )
    assert (options.value_format, options.value_schema, options.verdicts) == ("json", "a INT", True)


def test_table_read_accepts_start_and_end_offsets() -> None:
    def table(**given: str) -> Options:
        return read_options({"bootstrap": "h:1", "topics": "a,b", **given}, streaming=False)

    options = table(startingOffsets='{"a": {"0": 5, "1": 0}}', endingOffsets="Latest")
    assert (options.starting, options.ending) == ({("a", 0): 5, ("a", 1): 0}, {})
    for text in ("later", "[]", "{}}", '{"a": 5}', '{"a": {"x": 5}}', '{"a": {"0": -1}}', '{"c": {"0": 1}}'):
        with pytest.raises(OptionError, match=r"option endingOffsets is .* must be latest, or offsets"):
            table(endingOffsets=text)


def test_tls_address_is_accepted() -> None:
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
def test_grpc_addresses_are_accepted(address: str) -> None:
    assert read_options({**NEEDED, "bootstrap": address}, streaming=True).bootstrap == address


def test_a_batch_read_needs_no_group() -> None:
    assert read_options({"bootstrap": "h:1", "topics": "t"}, streaming=False).group == ""


COLUMNS = {"key": "binary", "value": "string"}


@pytest.mark.parametrize(
    ("given", "columns", "message"),
    [
        ({"topic": "t"}, {"key": "binary"}, "column value is missing"),
        ({"topic": "t"}, {}, "the columns are empty"),
        ({"topic": "t"}, {"value": "int"}, "string or binary"),
        ({"topic": "t"}, {"value": "string", "price": "int"}, "column price"),
        ({}, COLUMNS, "topic is missing"),
    ],
)
def test_invalid_columns_are_rejected(given: dict[str, str], columns: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        write_options({"bootstrap": "h:1", **given}, columns)


def test_the_topic_is_an_option_or_a_column() -> None:
    assert write_options({"bootstrap": "h:1", "topic": "t"}, COLUMNS)[1] == "t"
    assert write_options({"bootstrap": "h:1"}, {**COLUMNS, "topic": "string"})[1] == ""


def test_every_option_has_a_name() -> None:
    assert len(set(map(str.lower, NAMES))) == len(NAMES)


def test_readme_lists_every_option_with_default_and_bounds() -> None:
    listed = {}
    for line in (ROOT / "libs/spark_source/README.md").read_text().splitlines():
        if line.startswith("| `"):
            name, default, allowed, _ = (cell.strip() for cell in line.strip("|").split("|"))
            listed[name.strip("`")] = (default, allowed)
    assert set(listed) == set(NAMES)
    for name, (number, low, high) in NUMBERS.items():
        assert listed[name] == (str(number), f"{low} to {high}")
    for name, choices in CHOICES.items():
        assert listed[name] == (choices[0], ", ".join(choices))


SERVER = {"bootstrap": "127.0.0.1:9090"}


def test_state_options_are_parsed() -> None:
    assert state_options(SERVER) == StateOptions("127.0.0.1:9090")
    encrypted = "tls://127.0.0.1:9090?ca=/etc/ca.pem&cert=/etc/me.pem&key=/etc/me.key"
    assert state_options({"bootstrap": encrypted}) == StateOptions(encrypted)
    given = SERVER | {"groups": " a, b,a,", "topics": "t", "onUnavailable": "Wait", "path": "x"}
    assert state_options(given) == StateOptions("127.0.0.1:9090", ("a", "b"), ("t",), waits=True)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "option bootstrap is ''"),
        (SERVER | {"grups": "a"}, "unknown option grups; the options are bootstrap, groups"),
        (SERVER | {"onUnavailable": "perhaps"}, "it must be fail or wait"),
    ],
)
def test_invalid_state_options_are_rejected(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        state_options(given)
