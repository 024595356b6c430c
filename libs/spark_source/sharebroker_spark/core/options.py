"""The options of both formats, validated before a query starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from sharebroker_spark.core.fields import check_fields
from sharebroker_spark.core.offsets import Partition, Range

_PORT: Final = r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"
"""1 to 65535."""
_PLACE: Final = rf"(?:[^\s/:@?#\[\],]+|\[[^\s/@?#\[\],]+\]):{_PORT}"
_ADDRESS: Final = re.compile(
    rf"(?:dns:///)?{_PLACE}|ipv[46]:{_PLACE}(?:,{_PLACE})*|tls://{_PLACE}/?(?:\?\S*)?", re.ASCII
)
"""HOST:PORT, the same as a gRPC URI, or with TLS."""
NUMBERS: Final[Mapping[str, tuple[int, int, int]]] = {
    "maxRecordsPerTrigger": (10_000, 1, 1_000_000),
    "recordsPerTask": (5_000, 1, 1_000_000),
    "minPartitions": (1, 1, 10_000),
    "maxWaitMs": (200, 0, 60_000),
    "maxBatchDurationMs": (3_600_000, 1_000, 7 * 86_400_000),
    "transactionTimeoutMs": (900_000, 1_000, 86_400_000),
}
"""Default, smallest and largest value."""
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "value.format": ("bytes", "string", "json", "arrow"),
    "onMalformed": ("keep", "reject", "fail"),
    "verdicts": ("false", "true"),
    "onLeaseLost": ("fail", "continue"),
    "onUnavailable": ("wait", "fail"),
    "failOnDataLoss": ("true", "false"),
    "transactions": ("false", "true"),
}
"""The first choice is the default."""
_OFFSETS: Final = ("startingOffsets", "endingOffsets")
_OFFSET_WORDS: Final = dict(zip(_OFFSETS, ("earliest", "latest"), strict=True))
_TEXTS: Final = ("bootstrap", "group", "topics", "topic", "sessionId", "value.schema", *_OFFSETS)
_SESSION_LENGTH: Final = 36
_WITH_SCHEMA: Final = ("json", "arrow")
NAMES: Final = (*_TEXTS, *NUMBERS, *CHOICES)
_SPARK_OPTIONS: Final = frozenset({"path", "checkpointlocation", "outputmode", "queryname"})
"""Options that Spark passes on but that concern only Spark."""


class OptionError(ValueError):
    """An invalid option; the text names it and the allowed values."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a read or write. Times are in milliseconds."""

    bootstrap: str
    group: str = ""
    topics: tuple[str, ...] = ()
    session_id: str = ""
    max_records: int = 0
    records_per_task: int = 0
    min_tasks: int = 0
    max_wait_ms: int = 0
    max_batch_duration_ms: int = 0
    value_format: Literal["bytes", "string", "json", "arrow"] = "bytes"
    value_schema: str = ""
    on_malformed: Literal["keep", "reject", "fail"] = "keep"
    verdicts: bool = False
    fails_on_lost_lease: bool = True
    waits: bool = True
    fails_on_data_loss: bool = True
    starting: Mapping[Partition, int] = field(default_factory=dict)
    ending: Mapping[Partition, int] = field(default_factory=dict)
    transactions: bool = False
    transaction_timeout_ms: int = 0


def read_options(given: Mapping[str, str], *, streaming: bool) -> Options:
    """Returns the options of a read. Raises OptionError."""
    options = _parsed(given)
    starting_offsets = _lower(given).get("startingoffsets", "").strip()
    if streaming and starting_offsets:
        raise OptionError(
            f"option startingOffsets is {starting_offsets!r}, but applies to batch reads only: a stream "
            "continues at its "
            "group's start offset, and the group config share.auto.offset.reset sets the first one "
            "(earliest, latest, …); leave the option out"
        )
    if not options.topics:
        raise OptionError("option topics is missing: one topic, or several separated by commas")
    if streaming and not options.group:
        raise OptionError("option group is missing: the share group of the stream")
    if streaming and _lower(given).get("endingoffsets", "").strip():
        raise OptionError(
            "option endingOffsets applies to batch reads only: the trigger ends a stream; leave it out"
        )
    return options


