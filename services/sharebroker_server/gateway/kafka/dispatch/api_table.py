"""The APIs that are served: every module of the package `api`. Dispatch and ApiVersions read this table."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from sharebroker_server.gateway.kafka import api
from sharebroker_server.gateway.kafka.dispatch.call import Api, Door


@cache
def served() -> dict[int, Api]:
    """Every API of the package `api`, by its key."""
    modules = (import_module(f"{api.__name__}.{info.name}") for info in pkgutil.iter_modules(api.__path__))
    return {module.API.key: module.API for module in modules if hasattr(module, "API")}


def available(door: Door) -> list[Api]:
    """The APIs that are not switched off by a feature, by key."""
    return sorted((one for one in served().values() if is_on(door, one)), key=lambda one: one.key)


def is_on(door: Door, one: Api) -> bool:
    """Whether the feature the API belongs to is on."""
    return one.feature is None or door.features.get(one.feature, 0) > 0
