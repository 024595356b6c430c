"""Rules of `sharebroker doctor` about the Kafka cluster that has the records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sharebroker_server.broker.core.diagnosis import Finding, Level
from sharebroker_server.kafka_client.core.topic_retention import TopicRetention

SUBJECT: Final = "upstream"

MOST_NAMES: Final = 10
"""Maximum number of names in a finding."""

SHORT_MS: Final = 3_600_000
"""A retention that is too short to repair a group in."""

OLDEST: Final = "Kafka 2.4 is the oldest release that can be used."


@dataclass(frozen=True, slots=True)
class UpstreamFacts:
    """What each address responded ("" if it is usable), and what each topic refused.

    `unread` has the reason by topic, `leaderless` the topics with a partition without leader. `topics` is the
    number of topics, all of which have ids if `has_ids`. `retention` lacks the topics in `undescribed`.
    """

    addresses: Mapping[str, str]
    topics: int = 0
    has_ids: bool = True
    unread: Mapping[str, str] = field(default_factory=dict)
    leaderless: Sequence[str] = ()
    retention: Mapping[str, TopicRetention] = field(default_factory=dict)
    undescribed: Sequence[str] = ()


def of_upstream(facts: UpstreamFacts) -> Iterator[Finding]:
    """Reports brokers that cannot be used, and topics that cannot be read."""
    failed = {address: reason for address, reason in facts.addresses.items() if reason}
    level = Level.ERROR if len(failed) == len(facts.addresses) else Level.WARNING
    for address, reason in sorted(failed.items()):
        remedy = f"Check the address, the network and --upstream-config. {OLDEST}"
        yield Finding(level, f"{SUBJECT} {address}", reason, remedy)
    if level is Level.ERROR:
        return
    yield from _of_topics(facts)


def _of_topics(facts: UpstreamFacts) -> Iterator[Finding]:
    if not facts.topics:
        yield Finding(
            Level.WARNING,
            SUBJECT,
            "There is no topic that Sharebroker may describe.",
            "Create a topic, or grant DESCRIBE and READ on topics to its user.",
        )
    reasons: dict[str, list[str]] = {}
    for topic, reason in sorted(facts.unread.items()):
        reasons.setdefault(reason, []).append(topic)
    for reason, topics in reasons.items():
        what = f"{_names(topics)} cannot be read: {reason}"
        yield Finding(Level.ERROR, SUBJECT, what, "Grant DESCRIBE and READ on these topics.")
    if facts.leaderless:
        yield Finding(
            Level.WARNING,
            SUBJECT,
            f"{_names(facts.leaderless)} have partitions without a leader, whose records are not delivered.",
            "Start the brokers that have their replicas.",
        )
    yield from _of_retention(facts)
    if facts.topics and not facts.has_ids:
        yield Finding(
            Level.NOTE,
            SUBJECT,
            "It has no topic ids: a topic that is quickly recreated counts as the same.",
            "",
        )


def _of_retention(facts: UpstreamFacts) -> Iterator[Finding]:
    short = [name for name, kept in sorted(facts.retention.items()) if 0 <= kept.ms < SHORT_MS]
    if short:
        yield Finding(
            Level.WARNING,
            SUBJECT,
            f"{_names(short)} keep records for less than an hour (retention.ms). "
            "A group that is behind for longer loses records.",
            "Raise retention.ms of these topics above the longest time for which a group may be behind.",
        )
    limited = [name for name, kept in sorted(facts.retention.items()) if kept.bytes >= 0]
    if limited:
        what = f"{_names(limited)} have retention.bytes, which may delete records before retention.ms does."
        yield Finding(Level.NOTE, SUBJECT, what, "")
    if facts.undescribed:
        what = f"The retention of {_names(facts.undescribed)} is unknown, so that no alert warns of deletion."
        yield Finding(Level.WARNING, SUBJECT, what, "Grant DESCRIBE_CONFIGS on these topics.")


def _names(topics: Sequence[str]) -> str:
    shown = ", ".join(topics[:MOST_NAMES])
    rest = len(topics) - MOST_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown
