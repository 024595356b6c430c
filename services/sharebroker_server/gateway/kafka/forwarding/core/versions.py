"""The versions of forwarded APIs: those that this broker and all brokers of the cluster have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sharebroker_server.gateway.kafka.call import Api
from sharebroker_server.kafka_client.core.apis import Range, Versions


def limited(
    apis: Mapping[int, Api], forwarded: Collection[int], brokers: Collection[Versions]
) -> dict[int, Api]:
    """Returns the APIs that can be served, each with the versions that all brokers have as well.

    A client's request is forwarded in the client's version. APIs without a common version are left out.
    """
    found = {key: api for key, api in apis.items() if key not in forwarded}
    for key in forwarded:
        first, last = _common(apis[key].versions, [versions.offered(key) for versions in brokers])
        if first <= last:
            found[key] = replace(apis[key], versions=(first, last))
    return found


def _common(own: Range, others: Collection[Range]) -> Range:
    return _bound(max, own, others, 0), _bound(min, own, others, 1)


def _bound(choose: Callable[..., int], own: Range, others: Collection[Range], end: int) -> int:
    return choose(own[end], *(versions[end] for versions in others)) if others else own[end]
