"""The rules by which what concerns clients changes: users, ACLs and quotas."""

from __future__ import annotations

from collections.abc import Mapping

from sharebroker_server.catalog.acls import AclCommand, AclReply, decide_acl
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.quotas import AlterQuotas, decide_quotas
from sharebroker_server.catalog.records import CatalogRecord
from sharebroker_server.catalog.users import UserCommand, decide_user

ClientCommand = UserCommand | AclCommand | AlterQuotas
ClientReply = AclReply | Mapping[str, str | None]
"""The changed ACLs; empty after a change of users and quotas."""


def decide_client(
    state: TopicCatalog, command: ClientCommand
) -> tuple[tuple[CatalogRecord, ...], ClientReply]:
    """Returns the records and the reply of a command.

    Raises the errors of `decide_user`, `decide_acl` and `decide_quotas`.
    """
    if isinstance(command, AclCommand):
        changes = decide_acl(state.acls, command)
        return changes, tuple(change.acl for change in changes)
    if isinstance(command, AlterQuotas):
        return decide_quotas(state.quotas, command), {}
    return decide_user(state.users, command), {}
