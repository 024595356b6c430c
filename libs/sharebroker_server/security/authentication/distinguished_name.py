"""The subject of a certificate as text: RFC 2253, in the form of Java's `X500Principal.getName()`.

Kafka's rules and ACLs contain this form. OpenSSL, and with it gRPC, prints some subjects differently: other
attributes by name, and characters outside ASCII escaped. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_KEYWORDS: Final[Mapping[str, str]] = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attributes with a name (RFC 2253, section 2.3); Java prints the others by their OID."""

_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP = 12, 19, 20, 22, 27, 30
_TEXTS: Final = frozenset({_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP})
"""The DER tags whose content Java prints as text; it prints the others in hexadecimal."""

_ESCAPED: Final = str.maketrans({char: f"\\{char}" for char in ',=+<>#;"\\'} | {"\0": "\\00"})
_BLANK: Final = " \r"
_VERSION_TAG: Final = 0xA0
_FIELDS_BEFORE_SUBJECT: Final = 4
"""Serial number, algorithm, issuer and validity."""


class _Element(NamedTuple):
    """A DER element: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    encoded: bytes


def subject_of(certificate: bytes) -> str:
    """Returns the subject of a certificate in DER. Raises ValueError for bytes that are no certificate."""
    fields = [*_elements(_first(_first(certificate).content).content)]
    if fields and fields[0].tag == _VERSION_TAG:
        del fields[0]
    if len(fields) <= _FIELDS_BEFORE_SUBJECT:
        raise ValueError("it is no certificate")
    return _name(fields[_FIELDS_BEFORE_SUBJECT].content)


def _name(content: bytes) -> str:
    """Returns the text of a name: the last relative name first."""
    relative = ["+".join(map(_attribute, _elements(each.content))) for each in _elements(content)]
    return ",".join(reversed(relative))


def _attribute(element: _Element) -> str:
    parts = [*_elements(element.content)]
    if len(parts) != 2:
        raise ValueError("a name contains an attribute without a value")
    oid, value = _oid(parts[0].content), parts[1]
    if oid not in _KEYWORDS or value.tag not in _TEXTS:
        return f"{_KEYWORDS.get(oid, oid)}=#{value.encoded.hex()}"
    # Java reads each of these types as UTF-8, also BMPString.
    return f"{_KEYWORDS[oid]}={_escape(value.content.decode('utf-8', 'replace'))}"


def _escape(text: str) -> str:
    """Returns the text with escaped special characters, and escaped blanks at its ends."""
    inner = text.strip(_BLANK)
    lead = len(text) - len(text.lstrip(_BLANK))
    before, after = (text, "") if not inner else (text[:lead], text[lead + len(inner) :])
    escaped_before, escaped_after = ("".join(f"\\{blank}" for blank in each) for each in (before, after))
    return escaped_before + inner.translate(_ESCAPED) + escaped_after


def _oid(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("a name contains an attribute without a type")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _first(data: bytes) -> _Element:
    for element in _elements(data):
        return element
    raise ValueError("it is no certificate")


def _elements(data: bytes) -> Iterator[_Element]:
    """Yields the elements of DER data. Raises ValueError if one is incomplete."""
    at = 0
    while at < len(data):
        start, at = at, at + 2
        length = int.from_bytes(data[start + 1 : at])
        if length & 0x80:
            size = length & 0x7F
            length, at = int.from_bytes(data[at : at + size]), at + size
        end = at + length
        if at < start + 2 or end > len(data):
            raise ValueError("it is no certificate")
        yield _Element(data[start], data[at:end], data[start:end])
        at = end
