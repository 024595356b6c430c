"""The metadata of a KEDA trigger: the share group and topic whose lag scales workers, and its numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_server.catalog.topics import check_group_id, check_topic_name

DEFAULT_PER_WORKER: Final = 100
_OURS: Final = ("group", "topic", "lagPerWorker", "activationLag")
_KEDAS: Final = frozenset(
    {"scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey", "tlsCertFile"}
)
"""Keys of KEDA's triggers `external` and `external-push` for KEDA itself; it forwards all keys."""
_METADATA: Final = "scalerMetadata"
_FROM_ENV: Final = "FromEnv"
"""Suffix of keys whose value KEDA reads from the environment of the workers."""
_MOST: Final = (2**63 - 1) // 1000
"""KEDA counts in thousandths, in 64 bits."""
_DIGITS: Final = re.compile(r"\d{1,19}", re.ASCII)
_NOT_FOR_A_NAME: Final = re.compile(r"[^a-z0-9-]+")


class Trigger(NamedTuple):
    """The group and topic ("": all topics of the group) whose lag is reported; numbers of records."""

    group_id: str
    topic: str
    per_worker: int
    activation: int

    @property
    def metric(self) -> str:
        """A metric name that Kubernetes accepts."""
        return f"sharebroker-{_NOT_FOR_A_NAME.sub('-', self.group_id.lower())}"


def trigger_of(metadata: Mapping[str, str]) -> Trigger:
    """Parses a trigger's metadata.

    Raises KafkaError INVALID_REQUEST, also for an unknown key, INVALID_TOPIC_EXCEPTION for an invalid topic
    name.
    """
    for name in sorted(metadata):
        if name not in _OURS and name.removesuffix(_FROM_ENV) not in _KEDAS:
            raise _invalid(name[:80], f"is unknown; valid keys: {', '.join(_OURS)}")
    group_id = metadata.get("group", "")
    if not group_id:
        raise _invalid("group", "is required: the share group of the workers")
    check_group_id(group_id, f"{_METADATA}.group")
    topic = metadata.get("topic", "")
    if topic:
        check_topic_name(topic, f"{_METADATA}.topic")
    return Trigger(
        group_id,
        topic,
        _number(metadata, "lagPerWorker", DEFAULT_PER_WORKER, 1),
        _number(metadata, "activationLag", 0, 0),
    )


def _number(metadata: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = metadata.get(name, "")
    if not text:
        return default
    if not _DIGITS.fullmatch(text) or not least <= int(text) <= _MOST:
        raise _invalid(name, f"must be a whole number from {least} to {_MOST}; not {text[:40]!r}")
    return int(text)


def _invalid(name: str, problem: str) -> KafkaError:
    field = f"{_METADATA}.{name}"
    violations = [FieldViolation(field, problem)]
    return KafkaError(ErrorCode.INVALID_REQUEST, f"{field}: {problem}", violations=violations)
