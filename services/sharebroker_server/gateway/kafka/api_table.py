"""The served APIs. Dispatch and ApiVersions read this table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Final

from sharebroker_server.gateway.kafka import api
from sharebroker_server.gateway.kafka.call import Api

_HANDLERS: Final = [module for module in vars(api).values() if isinstance(module, ModuleType)]

APIS: Final[Mapping[int, Api]] = MappingProxyType(
    {module.API.key: module.API for module in sorted(_HANDLERS, key=lambda module: int(module.API.key))}
)
"""The APIs of the modules that the package `api` imports, by key."""
