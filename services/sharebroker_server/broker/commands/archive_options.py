"""The options of `sharebroker export` and `import` that name a cluster and what is selected of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sharebroker_server.broker.settings import ServeSettings

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="PATTERN", help="Only topics with such a name, with * and ?; may be repeated."
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="PATTERN", help="Only groups with such an id; may be repeated."),
]
Data = Annotated[Path, typer.Option(help="The data folder of a cluster with an embedded Valkey.")]
Redis = Annotated[
    str | None,
    typer.Option(
        envvar="SHAREBROKER_REDIS",
        help="Instead of --data: the Redis or Valkey of the cluster, as in `serve`.",
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("--set", help="A broker property of `serve`: cluster.id, and numbers of shards."),
]


def stored_in(
    data: Path, redis: str | None, properties: list[str] | None, max_memory: str | None = None
) -> ServeSettings:
    """Returns where a cluster stores its data. Raises KafkaError INVALID_CONFIG."""
    # The help needs none of these modules.
    from sharebroker_server.broker.settings import ServeSettings, parse_max_memory
    from sharebroker_server.config.broker import BrokerConfig

    return ServeSettings(
        data=data,
        redis=redis,
        config=BrokerConfig.parse(properties or ()),
        max_memory=parse_max_memory(max_memory),
        # The end of an import writes everything to the disk.
        fsync="everysec",
    )
