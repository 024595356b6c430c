"""What the brokers of one command share: the gRPC port and the embedded Valkey."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from sharebroker_server.broker.identity import PeerListener, advertised, node_identity
from sharebroker_server.broker.observability import Observability
from sharebroker_server.broker.processes.plan import broker_settings, peer_listener
from sharebroker_server.broker.redis import open_redis
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.redis_link.links import unreachable
from sharebroker_server.rpc.server import reserve


@dataclass(frozen=True, slots=True)
class Shared:
    """The gRPC port and its address for clients, the settings of each broker, and the listener for peers."""

    address: str
    port: int
    brokers: list[ServeSettings]
    peers: PeerListener


async def open_shared(settings: ServeSettings, observed: Observability, stack: AsyncExitStack) -> Shared:
    """Binds the gRPC port, and starts the embedded Valkey unless `settings` name a Redis.

    `stack` closes both. Raises KafkaError INVALID_CONFIG.
    """
    held = reserve(settings.grpc)
    stack.callback(held.close)
    port = held.getsockname()[1]
    address = advertised(settings, port)
    redis = settings.redis or await _start_valkey(settings, observed, stack)
    node_id = node_identity(settings, address).node_id
    brokers = broker_settings(settings, port, redis, node_id)
    return Shared(address, port, brokers, peer_listener(settings))


async def _start_valkey(settings: ServeSettings, observed: Observability, stack: AsyncExitStack) -> str:
    """Returns the URL of the embedded Valkey."""
    redis = await open_redis(settings, stack)
    assert redis.embedded is not None, "only settings without a Redis start one"
    observed.metrics.add(redis.families)
    observed.health.checks.append(partial(unreachable, redis.reads))
    return redis.embedded.url
