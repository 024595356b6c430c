"""The principal of a client certificate: its subject, changed by `ssl.principal.mapping.rules`.

Theory of operation (Kafka: `SslPrincipalMapper`)
-------------------------------------------------

The rules are separated by commas; the first that applies to a subject returns the name. Each is

    DEFAULT                               applies to every subject, and returns it
    RULE:pattern/replacement/[L|U]        applies if the pattern matches the whole subject

A `/` or a `\\` within pattern and replacement has a `\\` before it. The replacement replaces each occurrence
of the pattern; `$1` in it is the pattern's first group, and the number of a group that the pattern does not
have is literal text. `L` and `U` change the result to lower or upper case. A subject to which no rule applies
has no principal, and its owner is not authenticated.

Patterns are Java's in Kafka and Python's here; `(?<name>…)` is accepted, `\\p{…}` and `&&` are not.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication.distinguished_name import subject_of
from sharebroker_server.security.principal import Principal

PROPERTY: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"

MAX_CACHED: Final = 1024
"""Maximum number of certificates whose principal is cached."""

_PEM: Final = b"-----BEGIN"
_PART: Final = r"((?:\\.|[^\\/])*)/"
_RULE: Final = re.compile(rf"{DEFAULT}|RULE:{_PART}{_PART}([LU]?)", re.DOTALL)
_SEPARATORS: Final = re.compile(r"[\s,]*", re.ASCII)
_END: Final = re.compile(r"\s*(,|$)", re.ASCII)
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")
_LITERAL_OR_GROUP: Final = re.compile(r"\\(.)|\$(\d+|\{\w+\})|([\\$])", re.DOTALL)

Expand = Callable[[re.Match[str]], str]


@dataclass(frozen=True, slots=True)
class MappingRule:
    """One rule. `pattern` is None for DEFAULT; `expand` returns the replacement of a match."""

    text: str
    pattern: re.Pattern[str] | None = None
    expand: Expand = re.Match.group
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """Returns the name of a subject, or None if the rule does not apply to it."""
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(self.expand, subject)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class PrincipalMapping:
    """Returns the principals of verified client certificates, for both listeners."""

    def __init__(self, rules: Sequence[MappingRule]) -> None:
        self.rules = rules
        self._by_certificate: dict[bytes, Principal | None] = {}

    @classmethod
    def parse(cls, text: str) -> PrincipalMapping:
        """Parses the rules. Raises INVALID_CONFIG."""
        return cls(parse_rules(text))

    @property
    def is_total(self) -> bool:
        """Whether every subject has a principal."""
        return any(rule.pattern is None for rule in self.rules)

    def name(self, subject: str) -> str | None:
        """Returns the name of a subject; None if no rule applies."""
        names = (rule.apply(subject) for rule in self.rules)
        return next((name for name in names if name is not None), None)

    def principal(self, certificate: bytes) -> Principal | None:
        """Returns the principal of a certificate in PEM or DER; None if it has none."""
        if certificate not in self._by_certificate:
            if len(self._by_certificate) >= MAX_CACHED:
                self._by_certificate.clear()
            self._by_certificate[certificate] = self._derived(certificate)
        return self._by_certificate[certificate]

    def _derived(self, certificate: bytes) -> Principal | None:
        try:
            is_pem = certificate.startswith(_PEM)
            der = ssl.PEM_cert_to_DER_cert(certificate.decode()) if is_pem else certificate
            name = self.name(subject_of(der))
        except ValueError:
            return None
        return None if name is None else Principal(name)


def parse_rules(text: str) -> list[MappingRule]:
    """Parses `ssl.principal.mapping.rules`. Raises INVALID_CONFIG with the first invalid rule."""
    rules: list[MappingRule] = []
    at = _skip(text, 0)
    while at < len(text):
        found = _RULE.match(text, at)
        end = None if found is None else _END.match(text, found.end())
        if found is None or end is None:
            raise _invalid(text[at:], "expected DEFAULT or RULE:pattern/replacement/[LU]")
        rules.append(_rule(found))
        at = _skip(text, end.end())
    return rules


def _skip(text: str, at: int) -> int:
    found = _SEPARATORS.match(text, at)
    return at if found is None else found.end()


def _rule(found: re.Match[str]) -> MappingRule:
    text, (pattern, replacement, case) = found[0], found.groups()
    if text == DEFAULT:
        return MappingRule(text)
    try:
        compiled = re.compile(_NAMED_GROUP.sub("(?P<", pattern), re.ASCII)
        return MappingRule(text, compiled, _expansion(replacement, compiled), case)
    except (re.error, ValueError) as error:
        raise _invalid(text, str(error)) from error


def _expansion(replacement: str, pattern: re.Pattern[str]) -> Expand:
    """Returns the replacement as a function (Java: `Matcher.appendReplacement`). Raises ValueError."""
    parts: list[str | int] = []
    at = 0
    for found in _LITERAL_OR_GROUP.finditer(replacement):
        parts.append(replacement[at : found.start()])
        parts += _part(found, pattern)
        at = found.end()
    parts.append(replacement[at:])

    def expand(match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in parts)

    return expand


def _part(found: re.Match[str], pattern: re.Pattern[str]) -> list[str | int]:
    """Returns an escaped character, or a group and the digits after it."""
    escaped, reference, bare = found.groups()
    if bare is not None:
        raise ValueError(f"a {bare} in the replacement needs a \\ before it, or a group's number after it")
    if escaped is not None:
        return [escaped]
    if reference.startswith("{"):
        if reference[1:-1] not in pattern.groupindex:
            raise ValueError(f"the pattern has no group {reference[1:-1]}")
        return [pattern.groupindex[reference[1:-1]]]
    taken = 1
    while taken < len(reference) and int(reference[: taken + 1]) <= pattern.groups:
        taken += 1
    if int(reference[:taken]) <= pattern.groups:
        return [int(reference[:taken]), reference[taken:]]
    if pattern.groups == 0:
        raise ValueError("the replacement names a group, and the pattern has none")
    return [f"${reference}"]


def _invalid(rule: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"Invalid rule {rule!r} in {PROPERTY}: {reason}.",
        metadata={"config": PROPERTY},
    )
