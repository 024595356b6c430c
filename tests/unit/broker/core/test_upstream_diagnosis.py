"""Findings of doctor about the Kafka cluster that has the records."""

from __future__ import annotations

from sharebroker_server.broker.core.diagnosis import Level
from sharebroker_server.broker.core.upstream_diagnosis import MOST_NAMES, SHORT_MS, UpstreamFacts, of_upstream
from sharebroker_server.kafka_client.core.topic_retention import TopicRetention
from tests.testkit.tables import each

FINE = {"b1:9092": "", "b2:9092": ""}


def test_a_usable_cluster_has_no_findings() -> None:
    assert list(of_upstream(UpstreamFacts(FINE, topics=3))) == []


KEPT = TopicRetention(SHORT_MS)


@each(
    "facts, level, words",
    [
        (
            UpstreamFacts({"b1:9092": "", "b2:9092": "Connection refused."}, topics=1),
            Level.WARNING,
            ("upstream b2:9092", "Connection refused."),
        ),
        (UpstreamFacts({"b1:9092": "Refused."}), Level.ERROR, ("upstream b1:9092", "Kafka 2.4")),
        (UpstreamFacts(FINE), Level.WARNING, ("no topic", "DESCRIBE and READ")),
        (
            UpstreamFacts(
                FINE,
                topics=2,
                unread={"b": "TOPIC_AUTHORIZATION_FAILED.", "a": "TOPIC_AUTHORIZATION_FAILED."},
            ),
            Level.ERROR,
            ("a, b cannot be read: TOPIC_AUTHORIZATION_FAILED.",),
        ),
        (
            UpstreamFacts(FINE, topics=1, leaderless=["a"]),
            Level.WARNING,
            ("a have partitions without a leader",),
        ),
        (UpstreamFacts(FINE, topics=1, has_ids=False), Level.NOTE, ("no topic ids",)),
        (
            UpstreamFacts(FINE, topics=2, retention={"a": TopicRetention(SHORT_MS - 1), "b": KEPT}),
            Level.WARNING,
            ("a keep records for less than an hour", "Raise retention.ms"),
        ),
        (
            UpstreamFacts(FINE, topics=2, retention={"a": TopicRetention(-1, 0), "b": KEPT}),
            Level.NOTE,
            ("a have retention.bytes",),
        ),
        (
            UpstreamFacts(FINE, topics=1, undescribed=["a"]),
            Level.WARNING,
            ("of a is unknown", "DESCRIBE_CONFIGS"),
        ),
    ],
)
def test_a_problem_is_one_finding_with_its_remedy(
    facts: UpstreamFacts, level: Level, words: tuple[str, ...]
) -> None:
    (finding,) = of_upstream(facts)
    assert finding.level is level
    assert bool(finding.remedy) is (level is not Level.NOTE)
    text = " ".join(finding)
    assert [word for word in words if word not in text] == []


def test_many_names_are_shortened() -> None:
    names = [f"t{number}" for number in range(MOST_NAMES + 2)]
    (finding,) = of_upstream(UpstreamFacts(FINE, topics=len(names), leaderless=names))
    assert "t9 and 2 more have" in finding.what
    assert "t10" not in finding.what
