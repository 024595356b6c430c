"""`sharebroker doctor`: checks a cluster, and reports problems with their remedies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from sharebroker.cli.options import AsJson, LagServer
from sharebroker.cli.output import BAD_USAGE, FAILED, columns, print_failure, print_notice, print_rows

EXAMPLES: Final = (
    "sharebroker doctor --redis redis://127.0.0.1:6379",
    "sharebroker doctor --data data",
    "sharebroker doctor --data data --log kafka://b1:9092,b2:9092",
    "sharebroker doctor --redis redis://127.0.0.1:6379 --set cluster.id=orders --json",
)
_NO_FINDINGS: Final = "No problems found."
_COLUMNS: Final = columns("level", "subject", "what FINDING", "remedy WHAT TO DO")


def doctor(
    redis: Annotated[
        str | None, typer.Option(envvar="SHAREBROKER_REDIS", help="The Redis of the cluster.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Instead of --redis: the data folder of a running server with an embedded Valkey.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A broker property of `serve`: cluster.id, and numbers of shards."),
    ] = None,
    server: LagServer = None,
    log: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The option of `serve`: check this Kafka cluster as well."),
    ] = None,
    upstream_config: Annotated[
        Path | None, typer.Option(help="The option of `serve`: property file of a client for --log.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a cluster for problems.

    The exit code is 1 if there are errors, and 0 if there are at most warnings.
    """
    # The help needs none of these modules.
    import asyncio

    from sharebroker_protocol.address import Address
    from sharebroker_protocol.errors import KafkaError
    from sharebroker_server.broker.commands.cluster_examination import examine
    from sharebroker_server.broker.core.diagnosis import Level
    from sharebroker_server.broker.examination.upstream import examine_upstream
    from sharebroker_server.broker.logs import WarningsOnStderr
    from sharebroker_server.broker.settings import parse_log
    from sharebroker_server.config.broker import BrokerConfig
    from sharebroker_server.redis_link.port import RedisError

    if (redis is None) == (data is None):
        raise typer.BadParameter("Either --redis or --data is required, and not both.")
    try:
        if server is not None:
            Address.parse(server)
        upstream = parse_log(log, upstream_config)
        with WarningsOnStderr():
            findings = asyncio.run(examine(redis, BrokerConfig.parse(set_ or ()), server, data))
            if upstream is not None:
                findings += asyncio.run(examine_upstream(upstream))
    except (RedisError, KafkaError) as error:
        print_failure(error, as_json, "sharebroker doctor", str(error))
        raise typer.Exit(BAD_USAGE) from None
    print_rows([finding._asdict() for finding in findings], _COLUMNS, as_json, _NO_FINDINGS)
    if not as_json and findings and all(finding.level is Level.NOTE for finding in findings):
        print_notice(_NO_FINDINGS)
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(FAILED)
