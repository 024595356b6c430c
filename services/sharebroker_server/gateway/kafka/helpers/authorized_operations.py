"""What a client may do, as bits by Kafka's `AclOperation`: all there is, for nobody is refused here."""

from __future__ import annotations

from typing import Final

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _CLUSTER_ACTION = range(3, 10)
_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = range(10, 13)
_SETTINGS: Final = (_DESCRIBE_CONFIGS, _ALTER_CONFIGS)

_NOT_ASKED: Final = -(1 << 31)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


_TOPIC: Final = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, *_SETTINGS)
_GROUP: Final = _bits(_READ, _DELETE, _DESCRIBE, *_SETTINGS)
_CLUSTER: Final = _bits(_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _IDEMPOTENT_WRITE, *_SETTINGS)


def of_topic(*, asked: bool) -> int:
    """What may be done with a topic, for a client that asked."""
    return _TOPIC if asked else _NOT_ASKED


def of_group(*, asked: bool) -> int:
    """What may be done with a group, for a client that asked."""
    return _GROUP if asked else _NOT_ASKED


def of_cluster(*, asked: bool) -> int:
    """What may be done with the cluster, for a client that asked."""
    return _CLUSTER if asked else _NOT_ASKED
