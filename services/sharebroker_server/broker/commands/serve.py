"""`sharebroker serve`: starts a broker and serves until SIGTERM."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sharebroker_server.broker.defaults import CLOSED, DEFAULT_DATA, DEFAULT_GRPC, DEFAULT_KAFKA

if TYPE_CHECKING:
    from sharebroker_server.broker.logs import Format
    from sharebroker_server.broker.settings import ServeSettings

EXAMPLES = (
    "sharebroker serve",
    "sharebroker serve --grpc 127.0.0.1:0 --ready-file ready.json",
    "sharebroker serve --roles share-coordinator --redis redis://127.0.0.1:6379 --grpc 127.0.0.1:9101",
    "sharebroker serve --log kafka://b1:9092,b2:9092 --upstream-config client.properties",
    "sharebroker serve --set group.share.record.lock.duration.ms=15000 --set num.partitions=4",
    "sharebroker serve --processes auto --metrics 127.0.0.1:9100",
)


def serve(
    data: Annotated[
        Path, typer.Option(help="Folder of the embedded Valkey and this node's identity.")
    ] = DEFAULT_DATA,
    processes: Annotated[
        str,
        typer.Option(
            help="Brokers of this command, each in a process of its own: a number, or auto for one per core. "
            "They share the port of --grpc; their ports for Kafka and metrics are in sequence."
        ),
    ] = "1",
    roles: Annotated[
        str,
        typer.Option(
            help="all, or a comma-separated list of gateway, group-coordinator, "
            "share-partition-leader, share-coordinator."
        ),
    ] = "all",
    grpc: Annotated[
        str, typer.Option(help="HOST:PORT of the gRPC listener; port 0 selects a free one.")
    ] = DEFAULT_GRPC,
    redis: Annotated[
        str | None,
        typer.Option(
            envvar="SHAREBROKER_REDIS",
            help="A Redis (7.0 or newer) or Valkey (8 or newer) instead of an embedded one: redis://, "
            "rediss://, redis+sentinel://HOST:PORT,…/NAME, unix://. Use the variable if the URL has a "
            "password: process lists show options.",
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="kafka://HOST:PORT,…: the topics and records are in this Kafka cluster (2.4 or newer), and "
            "only the state of share groups is stored here.",
        ),
    ] = None,
    upstream_config: Annotated[
        Path | None,
        typer.Option(
            help="Property file of a Kafka client for the cluster of --log: security.protocol, sasl.…, ssl.… "
            "with PEM. Secrets: ${env:NAME}, ${file:PATH:KEY}, ${dir:PATH:NAME}."
        ),
    ] = None,
    proxy: Annotated[
        bool,
        typer.Option(
            "--proxy",
            help="Passes the requests of producers, consumers and transactions to the cluster of --log, so "
            "that one address serves them and share consumers.",
        ),
    ] = False,
    advertise: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT for peers; by default the --grpc address (with --redis, the host name of the "
            "machine instead of 0.0.0.0)."
        ),
    ] = None,
    fsync: Annotated[
        Literal["always", "everysec"],
        typer.Option(
            help="When the embedded Valkey flushes its log to disk; `everysec` can lose the last second."
        ),
    ] = "always",
    max_memory: Annotated[
        str | None,
        typer.Option(
            help="Memory of the embedded Valkey at which publishing is rejected, for example 512MiB or 4GiB; "
            "0 for no limit. By default three eighths of the memory of the cgroup or the machine."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A broker property, key=value; may be repeated."),
    ] = None,
    kafka: Annotated[
        str,
        typer.Option(help="HOST:PORT of the Kafka listener of a gateway; `none` for no Kafka listener."),
    ] = DEFAULT_KAFKA,
    kafka_advertise: Annotated[
        str | None,
        typer.Option(help="HOST:PORT for Kafka clients; by default the host of --advertise."),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            help="Level of a feature in a new cluster, NAME=LEVEL; share.version=0 disables share groups for "
            "Kafka clients. `sharebroker features set` changes the levels of a running cluster."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            envvar="SHAREBROKER_METRICS",
            help="HOST:PORT for Prometheus (/metrics) and probes (/startedz, /readyz, /livez), over plain "
            "HTTP; off by default.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            help="Certificate with its chain in PEM; enables TLS for both listeners and for calls to peers."
        ),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="Key of the certificate in PEM, without a password.")
    ] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            help="Trusted authorities in PEM, for peers, and for clients with --set ssl.client.auth=required."
        ),
    ] = None,
    tls_server_name: Annotated[
        str | None,
        typer.Option(help="Server name in the certificates of peers, if it is not their address."),
    ] = None,
    admin_user: Annotated[
        str | None,
        typer.Option(
            help="User that is created with the password of --admin-password-file unless it exists."
        ),
    ] = None,
    admin_password_file: Annotated[
        Path | None, typer.Option(help="File with the password of --admin-user in its first line.")
    ] = None,
    cluster_secret_file: Annotated[
        Path | None,
        typer.Option(
            envvar="SHAREBROKER_CLUSTER_SECRET_FILE",
            help="File with the secret of the cluster's processes, one per line: the first signs, all are "
            "accepted; read again when it changes. By default a secret is generated and stored in Redis.",
        ),
    ] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(help="File that is written as JSON with the addresses once the broker serves."),
    ] = None,
    log_format: Annotated[
        Literal["auto", "json", "text"],
        typer.Option(help="Format of log lines on standard error; auto: text on a terminal, else JSON."),
    ] = "auto",
    audit_file: Annotated[
        Path | None,
        typer.Option(
            help="File for the audit log, as JSON lines; opened again when it is renamed. By default audit "
            "lines are written to standard error."
        ),
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the settings as JSON without secrets, and exit.")
    ] = False,
) -> None:
    """Run a broker with all roles, or with some of them."""
    # The help needs none of the modules of the services.
    from sharebroker_protocol.errors import KafkaError
    from sharebroker_protocol.tracing.settings import read as read_telemetry
    from sharebroker_server.broker.logs import configure_logging, open_audit_file
    from sharebroker_server.broker.observability import log_unknown_variables
    from sharebroker_server.broker.processes.plan import check_processes, parse_processes
    from sharebroker_server.broker.settings import (
        ServeSettings,
        check_authentication,
        check_proxy,
        describe,
        parse_address,
        parse_first_user,
        parse_log,
        parse_max_memory,
        parse_roles,
        parse_tls,
    )
    from sharebroker_server.catalog.features import parse_features
    from sharebroker_server.catalog.upstream_rules import check_storage
    from sharebroker_server.config.broker import BrokerConfig

    configure_logging(log_format)
    try:
        for text, option, lowest in (
            (grpc, "--grpc", 0),
            (advertise, "--advertise", 1),
            (None if kafka == CLOSED else kafka, "--kafka", 0),
            (kafka_advertise, "--kafka-advertise", 1),
            (metrics, "--metrics", 0),
        ):
            if text is not None:
                parse_address(text, option, lowest)
        config = BrokerConfig.parse(set_ or ())
        tls = parse_tls(tls_cert, tls_key, tls_ca, tls_server_name, config)
        check_authentication(tls, config)
        upstream = parse_log(log, upstream_config)
        if upstream is not None:
            check_storage(config.group_share_state_storage)
        settings = ServeSettings(
            data=data,
            processes=parse_processes(processes),
            roles=parse_roles(roles),
            grpc=grpc,
            redis=redis,
            advertise=advertise,
            kafka=kafka,
            kafka_advertise=kafka_advertise,
            features=parse_features(feature or ()),
            fsync=fsync,
            max_memory=parse_max_memory(max_memory),
            ready_file=ready_file,
            metrics=metrics,
            telemetry=read_telemetry(),
            tls=tls,
            cluster_secret_file=cluster_secret_file,
            first_user=parse_first_user(admin_user, admin_password_file),
            upstream=upstream,
            proxy=check_proxy(proxy, log, kafka),
            config=config,
        )
        check_processes(settings)
        if audit_file is not None and not print_config:
            open_audit_file(audit_file)
        log_unknown_variables()
        if print_config:
            typer.echo(describe(settings))
            return
        code, failure = _serve(settings, log_format, audit_file)
    except KafkaError as error:
        code, failure = 2, error.message
    if failure:
        typer.echo(f"sharebroker serve: {failure}", err=True)
        raise typer.Exit(code)


def _serve(settings: ServeSettings, log_format: Format, audit_file: Path | None) -> tuple[int, str]:
    """Serves until a signal; returns the exit code, and the reason of a failure."""
    import uvloop

    if settings.processes > 1:
        from sharebroker_server.broker.processes.supervisor import Supervisor

        return uvloop.run(Supervisor(settings, log_format, audit_file).run())
    from sharebroker_server.broker.authentication import log_unauthenticated
    from sharebroker_server.broker.process import Process, run

    uvloop.run(run(Process(settings), partial(log_unauthenticated, settings)))
    return 0, ""
