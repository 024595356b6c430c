"""The format version of stored data, in Redis and in the data folder (decision 0092).

A process checks it before it reads anything else. An optional field keeps the version: older servers ignore
the field. A breaking change raises it: older servers do not start on the data.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from sharebroker_server.redis_link.data_folder import replace_file
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.port import EmbeddedRedisFailed, FormatUnsupported, Link, lua, within
from sharebroker_server.telemetry.process import release

FORMAT_VERSION: Final = 1
"""The version that this server writes; it reads this version and every lower one."""

FORMAT_FILE: Final = "format.json"
"""The file with the format version in a data folder."""

_CATALOG: Final = "catalog"
"""The resource of the catalog: the first log that a cluster creates."""

_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """The format version of data, and the release that wrote it first."""

    version: int
    release: str

    @classmethod
    def parse(cls, place: str, version: object, writer: object) -> StoredFormat:
        """Parses the stored fields. Raises FormatUnsupported."""
        text, name = (
            x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x) for x in (version, writer)
        )
        if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
            raise FormatUnsupported(f"{place} has the invalid format version {text!r}. Restore a backup.")
        return cls(int(text), name)


FIRST: Final = StoredFormat(1, "0.1.0")
"""The format of data without a version: release 0.1.0 did not store one at first."""


def check_format(place: str, stored: StoredFormat, reader: str, supported: int = FORMAT_VERSION) -> None:
    """Raises FormatUnsupported if a server of release `reader` cannot read the data at `place`."""
    if stored.version > supported:
        raise FormatUnsupported(
            f"{place} has format version {stored.version}, written by release {stored.release}. "
            f"This server, release {reader}, reads format versions up to {supported}. "
            f"Start release {stored.release} or newer, or restore a backup from before the upgrade."
        )


def check_folder(folder: Path) -> None:
    """Checks the format version of a data folder, and writes it if there is none.

    Raises FormatUnsupported, EmbeddedRedisFailed.
    """
    file = folder / FORMAT_FILE
    try:
        if file.exists():
            check_format(str(folder), _read(file), release())
        else:
            is_new = not (folder / "valkey").exists()
            created = StoredFormat(FORMAT_VERSION, release()) if is_new else FIRST
            replace_file(file, orjson.dumps(asdict(created)))
    except OSError as error:
        raise EmbeddedRedisFailed(f"{folder} cannot be used: {error.strerror}") from error


def _read(file: Path) -> StoredFormat:
    """Returns the version of the file. Raises FormatUnsupported, OSError."""
    try:
        fields = orjson.loads(file.read_bytes())
        return StoredFormat.parse(str(file), fields["version"], fields["release"])
    except (ValueError, KeyError, TypeError) as error:
        raise FormatUnsupported(f"{file} has no format version. Restore it from a backup.") from error


async def read_format(link: Link, keys: Keys) -> StoredFormat | None:
    """Returns the format version of a cluster's data in Redis, or None. Raises RedisError."""
    fields = await link.call("HMGET", keys.format_version(), "version", "release", timeout=_TIMEOUT)
    return _parse(keys, fields)


async def check_redis(link: Link, cluster_id: str) -> None:
    """Checks the format version of a cluster's data in Redis, and stores it if there is none.

    Raises FormatUnsupported, RedisError.
    """
    keys = Keys.of_cluster(cluster_id)
    stored = await read_format(link, keys)
    if stored is None:
        stored = await _create(link, keys, StoredFormat(FORMAT_VERSION, release()))
    check_format(f"The data of {keys.prefix!r} in Redis", stored, release())


async def _create(link: Link, keys: Keys, current: StoredFormat) -> StoredFormat:
    """Stores the current version, or the first one if there is data; returns what is stored then."""
    script = link.script(lua(Path(__file__).parent, "format_version", flags="allow-oom"), replicated=True)
    names = (keys.format_version(), keys.lease(_CATALOG), keys.log(_CATALOG))
    values = (current.version, current.release, FIRST.version, FIRST.release)
    return _parse(keys, await within(_TIMEOUT, script.send(names, values))) or current


def _parse(keys: Keys, fields: list[Any]) -> StoredFormat | None:
    version, writer = fields
    return (
        None if version is None else StoredFormat.parse(keys.format_version(), version, writer or "unknown")
    )
