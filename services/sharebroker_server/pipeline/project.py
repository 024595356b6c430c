"""A project: a folder with `pipeline.toml` and the files that it names."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sharebroker_server.pipeline.core.definition import Definition, DefinitionError

FILE: Final = "pipeline.toml"
_EXAMPLES: Final = Path(__file__).parent / "examples"
_EXAMPLE: Final = "example:"
_DATA: Final = "data"
_NAMED: Final = ("tables", "report")
"""The parts whose entries have a query, or name the file of one."""
_MAX_BYTES: Final = 1_000_000


class ProjectError(Exception):
    """The project cannot be read or is invalid; the message names the place."""


def folder_of(project: str) -> Path:
    """Returns the folder of a project: a path, or `example:NAME`. Raises ProjectError."""
    name = project.removeprefix(_EXAMPLE)
    folder = _EXAMPLES / name if project != name else Path(project)
    if (folder / FILE).is_file():
        return folder
    examples = ", ".join(f"{_EXAMPLE}{path.name}" for path in sorted(_EXAMPLES.iterdir()))
    raise ProjectError(
        f"{folder} has no {FILE}. `sharebroker pipeline init TOPIC` writes a project; examples: {examples}."
    )


def data_folder(project: str, folder: Path) -> Path:
    """Returns where a project's tables are by default: inside it, or below `data` if it is an example."""
    return Path(_DATA, folder.name) if project.startswith(_EXAMPLE) else folder / _DATA


def read(folder: Path, **changes: str | None) -> tuple[dict[str, Any], Definition]:
    """Returns the project's content, with the files that it names instead of their names, and its definition.

    `changes` replace settings, unless they are None. Raises ProjectError.
    """
    file = folder / FILE
    try:
        document = tomllib.loads(_text(file))
        for place in _places(document):
            if "file" in place:
                place["query"] = _text(folder / str(place.pop("file")))
        value = document.get("value")
        if isinstance(value, dict) and "avro_schema" in value:
            value["avro_schema"] = _schemas(folder, value["avro_schema"])
        document |= {name: change for name, change in changes.items() if change is not None}
        return document, Definition.of(document)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ProjectError(f"{file} is not TOML: {error}.") from None
    except DefinitionError as error:
        raise ProjectError(f"{file} is invalid: {error}.") from None


def _schemas(folder: Path, names: Any) -> str | dict[str, str]:
    """Returns the content of a file, or of each of them."""
    if isinstance(names, dict):
        return {number: _text(folder / str(name)) for number, name in names.items()}
    return _text(folder / str(names))


def _places(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in _NAMED:
        entries = document.get(part)
        if isinstance(entries, dict):
            yield from (entry for entry in entries.values() if isinstance(entry, dict))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ProjectError(f"{file} is larger than {_MAX_BYTES:,} bytes.")
        return content.decode()
    except (OSError, ValueError) as error:  # ValueError for invalid UTF-8, and for a name with a zero byte
        raise ProjectError(f"{file} cannot be read: {error}.") from None
