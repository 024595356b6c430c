"""One-shot connections: errors of redis-py become ours."""

from __future__ import annotations

import socket

import pytest

from sharebroker_server.redis_link.link.errors import RedisRefused, RedisUnavailable
from sharebroker_server.redis_link.topology import one_shot
from sharebroker_server.redis_link.topology.redis_url import Target
from tests.testkit.servers import free_port, running


async def test_a_closed_port_is_unavailable() -> None:
    with pytest.raises(RedisUnavailable):
        await one_shot.query(Target.parse(f"redis://127.0.0.1:{free_port()}"), "PING")


async def test_a_frozen_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_shot, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        port = frozen.getsockname()[1]
        with pytest.raises(TimeoutError):
            await one_shot.query(Target.parse(f"redis://127.0.0.1:{port}"), "PING")


async def test_error_responses_keep_their_code() -> None:
    with running("valkey", "--requirepass", "hush") as server:
        target = Target.parse(f"redis://127.0.0.1:{server.port}")
        with pytest.raises(RedisRefused) as refused:
            await one_shot.query(target, "GET", "a")
        assert refused.value.code == "NOAUTH"
        with pytest.raises(RedisRefused) as refused:
            await one_shot.query(Target.parse(f"redis://:wrong@127.0.0.1:{server.port}"), "GET", "a")
        assert refused.value.code == "WRONGPASS"
        right = Target.parse(f"redis://:hush@127.0.0.1:{server.port}")
        with pytest.raises(RedisRefused) as refused:
            await one_shot.query(right, "NOSUCH")
        assert refused.value.code == "ERR"
        assert await one_shot.query(right, "PING")