def write_options(given: Mapping[str, str], columns: Mapping[str, str]) -> tuple[Options, str]:
    """Returns the options of a write, and its topic.

    `columns` maps names to types. The topic is empty if the column `topic` names it. Raises OptionError.
    """
    options = _parsed(given)
    allowed = {"value": ("string", "binary"), "key": ("string", "binary"), "topic": ("string",),
               "partition": ("int",), "headers": ("array<struct<key:string,value:binary>>",)}  # fmt: skip
    if "value" not in columns:
        raise OptionError(f"column value is missing; the columns are {', '.join(columns) or 'empty'}")
    for name, kind in columns.items():
        if name not in allowed:
            raise OptionError(f"column {name} cannot be written; {', '.join(allowed)} can")
        if kind not in allowed[name]:
            raise OptionError(f"column {name} is {kind}; it must be {' or '.join(allowed[name])}")
    topic = _lower(given).get("topic", "").strip()
    if not topic and "topic" not in columns:
        raise OptionError("option topic is missing, and the rows have no column topic")
    return options, topic


def _lower(given: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in given.items()}


def address_of(lower: Mapping[str, str]) -> str:
    """Returns the server's address; option names are in lower case. Raises OptionError."""
    bootstrap = lower.get("bootstrap", "").strip()
    if not _ADDRESS.fullmatch(bootstrap):
        raise OptionError(
            f"option bootstrap is {bootstrap!r}; it must be HOST:PORT of the server's gRPC listener, or "
            "tls://HOST:PORT; PORT is 1 to 65535"
        )
    return bootstrap


def _parsed(given: Mapping[str, str]) -> Options:
    lower = _lower(given)
    unknown = sorted(lower.keys() - {name.lower() for name in NAMES} - _SPARK_OPTIONS)
    if unknown:
        raise OptionError(f"unknown option {unknown[0]}; the options are {', '.join(NAMES)}")
    numbers = {name: _number(name, lower.get(name.lower())) for name in NUMBERS}
    choices = {name: _choice(name, lower.get(name.lower())) for name in CHOICES}
    bootstrap = address_of(lower)
    session_id = lower.get("sessionid", "").strip()
    if len(session_id) > _SESSION_LENGTH:
        raise OptionError(
            f"option sessionId has {len(session_id)} characters; 1 to {_SESSION_LENGTH} are allowed"
        )
    topics = tuple(dict.fromkeys(filter(None, (name.strip() for name in lower.get("topics", "").split(",")))))
    starting, ending = (_offsets(name, lower.get(name.lower(), "").strip(), topics) for name in _OFFSETS)
    return Options(
        bootstrap,
        lower.get("group", "").strip(),
        topics,
        session_id,
        numbers["maxRecordsPerTrigger"],
        numbers["recordsPerTask"],
        numbers["minPartitions"],
        numbers["maxWaitMs"],
        numbers["maxBatchDurationMs"],
        cast('Literal["bytes", "string", "json", "arrow"]', choices["value.format"]),
        _schema(lower.get("value.schema", "").strip(), choices["value.format"]),
        cast('Literal["keep", "reject", "fail"]', choices["onMalformed"]),
        choices["verdicts"] == "true",
        choices["onLeaseLost"] == "fail",
        choices["onUnavailable"] == "wait",
        choices["failOnDataLoss"] == "true",
        starting,
        ending,
        transactions=choices["transactions"] == "true",
        transaction_timeout_ms=numbers["transactionTimeoutMs"],
    )


