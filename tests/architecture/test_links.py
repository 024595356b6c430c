"""Links between the project's documents resolve."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import files
from tests.testkit.tables import each

_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
_FILE_LINK = re.compile(r"\[`([\w./]+\.(?:py|lua))`\]\(([^)#]+)\)")
_FUNCTION_LINK = re.compile(r"\]\(([^)#]+\.py)\): ((?:`\w+`(?:, )?)+)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

DOCUMENTS = [path for path in files() if path.suffix == ".md"]


@each("document", DOCUMENTS)
def test_links_resolve(document: Path) -> None:
    assert not list(broken(document))


@each("document", DOCUMENTS)
def test_a_link_named_like_a_file_leads_to_that_file(document: Path) -> None:
    links = _FILE_LINK.findall(document.read_text())
    assert [(text, target) for text, target in links if Path(text).name != Path(target).name] == []


def test_functions_named_in_epochs_exist_in_the_linked_file() -> None:
    document = next(path for path in DOCUMENTS if path.name == "EPOCHS.md")
    links = _FUNCTION_LINK.findall(document.read_text())
    assert len(links) > 10
    missing = [
        (target, function)
        for target, functions in links
        for function in re.findall(r"`(\w+)`", functions)
        if not re.search(rf"def {function}\(", (document.parent / target).read_text())
    ]
    assert missing == []


def broken(document: Path) -> Iterator[str]:
    """Yields links to files that do not exist and to headings that their file does not have."""
    for target, anchor in _LINK.findall(document.read_text()):
        path = (document.parent / target).resolve() if target else document
        if not path.exists():
            yield target
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            yield f"{target}#{anchor}"


def anchors(path: Path) -> set[str]:
    """Returns the anchors of a document's headings, derived as GitHub derives them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(path.read_text())
    }
