"""Tests have short names, class names one meaning, and no file has a path or host of its author's machine."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from urllib.parse import urlsplit

from tests.architecture.sources import content, files, name, python

_PRIVATE_FOLDER = re.compile(r"/(?<![\w.~:-]/)(?:home|root|Users|work)/\w")
LONGEST_TEST_NAME = 72
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
_CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)
_ASYNCIO_AND_BLOCKING = {"Admin", "DeadLetters", "Producer", "ShareConsumer"}
"""The asyncio client and the blocking client have the same classes."""
_REPLACED = re.compile(
    r"_(who|what|those|asks|asked|answers?|answered|knows|comes|gone|away|lies|stands|forgets|meanwhile|"
    r"hole|under_way|once_more|runs?_out|ran_out)(?=_|$)"
)
_PUBLIC = {"pypi.org", "files.pythonhosted.org", None}
_INDEX_SETTINGS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX")


def test_names_of_tests_are_short() -> None:
    long = [
        f"{name(path)}: {test}"
        for path in python("tests/")
        for test in _TEST.findall(content(path))
        if len(test) > LONGEST_TEST_NAME
    ]
    assert not long


def test_every_class_of_the_product_has_a_name_of_its_own() -> None:
    places = defaultdict(list)
    for path in python("services/", "libs/"):
        for found in _CLASS.findall(content(path)):
            places[found].append(name(path))
    assert {found for found, paths in places.items() if len(paths) > 1} == _ASYNCIO_AND_BLOCKING


def test_names_of_tests_use_no_replaced_word() -> None:
    found = [
        f"{name(path)}: {test}"
        for path in python("tests/")
        for test in _TEST.findall(content(path))
        if _REPLACED.search(test)
    ]
    assert not found, "name subject and behaviour; docs/glossary.md has the terms"


def test_no_class_of_the_tests_is_a_world() -> None:
    """A class for the objects of a test is a harness or fixture, and may name its subject."""
    assert not [name(path) for path in python("tests/") if "World" in _CLASS.findall(content(path))]


def test_no_file_names_a_home_folder() -> None:
    found = [
        f"{name(path)}: {match.group(0)}"
        for path in files()
        if (match := _PRIVATE_FOLDER.search(content(path)))
    ]
    assert not found


def test_no_file_names_the_index_that_packages_came_from() -> None:
    hosts = {urlsplit(url).hostname for url in _index_urls()} - _PUBLIC
    found = [f"{name(path)}: {host}" for path in files() for host in hosts if str(host) in content(path)]
    assert not found


def test_the_lock_file_names_no_index() -> None:
    lock = next(path for path in files() if path.name == "requirements.lock").read_text()
    assert "--index-url" not in lock
    assert "--hash=sha256:" in lock


def _index_urls() -> list[str]:
    return [url for setting in _INDEX_SETTINGS for url in os.environ.get(setting, "").split()]