def _offsets(name: str, text: str, topics: Iterable[str]) -> Mapping[Partition, int]:
    """Returns offsets by partition, in the syntax of Spark's Kafka source."""
    if text.lower() in ("", _OFFSET_WORDS[name]):
        return {}
    try:
        offsets = {
            (topic, int(partition)): int(offset)
            for topic, partitions in json.loads(text).items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        offsets = {("", -1): -1}
    unknown_topics = {topic for topic, _ in offsets} - {*topics}
    if unknown_topics or min(offsets.values(), default=0) < 0:
        raise OptionError(
            f"option {name} is {text!r}; it must be {_OFFSET_WORDS[name]}, or offsets from 0 on by topic and "
            'partition, such as {"orders": {"0": 17}}, of topics that are read'
        )
    return offsets


def _schema(text: str, value_format: str) -> str:
    if value_format in _WITH_SCHEMA and not text:
        raise OptionError(
            f"option value.schema is missing: the fields of a value as value.format={value_format} has them, "
            "such as 'id BIGINT, name STRING'"
        )
    if text and value_format not in _WITH_SCHEMA:
        raise OptionError(
            f"option value.schema is for value.format {' or '.join(_WITH_SCHEMA)}; it is {value_format}"
        )
    if text and (reason := check_fields(text)) is not None:
        raise OptionError(f"option value.schema {reason}")
    return text


def _number(name: str, text: str | None) -> int:
    default, low, high = NUMBERS[name]
    try:
        value = default if text is None else int(text)
    except ValueError:
        raise OptionError(f"option {name} is {text!r}; it must be a number, {low} to {high}") from None
    if not low <= value <= high:
        raise OptionError(f"option {name} is {value}; {low} to {high} is allowed")
    return value


def _choice(name: str, text: str | None) -> str:
    allowed = CHOICES[name]
    value = allowed[0] if text is None else text.strip().lower()
    if value not in allowed:
        raise OptionError(f"option {name} is {text!r}; it must be {' or '.join(allowed)}")
    return value


_CHOICES: Final = ("fail", "wait")
"""The first choice is the default: a user waits for the result of a table."""
STATE_NAMES: Final = ("bootstrap", "groups", "topics", "onUnavailable")


@dataclass(frozen=True, slots=True)
class StateOptions:
    """The groups and topics to read; empty: all."""

    bootstrap: str
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    waits: bool = False


def state_options(given: Mapping[str, str]) -> StateOptions:
    """Returns the options. Raises OptionError."""
    lower = {name.lower(): value.strip() for name, value in given.items()}
    unknown = sorted(lower.keys() - {name.lower() for name in STATE_NAMES} - {"path"})
    if unknown:
        raise OptionError(f"unknown option {unknown[0]}; the options are {', '.join(STATE_NAMES)}")
    bootstrap = address_of(lower)
    choice = lower.get("onunavailable", _CHOICES[0]).lower()
    if choice not in _CHOICES:
        raise OptionError(f"option onUnavailable is {choice!r}; it must be {' or '.join(_CHOICES)}")
    return StateOptions(bootstrap, _names(lower, "groups"), _names(lower, "topics"), choice == "wait")


def _names(lower: Mapping[str, str], option: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (name.strip() for name in lower.get(option, "").split(",")))))


def snapshot(
    spans: Mapping[Partition, tuple[int, int]],
    starting: Mapping[Partition, int],
    ending: Mapping[Partition, int],
) -> list[Range]:
    """Returns the ranges of a table, from logs (first offset, end offset) and the requested bounds.

    Requested offsets that were deleted are included, so that the read detects the loss. Raises OptionError
    for an unknown partition, and for an offset beyond the log end.
    """
    for part in {**starting, **ending}:
        if part not in spans:
            raise OptionError(
                f"option startingOffsets or endingOffsets names {part[0]}-{part[1]}, which does not exist"
            )
    bounds = {
        part: (starting.get(part, first), ending.get(part, end)) for part, (first, end) in spans.items()
    }
    for (topic, partition), (first, end) in bounds.items():
        if end > spans[topic, partition][1]:
            raise OptionError(
                f"option endingOffsets ends {topic}-{partition} at {end}, beyond its log end "
                f"{spans[topic, partition][1]}"
            )
        if first > end and (topic, partition) in starting:
            raise OptionError(
                f"option startingOffsets starts {topic}-{partition} at {first}, beyond its end {end}"
            )
    return [Range(*part, first, end - 1) for part, (first, end) in sorted(bounds.items()) if first < end]
