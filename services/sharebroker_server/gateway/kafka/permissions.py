"""The permissions that each Kafka API requires, and where it reports that one is missing.

One row per API key; a test denies each of them. The error is the AUTHORIZATION_FAILED error of the resource's
type. Source: Kafka's `KafkaApis`, `ControllerApis`, `AclApis` and `ConfigHelper`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from sharebroker_server.security.acl import AclOperation, AclResourceType


class MissingPermission(Enum):
    """What a response reports when a permission is missing."""

    FAILS_REQUEST = "request"
    """The whole request fails."""

    FAILS_ITEM = "item"
    """The topic, partition, group or transaction has the error; the others are served."""

    OMITS_ITEM = "omits"
    """The item is left out without an error."""


class ApiPermission(NamedTuple):
    """An operation on a type of resource, and what happens without the permission.

    `alternative` is another permission that is sufficient.
    """

    operation: AclOperation
    type: AclResourceType
    missing: MissingPermission
    alternative: tuple[AclOperation, AclResourceType] | None = None


_TOPIC, _GROUP, _CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
_TRANSACTION: Final = AclResourceType.TRANSACTIONAL_ID
_READ, _WRITE, _CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
_DELETE, _ALTER, _DESCRIBE = AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
_REQUEST, _ITEM = MissingPermission.FAILS_REQUEST, MissingPermission.FAILS_ITEM
_OMITS: Final = MissingPermission.OMITS_ITEM

_READ_GROUP: Final = ApiPermission(_READ, _GROUP, _REQUEST)
_READ_TOPIC: Final = ApiPermission(_READ, _TOPIC, _ITEM)
_DESCRIBE_TOPIC: Final = ApiPermission(_DESCRIBE, _TOPIC, _ITEM)
_DESCRIBE_GROUP: Final = ApiPermission(_DESCRIBE, _GROUP, _ITEM)
_WRITE_TRANSACTION: Final = ApiPermission(_WRITE, _TRANSACTION, _REQUEST)
_CREATE_TOPIC: Final = ApiPermission(_CREATE, _TOPIC, _ITEM, (_CREATE, _CLUSTER))
_CLUSTER_ACTION: Final = ApiPermission(AclOperation.CLUSTER_ACTION, _CLUSTER, _REQUEST)
_DESCRIBE_CLUSTER: Final = ApiPermission(_DESCRIBE, _CLUSTER, _REQUEST)
_ALTER_CLUSTER: Final = ApiPermission(_ALTER, _CLUSTER, _REQUEST)
_ALTER_CONFIGS_OF: Final = tuple(
    ApiPermission(_ALTER_CONFIGS, kind, _ITEM) for kind in (_TOPIC, _GROUP, _CLUSTER)
)

API_PERMISSIONS: Final[Mapping[int, tuple[ApiPermission, ...]]] = MappingProxyType(
    {
        0: (ApiPermission(_WRITE, _TOPIC, _ITEM), _WRITE_TRANSACTION),
        1: (_READ_TOPIC,),
        2: (_DESCRIBE_TOPIC,),
        3: (_DESCRIBE_TOPIC, _CREATE_TOPIC),
        8: (_READ_GROUP, _READ_TOPIC),
        9: (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
        10: (
            _DESCRIBE_GROUP,
            ApiPermission(_DESCRIBE, _TRANSACTION, _ITEM),
            ApiPermission(AclOperation.CLUSTER_ACTION, _CLUSTER, _ITEM),
        ),
        11: (_READ_GROUP,),
        12: (_READ_GROUP,),
        13: (_READ_GROUP,),
        14: (_READ_GROUP,),
        15: (_DESCRIBE_GROUP,),
        16: (ApiPermission(_DESCRIBE, _GROUP, _OMITS, (_DESCRIBE, _CLUSTER)),),
        17: (),
        18: (),
        19: (_CREATE_TOPIC, ApiPermission(_DESCRIBE_CONFIGS, _TOPIC, _ITEM)),
        20: (ApiPermission(_DELETE, _TOPIC, _ITEM, (_DELETE, _CLUSTER)),),
        21: (ApiPermission(_DELETE, _TOPIC, _ITEM),),
        22: (
            _WRITE_TRANSACTION,
            ApiPermission(AclOperation.IDEMPOTENT_WRITE, _CLUSTER, _REQUEST, (_WRITE, _TOPIC)),
        ),
        23: (ApiPermission(_DESCRIBE, _TOPIC, _ITEM, (AclOperation.CLUSTER_ACTION, _CLUSTER)),),
        24: (_WRITE_TRANSACTION, ApiPermission(_WRITE, _TOPIC, _ITEM), _CLUSTER_ACTION),
        25: (_WRITE_TRANSACTION, _READ_GROUP),
        26: (_WRITE_TRANSACTION,),
        28: (_WRITE_TRANSACTION, _READ_GROUP, _READ_TOPIC),
        29: (_DESCRIBE_CLUSTER,),
        30: (_ALTER_CLUSTER,),
        31: (_ALTER_CLUSTER,),
        32: tuple(ApiPermission(_DESCRIBE_CONFIGS, kind, _ITEM) for kind in (_TOPIC, _GROUP, _CLUSTER)),
        33: _ALTER_CONFIGS_OF,
        35: (_DESCRIBE_CLUSTER,),
        36: (),
        37: (ApiPermission(_ALTER, _TOPIC, _ITEM),),
        42: (ApiPermission(_DELETE, _GROUP, _ITEM),),
        44: _ALTER_CONFIGS_OF,
        47: (ApiPermission(_DELETE, _GROUP, _REQUEST), _READ_TOPIC),
        48: (ApiPermission(_DESCRIBE_CONFIGS, _CLUSTER, _REQUEST),),
        49: (ApiPermission(_ALTER_CONFIGS, _CLUSTER, _REQUEST),),
        50: (_DESCRIBE_CLUSTER,),
        51: (_ALTER_CLUSTER,),
        57: (_ALTER_CLUSTER,),
        60: (),
        61: (_READ_TOPIC,),
        65: (ApiPermission(_DESCRIBE, _TRANSACTION, _ITEM), ApiPermission(_DESCRIBE, _TOPIC, _OMITS)),
        66: (ApiPermission(_DESCRIBE, _TRANSACTION, _OMITS),),
        68: (),
        74: (ApiPermission(_DESCRIBE_CONFIGS, _CLUSTER, _REQUEST),),
        75: (_DESCRIBE_TOPIC,),
        76: (_READ_GROUP, ApiPermission(_DESCRIBE, _TOPIC, _REQUEST)),
        77: (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
        78: (_READ_GROUP, _READ_TOPIC),
        79: (_READ_GROUP, _READ_TOPIC),
        90: (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
        91: (_READ_GROUP, _READ_TOPIC),
        92: (ApiPermission(_DELETE, _GROUP, _REQUEST), _READ_TOPIC),
    }
)
"""The required permissions by API key.

Produce and InitProducerId require WRITE on a transactional id only with one. The request selects the type of
resource of FindCoordinator, AddPartitionsToTxn and the config APIs.
"""
