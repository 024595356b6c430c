"""The RPCs that change users, ACLs, quotas and features, served by the process that owns the catalog."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import gather_in_portions
from sharebroker_server.catalog import acl_messages, features, quotas, records
from sharebroker_server.catalog.acls import MAX_DELETED_AT_ONCE, CreateAcl, DeleteAcls
from sharebroker_server.catalog.machine import CatalogCommand, CatalogReply
from sharebroker_server.catalog.users import (
    DeleteScramCredential,
    UpsertScramCredential,
    UserCommand,
    change_of,
)
from sharebroker_server.rpc.errors import refusal
from sharebroker_server.security.acl import AclBinding

_log = structlog.get_logger()

MAX_ALTERATIONS: Final = 1_000
"""The largest number of credentials that one request changes."""

MAX_CREATIONS: Final = 10_000
"""The largest number of ACLs that one request creates (Kafka: `MAX_RECORDS_PER_USER_OP`)."""

MAX_FILTERS: Final = 1_000
"""The largest number of filters in one request."""

Write = Callable[[CatalogCommand], Awaitable[CatalogReply | KafkaError]]
"""Makes a change durable; returns its reply or the error about it. Raises errors of the call as a whole."""


async def alter_users(
    request: pb.AlterUserScramCredentialsRequest, write: Write
) -> pb.AlterUserScramCredentialsResponse:
    """Changes credentials. Raises INVALID_REQUEST for too many."""
    commands = _user_commands(request)
    results = await gather_in_portions(lambda user: _alter_user(user, commands[user], write), commands)
    return pb.AlterUserScramCredentialsResponse(results=results)


async def create_acls(request: pb.CreateAclsRequest, write: Write) -> pb.CreateAclsResponse:
    """Creates ACLs. Raises INVALID_REQUEST for too many."""
    if len(request.creations) > MAX_CREATIONS:
        text = f"A request may create at most {MAX_CREATIONS} ACLs."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    results = await gather_in_portions(lambda creation: _create_acl(creation, write), request.creations)
    return pb.CreateAclsResponse(results=results)


async def delete_acls(request: pb.DeleteAclsRequest, write: Write) -> pb.DeleteAclsResponse:
    """Deletes the ACLs that each filter selects. Raises INVALID_REQUEST for too many filters."""
    if len(request.filters) > MAX_FILTERS:
        text = f"A request may have at most {MAX_FILTERS} filters."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    results = [await _delete_acls(one, write) for one in request.filters]
    return pb.DeleteAclsResponse(filter_results=results)


async def alter_quotas(request: pb.AlterClientQuotasRequest, write: Write) -> pb.AlterClientQuotasResponse:
    """Changes quotas. Raises INVALID_REQUEST for too many."""
    if len(request.entries) > MAX_ALTERATIONS:
        text = f"A request may change at most {MAX_ALTERATIONS} entities."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    named = Counter(_parts(entry) for entry in request.entries)
    results = await gather_in_portions(
        lambda entry: _alter_quotas(entry, named[_parts(entry)], request.validate_only, write),
        request.entries,
    )
    return pb.AlterClientQuotasResponse(entries=results)


async def update_features(
    request: pb.UpdateFeaturesRequest, unstored: Mapping[str, int], write: Write
) -> pb.UpdateFeaturesResponse:
    """Changes levels of features, all or none. `unstored` are the levels while the catalog has none.

    Raises KafkaError: as `updated_levels`.
    """
    updates = tuple(
        features.FeatureUpdate(update.feature, update.max_version_level, int(update.upgrade_type))
        for update in request.feature_updates
    )
    outcome = await write(features.UpdateFeatures(updates, unstored, request.validate_only))
    if isinstance(outcome, KafkaError):
        raise outcome
    assert isinstance(outcome, records.ClusterRecord)
    if not request.validate_only:
        _log.info("feature levels set", levels=dict(outcome.feature_levels), epoch=outcome.features_epoch)
    return pb.UpdateFeaturesResponse(features_epoch=outcome.features_epoch)


def in_band(outcome: CatalogReply | KafkaError) -> dict[str, Any]:
    """Returns the error fields of a part of a response; none for a part that succeeded."""
    return refusal(outcome if isinstance(outcome, KafkaError) else None)


async def _alter_user(
    user: str, commands: Sequence[UserCommand], write: Write
) -> pb.AlterUserScramCredentialsResponse.Result:
    outcome: CatalogReply | KafkaError
    if len(commands) > 1:
        text = "A user credential cannot be altered twice in the same request"
        outcome = KafkaError(ErrorCode.DUPLICATE_RESOURCE, text)
    else:
        outcome = await write(commands[0])
    if not isinstance(outcome, KafkaError):
        _log.info("user credential changed", user=user, change=change_of(commands[0]))
    return pb.AlterUserScramCredentialsResponse.Result(user=user, **in_band(outcome))


async def _alter_quotas(
    entry: pb.AlterClientQuotasRequest.Entry, count: int, validate_only: bool, write: Write
) -> pb.AlterClientQuotasResponse.Entry:
    outcome: CatalogReply | KafkaError
    try:
        entity = quotas.entity_of(_parts(entry))
        if count > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {entity}")
        changes = tuple(
            quotas.QuotaChange(op.key, op.value if op.HasField("value") else None) for op in entry.ops
        )
        outcome = await write(quotas.AlterQuotas(_parts(entry), changes, validate_only))
    except KafkaError as error:
        if error.code is not ErrorCode.INVALID_REQUEST:
            raise
        outcome = error
    else:
        if not isinstance(outcome, KafkaError) and not validate_only:
            _log.info("quotas changed", entity=str(entity), quotas=dict(changes))
    return pb.AlterClientQuotasResponse.Entry(entity=entry.entity, **in_band(outcome))


def _parts(entry: pb.AlterClientQuotasRequest.Entry) -> tuple[tuple[str, str | None], ...]:
    """Returns the types and names of an entity, sorted; a name None is the default."""
    names = (
        (part.entity_type, part.entity_name if part.HasField("entity_name") else None)
        for part in entry.entity
    )
    return tuple(sorted(names, key=lambda part: part[0]))


def _user_commands(request: pb.AlterUserScramCredentialsRequest) -> dict[str, list[UserCommand]]:
    """Returns the commands of each user. Raises INVALID_REQUEST."""
    if len(request.deletions) + len(request.upsertions) > MAX_ALTERATIONS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"A request may change at most {MAX_ALTERATIONS} credentials."
        )
    commands: defaultdict[str, list[UserCommand]] = defaultdict(list)
    for deletion in request.deletions:
        commands[deletion.name].append(DeleteScramCredential(deletion.name, deletion.mechanism))
    for one in request.upsertions:
        upsertion = UpsertScramCredential(
            one.name, one.mechanism, one.iterations, one.salt, one.salted_password
        )
        commands[one.name].append(upsertion)
    return commands


async def _create_acl(creation: pb.CreateAclsRequest.Creation, write: Write) -> pb.CreateAclsResponse.Result:
    outcome: CatalogReply | KafkaError
    try:
        acl = acl_messages.created_acl(creation)
    except KafkaError as error:
        outcome = error
    else:
        outcome = await write(CreateAcl(acl))
    if isinstance(outcome, tuple) and outcome:
        _log.info("ACL created", **_described(acl))
    return pb.CreateAclsResponse.Result(**in_band(outcome))


async def _delete_acls(
    requested: pb.DeleteAclsRequest.Filter, write: Write
) -> pb.DeleteAclsResponse.FilterResult:
    deleted: list[AclBinding] = []
    try:
        command = DeleteAcls(acl_messages.filter_of(requested))
    except KafkaError as error:
        return pb.DeleteAclsResponse.FilterResult(**in_band(error))
    while True:
        outcome = await write(command)
        if not isinstance(outcome, tuple):
            break
        deleted += outcome
        if len(outcome) < MAX_DELETED_AT_ONCE:
            break
    for acl in deleted:
        _log.info("ACL deleted", **_described(acl))
    matching = [pb.DeleteAclsResponse.MatchingAcl(**acl._asdict()) for acl in deleted]
    return pb.DeleteAclsResponse.FilterResult(matching_acls=matching, **in_band(outcome))


def _described(acl: AclBinding) -> dict[str, str]:
    return {name: field if isinstance(field, str) else field.name for name, field in acl._asdict().items()}
