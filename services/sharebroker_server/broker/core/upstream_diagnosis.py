"""Rules of `sharebroker doctor` about the Kafka cluster that has the records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sharebroker_server.broker.core.diagnosis import Finding, Level

SUBJECT: Final = "upstream"

MOST_NAMES: Final = 10
"""Maximum number of names in a finding."""

OLDEST: Final = "Kafka 2.4 is the oldest release that can be used."


@dataclass(frozen=True, slots=True)
class UpstreamFacts:
    """What each address responded ("" if it is usable), and what each topic refused.

    `unread` has the reason by topic, `leaderless` the topics with a partition without leader. `topics` is the
    number of topics, all of which have ids if `has_ids`.
    """

    addresses: Mapping[str, str]
    topics: int = 0
    has_ids: bool = True
    unread: Mapping[str, str] = field(default_factory=dict)
    leaderless: Sequence[str] = ()


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
    if facts.topics and not facts.has_ids:
        yield Finding(
            Level.NOTE,
            SUBJECT,
            "It has no topic ids: a topic that is quickly recreated counts as the same.",
            "",
        )


def _names(topics: Sequence[str]) -> str:
    shown = ", ".join(topics[:MOST_NAMES])
    rest = len(topics) - MOST_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown
