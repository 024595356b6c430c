"""The authorized operations of a client, as bits of Kafka's `AclOperation`: all of them, since there are no
ACLs.
"""

from __future__ import annotations

from typing import Final

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _CLUSTER_ACTION = range(3, 10)
_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = range(10, 13)
_CONFIGS: Final = (_DESCRIBE_CONFIGS, _ALTER_CONFIGS)

_NOT_REQUESTED: Final = -(1 << 31)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


_TOPIC: Final = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, *_CONFIGS)
_GROUP: Final = _bits(_READ, _DELETE, _DESCRIBE, *_CONFIGS)
_CLUSTER: Final = _bits(_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _IDEMPOTENT_WRITE, *_CONFIGS)


def of_topic(*, requested: bool) -> int:
    """Returns the operations on a topic; Kafka's "not requested" value unless `requested`."""
    return _TOPIC if requested else _NOT_REQUESTED


def of_group(*, requested: bool) -> int:
    """Returns the operations on a group; Kafka's "not requested" value unless `requested`."""
    return _GROUP if requested else _NOT_REQUESTED


def of_cluster(*, requested: bool) -> int:
    """Returns the operations on the cluster; Kafka's "not requested" value unless `requested`."""
    return _CLUSTER if requested else _NOT_REQUESTED
