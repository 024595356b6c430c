"""Java property files, and the properties of Kafka's clients that describe a connection.

Values may refer to secrets as with Kafka's config providers (KIP-297): `${env:NAME}`, `${file:PATH:KEY}` and
`${dir:PATH:NAME}`. The caller reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY_END: Final = re.compile(r"(?<!\\)(?:\\\\)*([=:\s])")
_REFERENCE: Final = re.compile(r"\$\{(env|file|dir):([^:}]*)(?::([^}]*))?\}")
_OPTION: Final = re.compile(r"""([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))\s*""")
_MODULE: Final = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b\s*", re.IGNORECASE)


class Reference(NamedTuple):
    """A value that is kept elsewhere: `provider` is env, file or dir."""

    provider: str
    path: str
    key: str = ""

    def __str__(self) -> str:
        return f"${{{':'.join(filter(None, self))}}}"


def parse_properties(text: str) -> dict[str, str]:
    """Returns the properties of a file in Java's format; the last of equal names counts.

    Raises:
        ValueError: with the line, without its text.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        end = _KEY_END.search(line)
        key = line if end is None else line[: end.start(1)]
        rest = "" if end is None else line[end.start(1) :].lstrip()
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip()
        try:
            found[_unescaped(key)] = _unescaped(rest)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields lines without comments, joined where the end of a line is escaped, with the first number."""
    pending, start = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        start = start if pending else number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            continue
        yield start, pending + line
        pending = ""
    if pending:
        yield start, pending


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] != "u":
            return _ESCAPES.get(code, code)
        if len(code) != 5:
            raise ValueError("\\u needs four hexadecimal digits")
        return chr(int(code[1:], 16))

    return re.sub(r"\\(u[0-9a-fA-F]{0,4}|.)", character, text, flags=re.DOTALL)


def resolved(properties: Mapping[str, str], read: Callable[[Reference], str]) -> dict[str, str]:
    """Returns the properties with the values that they refer to; `read` returns one, or raises ValueError.

    Raises:
        KafkaError: INVALID_CONFIG with the property and the reference.
    """

    def value(name: str, text: str) -> str:
        def found(match: re.Match[str]) -> str:
            reference = Reference(match[1], match[2], match[3] or "")
            try:
                return read(reference)
            except ValueError as error:
                raise invalid_property(name, f"{reference} cannot be read: {error}") from None

        return _REFERENCE.sub(found, text)

    return {name: value(name, text) for name, text in properties.items()}


class LoginModule(NamedTuple):
    """An entry of `sasl.jaas.config`: the last part of the class name, and its options."""

    name: str
    options: Mapping[str, str]


def parse_jaas(text: str) -> LoginModule:
    """Returns the entry of `sasl.jaas.config`. Raises ValueError without its text, which has a password."""
    module = _MODULE.match(text)
    if module is None:
        raise ValueError("it must start with a login module and `required`")
    options: dict[str, str] = {}
    at = module.end()
    while (option := _OPTION.match(text, at)) is not None:
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = option.end()
    if text[at:].strip() != ";":
        raise ValueError('after the login module it takes options NAME="VALUE", and ; at the end')
    return LoginModule(module[1].rpartition(".")[2], options)


def invalid_property(name: str, reason: str) -> KafkaError:
    """Returns INVALID_CONFIG for a property of the upstream cluster. `reason` has no secret."""
    return KafkaError(ErrorCode.INVALID_CONFIG, f"{name}: {reason}", metadata={"config": name})
