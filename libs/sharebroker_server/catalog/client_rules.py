"""The rules by which what concerns all clients changes: users, ACLs, quotas and feature levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.acls import AclCommand, AclReply, decide_acl
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.features import UpdateFeatures, updated_levels
from sharebroker_server.catalog.quotas import AlterQuotas, decide_quotas
from sharebroker_server.catalog.records import CatalogRecord, ClusterRecord
from sharebroker_server.catalog.users import UserCommand, decide_user

ClientCommand = UserCommand | AclCommand | AlterQuotas | UpdateFeatures
ClientReply = AclReply | Mapping[str, str | None] | ClusterRecord
"""The changed ACLs; the levels after an update; empty after a change of users and quotas."""


def decide_client(
    state: TopicCatalog, command: ClientCommand, node: int
) -> tuple[tuple[CatalogRecord, ...], ClientReply]:
    """Returns the records and the reply of a command; `node` is the broker that decides.

    Raises the errors of `decide_user`, `decide_acl`, `decide_quotas` and `updated_levels`.
    """
    if isinstance(command, UpdateFeatures):
        return _update_features(state, command, node)
    if isinstance(command, AclCommand):
        changes = decide_acl(state.acls, command)
        return changes, tuple(change.acl for change in changes)
    if isinstance(command, AlterQuotas):
        return decide_quotas(state.quotas, command), {}
    return decide_user(state.users, command), {}


def _update_features(
    state: TopicCatalog, command: UpdateFeatures, node: int
) -> tuple[tuple[CatalogRecord, ...], ClientReply]:
    if not state.cluster_id:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The cluster has no id yet.")
    levels = updated_levels(state.feature_levels or command.unstored, command.updates, node)
    if command.validate_only or levels == state.feature_levels:
        return (), state.cluster_record()
    record = replace(state.cluster_record(), feature_levels=levels, features_epoch=state.features_epoch + 1)
    return (record,), record
