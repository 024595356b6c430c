"""The users of a cluster: their SCRAM credentials, and the rules by which they change.

Kafka: `ScramControlManager`. Sharebroker also limits salts, keys, names and the number of credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication.sasl import valid_name
from sharebroker_server.security.authentication.scram import (
    MAX_ITERATIONS,
    MAX_SALT,
    MIN_ITERATIONS,
    MIN_SALT,
    ScramCredential,
    ScramMechanism,
    credential_of,
)

MAX_CREDENTIALS: Final = 20_000
"""The largest number of credentials of all users."""

_NONE: Final[Mapping[ScramMechanism, ScramCredential]] = {}


@dataclass(frozen=True, slots=True)
class ScramCredentialRecord:
    """A user's credential for one mechanism; replaces an earlier one.

    `super_user` states whether the user may do everything; it is the same in all credentials of a user.
    """

    user: str
    mechanism: ScramMechanism
    credential: ScramCredential
    super_user: bool = False


@dataclass(frozen=True, slots=True)
class ScramCredentialDeletedRecord:
    """The deletion of a user's credential for one mechanism."""

    user: str
    mechanism: ScramMechanism


UserRecord = ScramCredentialRecord | ScramCredentialDeletedRecord


@dataclass(frozen=True, slots=True)
class UpsertScramCredential:
    """Creates or replaces a user's credential. The text of the command contains no secret."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeleteScramCredential:
    """Deletes a user's credential for one mechanism."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class CreateUser:
    """Creates a super user with credentials. A user that exists becomes a super user."""

    user: str
    credentials: Mapping[ScramMechanism, ScramCredential]


UserCommand = UpsertScramCredential | DeleteScramCredential | CreateUser


class UserCatalog:
    """The credentials by user. Only `apply` changes them."""

    __slots__ = ("_by_mechanism", "_by_user", "_super_users")

    def __init__(self) -> None:
        self._super_users: set[tuple[str, ScramMechanism]] = set()
        self._by_user: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        self._by_mechanism: dict[ScramMechanism, dict[str, ScramCredential]] = {
            mechanism: {} for mechanism in ScramMechanism
        }

    def __len__(self) -> int:
        """Returns the number of credentials."""
        return sum(map(len, self._by_mechanism.values()))

    def names(self) -> list[str]:
        """Returns the names of all users, sorted."""
        return sorted(self._by_user)

    def credentials(self, name: str) -> Mapping[ScramMechanism, ScramCredential]:
        """Returns the credentials of a user; empty for a user that does not exist."""
        return self._by_user.get(name, _NONE)

    def is_super_user(self, name: str) -> bool:
        """Returns whether a user may do everything."""
        return any((name, mechanism) in self._super_users for mechanism in self.credentials(name))

    def has_super_user(self) -> bool:
        """Returns whether any user may do everything."""
        return bool(self._super_users)

    def any_credential(self, mechanism: ScramMechanism) -> ScramCredential | None:
        """Returns the credential of the oldest user that has one for the mechanism."""
        return next(iter(self._by_mechanism[mechanism].values()), None)

    def apply(self, record: UserRecord) -> None:
        """Applies a record."""
        present = self._by_user.setdefault(record.user, {})
        self._super_users.discard((record.user, record.mechanism))
        if isinstance(record, ScramCredentialRecord):
            present[record.mechanism] = record.credential
            self._by_mechanism[record.mechanism][record.user] = record.credential
            if record.super_user:
                self._super_users.add((record.user, record.mechanism))
        else:
            present.pop(record.mechanism, None)
            self._by_mechanism[record.mechanism].pop(record.user, None)
        if not present:
            del self._by_user[record.user]


def decide_user(users: UserCatalog, command: UserCommand) -> tuple[UserRecord, ...]:
    """Returns the records of a command.

    Raises UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND; POLICY_VIOLATION if there
    would be too many credentials.
    """
    if isinstance(command, CreateUser):
        if users.is_super_user(command.user):
            return ()
        present = users.credentials(command.user)
        if not present:
            _check_capacity(users)
        return tuple(
            ScramCredentialRecord(command.user, mechanism, credential, super_user=True)
            for mechanism, credential in (present or command.credentials).items()
        )
    mechanism = _checked(command.user, command.mechanism)
    exists = mechanism in users.credentials(command.user)
    if isinstance(command, DeleteScramCredential):
        if not exists:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
            )
        return (ScramCredentialDeletedRecord(command.user, mechanism),)
    _check_upsertion(command, mechanism)
    if not exists:
        _check_capacity(users)
    credential = credential_of(mechanism, command.salted_password, command.salt, command.iterations)
    super_user = users.is_super_user(command.user)
    return (ScramCredentialRecord(command.user, mechanism, credential, super_user),)


def change_of(command: UserCommand) -> str:
    """Returns the change as text, without secrets."""
    if isinstance(command, UpsertScramCredential):
        return f"set {ScramMechanism(command.mechanism).label}"
    if isinstance(command, DeleteScramCredential):
        return f"deleted {ScramMechanism(command.mechanism).label}"
    return "created"


def check_user_name(name: str) -> None:
    """Raises UNACCEPTABLE_CREDENTIAL for a name that no user may have."""
    if not name:
        raise _unacceptable("Username must not be empty")
    if not valid_name(name):
        raise _unacceptable("Username is too long, or is not in the form that SASLprep (RFC 4013) produces")


def _checked(name: str, number: int) -> ScramMechanism:
    check_user_name(name)
    try:
        return ScramMechanism(number)
    except ValueError:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None


def _check_upsertion(command: UpsertScramCredential, mechanism: ScramMechanism) -> None:
    if command.iterations < MIN_ITERATIONS:
        raise _unacceptable("Too few iterations")
    if command.iterations > MAX_ITERATIONS:
        raise _unacceptable("Too many iterations")
    if not MIN_SALT <= len(command.salt) <= MAX_SALT:
        raise _unacceptable(f"The salt must have {MIN_SALT} to {MAX_SALT} bytes")
    if len(command.salted_password) != mechanism.key_length:
        raise _unacceptable(f"The salted password must have {mechanism.key_length} bytes")


def _check_capacity(users: UserCatalog) -> None:
    if len(users) >= MAX_CREDENTIALS:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"The limit of {MAX_CREDENTIALS} credentials of users is reached."
        )


def _unacceptable(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
