"""`sharebroker quotas`: manages the quotas of clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import typer

import sharebroker
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Server, examples, settings
from sharebroker.cli.output import columns, print_done, print_rows

app = typer.Typer(no_args_is_help=True, help="Set, list and remove quotas of clients.")

_COLUMNS: Final = columns("entity", "quota", "value#")

User = Annotated[str | None, typer.Option("--user", help="Name of a user.")]
ClientId = Annotated[str | None, typer.Option("--client-id", help="Id of a client.")]
Ip = Annotated[str | None, typer.Option("--ip", help="Address of clients.")]
UserDefaults = Annotated[bool, typer.Option("--user-defaults", help="All users without a quota.")]
ClientDefaults = Annotated[bool, typer.Option("--client-defaults", help="All client ids without a quota.")]
IpDefaults = Annotated[bool, typer.Option("--ip-defaults", help="All addresses without a quota.")]
Assignments = Annotated[
    list[str],
    typer.Argument(metavar="QUOTA=VALUE...", help="Quotas, such as producer_byte_rate=1048576."),
]
Quotas = Annotated[list[str], typer.Argument(metavar="QUOTA...", help="Quotas, such as producer_byte_rate.")]


@app.command(
    name="set",
    epilog=examples(
        "sharebroker quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152",
        "sharebroker quotas set --user-defaults --client-id reports consumer_byte_rate=1048576",
        "sharebroker quotas set --ip 10.0.0.7 connection_creation_rate=5",
    ),
)
def set_(
    quotas: Assignments,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    user_defaults: UserDefaults = False,
    client_defaults: ClientDefaults = False,
    ip_defaults: IpDefaults = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Set quotas of an entity; its other quotas remain."""
    values = {key: _number(key, text) for key, text in settings(quotas, "QUOTA=VALUE").items()}
    names = (user, client_id, ip), (user_defaults, client_defaults, ip_defaults)
    _alter(server, _entity(*names), values, as_json)


@app.command(
    epilog=examples(
        "sharebroker quotas remove --user alice producer_byte_rate",
        "sharebroker quotas remove --client-defaults consumer_byte_rate request_percentage",
    )
)
def remove(
    quotas: Quotas,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    user_defaults: UserDefaults = False,
    client_defaults: ClientDefaults = False,
    ip_defaults: IpDefaults = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Remove quotas of an entity."""
    names = (user, client_id, ip), (user_defaults, client_defaults, ip_defaults)
    _alter(server, _entity(*names), dict.fromkeys(quotas), as_json)


@app.command(
    name="list",
    epilog=examples("sharebroker quotas list", "sharebroker quotas list --user alice --json"),
)
def list_(
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    user_defaults: UserDefaults = False,
    client_defaults: ClientDefaults = False,
    ip_defaults: IpDefaults = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List quotas: all, or those of the entities with these names."""
    wanted = _parts((user, client_id, ip), (user_defaults, client_defaults, ip_defaults))
    with sharebroker.Admin(server) as admin:
        found = admin.list_quotas(wanted)
    rows = [
        {"entity": dict(one.entity) if as_json else _text(one.entity), "quota": key, "value": value}
        for one in found
        for key, value in sorted(one.quotas.items())
    ]
    print_rows(rows, _COLUMNS, as_json, "There are no quotas.")


def _alter(
    server: str, entity: dict[str, str | None], values: Mapping[str, float | None], as_json: bool
) -> None:
    with sharebroker.Admin(server) as admin:
        admin.alter_quotas(entity, values)
    result = {"entity": entity, "quotas": values}
    print_done(result, as_json, f"Changed {', '.join(values)} of {_text(entity)}.")


def _entity(names: tuple[str | None, ...], defaults: tuple[bool, ...]) -> dict[str, str | None]:
    """Returns the parts of an entity. Raises typer.BadParameter if there are none."""
    parts = _parts(names, defaults)
    if not parts:
        raise typer.BadParameter("Name a user, a client id, an address, or defaults.", param_hint="entity")
    return parts


def _parts(names: tuple[str | None, ...], defaults: tuple[bool, ...]) -> dict[str, str | None]:
    """Returns names by entity type; None is the default. Raises typer.BadParameter for both of one type."""
    parts: dict[str, str | None] = {}
    for kind, name, default in zip(("user", "client-id", "ip"), names, defaults, strict=True):
        if name is not None and default:
            raise typer.BadParameter("A name and the defaults exclude each other.", param_hint=f"--{kind}")
        if name is not None or default:
            parts[kind] = name
    return parts


def _number(key: str, text: str) -> float:
    """Returns the value of a quota. Raises typer.BadParameter."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.", param_hint=key) from None


def _text(entity: Mapping[str, str | None]) -> str:
    """Returns an entity as `user=alice, client-id=<default>`."""
    return ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity.items())
