"""The settings of dead letter queues: values, sources, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.compat.dead_letters.scenarios import (
    Change,
    Kind,
    Observed,
    Op,
    Run,
    Scenario,
    alter,
    changed,
    create_topic,
    described,
)
from tests.support.kafka_client import KafkaClient

NAME: Final = "errors.deadletterqueue.topic.name"
COPY: Final = "errors.deadletterqueue.copy.record.enable"
ENABLE: Final = "errors.deadletterqueue.group.enable"
CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"


def _altered(kind: Kind, *attempts: Sequence[Change], name: str = "settings", **fields: Any) -> Run:
    """Returns a scenario that makes each change of one resource and returns the outcomes."""

    async def run(client: KafkaClient) -> Observed:
        return [await alter(client, kind, name, *changes, **fields) for changes in attempts]

    return run


def _values(kind: Kind, key: str, *values: str | None) -> Run:
    return _altered(kind, *([(key, value)] for value in values))


def _kept(kind: Kind, name: str, *changes: Change, then: Sequence[Change] = ()) -> Run:
    """Returns a scenario that sets configs, describes them, and removes them; `then` is set in between."""

    async def run(client: KafkaClient) -> Observed:
        keys = [change[0] for change in changes]
        seen = before = await described(client, kind, name, *keys)
        removals: list[Change] = [(key, None, Op.DELETE) for key in keys]
        for step in (changes, then, removals):
            if step:
                outcome = await alter(client, kind, name, *step)
                before = await changed(client, kind, name, keys, before)
                seen = [*seen, outcome, *before]
        return seen

    return run


async def _topic(client: KafkaClient) -> Observed:
    created = await create_topic(client, "dlq.kept", (ENABLE, "true"))
    run = _kept(Kind.TOPIC, "dlq.kept", (ENABLE, "FALSE"), then=[(ENABLE, "True")])
    return [created, *await run(client)]


async def _topic_refusals(client: KafkaClient) -> Observed:
    seen = [await create_topic(client, "dlq.refused")]
    for value in ("yes", "1", ""):
        seen.append(await alter(client, Kind.TOPIC, "dlq.refused", (ENABLE, value)))
        seen.append(await create_topic(client, "dlq.new", (ENABLE, value)))
    seen.append(await alter(client, Kind.TOPIC, "dlq.refused", (NAME, "dlq.a")))
    seen.append(await create_topic(client, "dlq.new", (NAME, "dlq.a")))
    return seen


async def _one_bad_key(client: KafkaClient) -> Observed:
    seen = [await alter(client, Kind.GROUP, "bad", (NAME, "dlq.a"), (COPY, "maybe"))]
    return [*seen, *await described(client, Kind.GROUP, "bad", NAME)]


_USELESS: Final = ("another-prefix", "dlq.a b!", ".", "_x", "d" * 300, "")


def _settings_of(name: str, run: Run, difference: str = "") -> Scenario:
    return Scenario(name, run, difference=difference)


_HINT: Final = "Our text adds a similar key."
_SYNONYMS: Final = "Our synonyms of a topic's config include its default."
_DEFAULT_COPY: Final = "The default is a broker property of ours: group.share.dead.letter.copy.default."

_GROUP, _BROKER = Kind.GROUP, Kind.BROKER

SCENARIOS: Final = [
    _settings_of("group: name", _kept(_GROUP, "g", (NAME, " dlq.t "), then=[(NAME, "")])),
    _settings_of("group: copy", _kept(_GROUP, "g", (COPY, "TRUE")), _DEFAULT_COPY),
    _settings_of("group: a blank name", _kept(_GROUP, "blank", (NAME, ""))),
    _settings_of("group: names that begin with __", _values(_GROUP, NAME, "__x", "  __x")),
    _settings_of("group: names of no use", _values(_GROUP, NAME, *_USELESS)),
    _settings_of("group: copy is no boolean", _values(_GROUP, COPY, "maybe", "", "1")),
    _settings_of("group: foreign keys", _altered(_GROUP, [(ENABLE, "true")], [(PREFIX, "x")]), _HINT),
    _settings_of("group: APPEND", _altered(_GROUP, [(NAME, "x", Op.APPEND)])),
    _settings_of("group: null", _values(_GROUP, NAME, None)),
    _settings_of("group: a key twice", _altered(_GROUP, [(NAME, "dlq.a"), (NAME, "dlq.b")])),
    _settings_of("group: no id", _altered(_GROUP, [(NAME, "dlq.a")], name="")),
    _settings_of(
        "group: validated only", _altered(_GROUP, [(NAME, "dlq.a")], [(NAME, "__a")], validate_only=True)
    ),
    _settings_of("group: one bad key", _one_bad_key),
    _settings_of("topic: enable", _topic, _SYNONYMS),
    _settings_of("topic: refusals", _topic_refusals, _HINT),
    _settings_of("brokers: both", _kept(_BROKER, "", (CREATE, "true"), (PREFIX, "letters."))),
    _settings_of(
        "brokers: prefixes",
        _altered(_BROKER, [(PREFIX, "__a")], [(PREFIX, "")], [(PREFIX, None, Op.DELETE)], name=""),
    ),
    _settings_of(
        "brokers: auto-creation is no boolean",
        _altered(_BROKER, [(CREATE, "maybe")], [(CREATE, "")], [(CREATE, "1")], name=""),
    ),
]
