"""The options of `sharebroker export` and `import`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.commands.archive_options import stored_in


def test_options_name_a_cluster() -> None:
    found = stored_in(Path("x"), "redis://h:1", ["cluster.id=orders"], "1GiB")
    assert (found.data, found.redis, found.config.cluster_id) == (Path("x"), "redis://h:1", "orders")
    assert found.max_memory == 1 << 30


@pytest.mark.parametrize(("properties", "memory"), [(["nothing=1"], None), ([], "much")])
def test_invalid_options_are_rejected(properties: list[str], memory: str | None) -> None:
    with pytest.raises(KafkaError):
        stored_in(Path("x"), None, properties, memory)
