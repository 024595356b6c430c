"""`sharebroker acls`: lists, adds and removes ACLs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final, NamedTuple

import typer

import sharebroker
from sharebroker.acls import CLUSTER, OPERATIONS, Acl, AclSelection
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Server, examples
from sharebroker.cli.output import columns, print_done, print_rows

app = typer.Typer(no_args_is_help=True, help="List, add and remove ACLs: who may do what.")

_COLUMNS: Final = columns(
    "principal",
    "permission_type PERMISSION",
    "operation",
    "resource_type TYPE",
    "resource_name NAME",
    "pattern_type PATTERN",
    "host",
)

Principal = Annotated[str, typer.Argument(help="Name of a user, or `User:*` for everyone.")]
SomePrincipal = Annotated[str | None, typer.Option(help="Name of a user, or `User:*` for everyone.")]
Operations = Annotated[
    list[str] | None, typer.Option("--operation", help=f"May repeat: {', '.join(OPERATIONS)}.")
]
Topic = Annotated[str | None, typer.Option(help="Name of a topic; `*` for all.")]
Group = Annotated[str | None, typer.Option(help="Id of a group; `*` for all.")]
TransactionalId = Annotated[str | None, typer.Option(help="Transactional id; `*` for all.")]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="All names that begin with the given one.")]
Host = Annotated[str | None, typer.Option(help="Address, or range such as 10.0.0.0/8.")]
Deny = Annotated[bool, typer.Option("--deny", help="An ACL that denies; it wins over those that allow.")]


class _Resource(NamedTuple):
    type: str
    name: str


@app.command(
    name="list",
    epilog=examples(
        "sharebroker acls list",
        "sharebroker acls list --principal alice",
        "sharebroker acls list --topic orders   # all ACLs that are about this topic",
    ),
)
def list_(
    principal: SomePrincipal = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List the ACLs, or those of a user or about a resource."""
    resource = _resource(topic, group, transactional_id, cluster)
    wanted = AclSelection(
        principal=None if principal is None else _principal(principal),
        resource_type=resource.type if resource else None,
        resource_name=resource.name if resource else None,
        pattern_type="match" if resource else None,
    )
    with sharebroker.Admin(server) as admin:
        rows = [asdict(acl) for acl in admin.list_acls(wanted)]
    print_rows(rows, _COLUMNS, as_json, "There are no such ACLs. Add one: sharebroker acls add --help")


@app.command(
    epilog=examples(
        "sharebroker acls add alice --operation read --topic orders",
        "sharebroker acls add alice --operation read --group workers- --prefixed",
        "sharebroker acls add bob --operation write --topic '*' --deny",
        "sharebroker acls add carol --operation alter --cluster",
    )
)
def add(
    principal: Principal,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    deny: Deny = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Allow or deny a user to use a resource; an ACL that exists is no error."""
    acls = [
        Acl(
            _principal(principal),
            each,
            *_required(_resource(topic, group, transactional_id, cluster)),
            "prefixed" if prefixed else "literal",
            host or "*",
            "deny" if deny else "allow",
        )
        for each in _operations(operation)
    ]
    with sharebroker.Admin(server) as admin:
        admin.create_acls(acls)
    print_done([asdict(acl) for acl in acls], as_json, f"Added {len(acls)} ACLs of {acls[0].principal}.")


@app.command(
    epilog=examples(
        "sharebroker acls remove alice --operation read --topic orders",
        "sharebroker acls remove alice   # all ACLs of the user",
    )
)
def remove(
    principal: Principal,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    deny: Deny = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Remove the ACLs of a user: those with the given fields, else all."""
    resource = _resource(topic, group, transactional_id, cluster)
    if prefixed and resource is None:
        raise typer.BadParameter("needs a topic, a group or a transactional id", param_hint="--prefixed")
    operations: list[str | None] = list(operation) if operation else [None]
    filters = [
        AclSelection(
            _principal(principal),
            each,
            resource.type if resource else None,
            resource.name if resource else None,
            ("prefixed" if prefixed else "literal") if resource else None,
            host,
            "deny" if deny else None,
        )
        for each in operations
    ]
    with sharebroker.Admin(server) as admin:
        removed = [acl for wanted in filters for acl in admin.delete_acls(wanted)]
    rows = [asdict(acl) for acl in removed]
    print_done(rows, as_json, f"Removed {len(rows)} ACLs of {_principal(principal)}.")


def _principal(name: str) -> str:
    return name if ":" in name else f"User:{name}"


def _operations(given: list[str] | None) -> list[str]:
    if not given:
        raise typer.BadParameter("name at least one operation", param_hint="--operation")
    return given


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> _Resource | None:
    """Returns the resource that the options name; None without any. Raises typer.BadParameter for several."""
    named = [("topic", topic), ("group", group), ("transactional-id", transactional_id)]
    found = [_Resource(kind, name) for kind, name in named if name is not None]
    found += [_Resource("cluster", CLUSTER)] if cluster else []
    if len(found) > 1:
        raise typer.BadParameter("name one of --topic, --group, --transactional-id and --cluster")
    return found[0] if found else None


def _required(resource: _Resource | None) -> _Resource:
    if resource is None:
        raise typer.BadParameter("name one of --topic, --group, --transactional-id and --cluster")
    return resource
