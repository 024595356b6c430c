"""The version of all distributions; their `pyproject.toml` files read it from here."""

from typing import Final

__version__: Final = "0.1.0"
