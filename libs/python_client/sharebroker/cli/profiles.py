"""Contexts: named servers with their TLS files and logins, in a file of the user."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from sharebroker_protocol.errors import ErrorCode, KafkaError

FILE_VARIABLE: Final = "SHAREBROKER_CONTEXTS"
"""The environment variable with the path of the file; default: $XDG_CONFIG_HOME/sharebroker/contexts.json."""

_TLS: Final = "tls"


@dataclass(frozen=True, slots=True)
class ContextProfile:
    """A server with its TLS files and its login; passwords and tokens stay in their files."""

    server: str
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None

    @property
    def address(self) -> str:
        """The address, as `--server` accepts it. Raises KafkaError INVALID_CONFIG."""
        given = {
            name: value for name, value in asdict(self).items() if name != "server" and value is not None
        }
        if not given:
            return self.server
        parts = urlsplit(self.server)
        if parts.scheme != _TLS:
            raise _invalid(f"TLS files and logins need tls://HOST:PORT, not {self.server!r}.")
        query = urlencode(dict(parse_qsl(parts.query)) | given, quote_via=quote)
        return parts._replace(query=query).geturl()


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts by name, and the name of the current one; None: there is none."""

    profiles: Mapping[str, ContextProfile] = field(default_factory=dict)
    current: str | None = None

    def find(self, name: str) -> ContextProfile:
        """Returns a context. Raises KafkaError RESOURCE_NOT_FOUND."""
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND, f"There is no context {name!r}; the contexts are: {known}."
            )
        return self.profiles[name]

    def with_profile(self, name: str, profile: ContextProfile) -> Contexts:
        """Returns the contexts with one more or another one; the first becomes the current one."""
        return Contexts({**self.profiles, name: profile}, self.current or name)

    def with_current(self, name: str) -> Contexts:
        """Returns the contexts with another current one. Raises KafkaError RESOURCE_NOT_FOUND."""
        self.find(name)
        return replace(self, current=name)

    def without(self, name: str) -> Contexts:
        """Returns the contexts without one. Raises KafkaError RESOURCE_NOT_FOUND."""
        self.find(name)
        rest = {each: profile for each, profile in self.profiles.items() if each != name}
        return Contexts(rest, None if self.current == name else self.current)


def contexts_file() -> Path:
    """Returns the path of the file of contexts."""
    if named := os.environ.get(FILE_VARIABLE):
        return Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "sharebroker" / "contexts.json"


def load_contexts() -> Contexts:
    """Reads the contexts; none if there is no file. Raises KafkaError INVALID_CONFIG, OSError."""
    path = contexts_file()
    try:
        content = path.read_text()
    except FileNotFoundError:
        return Contexts()
    try:
        return parse_contexts(json.loads(content))
    except ValueError as failure:
        raise _invalid(f"{path} is not a file of contexts: {failure}.") from None


def parse_contexts(document: Any) -> Contexts:
    """Returns the contexts of a JSON document. Raises ValueError."""
    if not isinstance(document, dict) or not isinstance(document.get("contexts"), dict):
        raise ValueError("an object with `contexts` is needed")
    current = document.get("current")
    profiles = {name: _profile(name, one) for name, one in document["contexts"].items()}
    if current is not None and current not in profiles:
        raise ValueError(f"the current context {current!r} is missing")
    return Contexts(profiles, current)


def _profile(name: str, document: Any) -> ContextProfile:
    known = {each.name for each in fields(ContextProfile)}
    valid = isinstance(document, dict) and "server" in document and known.issuperset(document)
    if not valid or not all(isinstance(value, str) for value in document.values()):
        raise ValueError(
            f"context {name!r} needs `server`, and has texts for {', '.join(sorted(known))} only"
        )
    return ContextProfile(**document)


def save_contexts(contexts: Contexts) -> None:
    """Replaces the file, which only the user may read. Raises OSError."""
    path = contexts_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    profiles = {
        name: {key: value for key, value in asdict(profile).items() if value is not None}
        for name, profile in sorted(contexts.profiles.items())
    }
    document = {"current": contexts.current, "contexts": profiles}
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.touch(mode=0o600)
    try:
        partial.write_text(json.dumps(document, indent=2) + "\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, text)
