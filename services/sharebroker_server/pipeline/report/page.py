"""Renders the page as one file with embedded pictures."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_TEMPLATE: Final = "page.html.jinja"


def page(tables: Mapping[str, list[dict[str, Any]]], pictures: Mapping[str, bytes]) -> str:
    """Returns the HTML; values from records are escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    embedded = {name: b64encode(picture).decode() for name, picture in pictures.items()}
    template = environment.get_template(_TEMPLATE)
    return str(template.render(tables=tables, pictures=embedded, **tables["totals"][0]))


def shown(value: object) -> str:
    """Returns the text form of a value."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)
