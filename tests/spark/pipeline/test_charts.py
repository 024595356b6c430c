"""Charts as SVG elements of any rows."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.spark.environment import needs_spark, running

pytestmark = [needs_spark, pytest.mark.timeout(300)]
SVG = "{http://www.w3.org/2000/svg}"
OUTCOMES = {"accepted": "accepted", "to_try_again": "to be redelivered", "archived": "archived"}
CASES: dict[str, list[Any]] = {
    "bars": [
        "bars",
        [{"a": "x", "n": 3, "n_p90": 5}, {"a": "<y> & z", "n": None}],
        "a",
        ["n"],
        "count",
        "A&B",
    ],
    "marks": ["bars", [{"a": "x", "n": 3, "n_p90": 5}], "a", ["n", "n_p90"], "count", "t"],
    "long": ["bars", [{"a": "x" * 500, "n": 1}], "a", ["n"], "count", "t"],
    "text": ["bars", [{"a": None, "n": "no number"}, {"a": "$x$", "n": 1}], "a", ["n"], "", "t"],
    "lines": ["lines", [{"h": 1, "n": 2, "c": 9}, {"h": 2, "n": 4, "c": 8}], "h", ["n"], ["count", "c"], "t"],
    "times": ["lines", [{"h": "08:00", "n": 2}, {"h": None, "n": 4}], "h", ["n"], ["", ""], "t"],
    "formula": ["lines", [{"h": r"$\foo$", "n": 2}, {"h": "b", "n": 4}], "h", ["n"], ["", ""], "t"],
    "many": ["lines", [{"h": f"{hour:02}:00", "n": hour} for hour in range(99)], "h", ["n"], ["", ""], "t"],
    "one point": ["lines", [{"h": 1, "n": 2}], "h", ["n"], ["count", ""], "t"],
    "deliveries": ["deliveries", [{"delivery_count": 1, "records": 1000}], "t"],
    "outcomes": [
        "outcomes",
        [{"group": "g", "accepted": 0, "to_try_again": 2, "archived": 0}],
        OUTCOMES,
        "t",
    ],
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ElementTree.Element]:
    folder = tmp_path_factory.mktemp("charts")
    given = folder / "given.json"
    given.write_text(json.dumps(CASES))
    with running("charting", folder / "run", str(given)) as program:
        found = program.wait_for_value("pictures")
    return {name: ElementTree.fromstring(picture) for name, picture in found.items()}


def texts(picture: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


@pytest.mark.parametrize("case", CASES)
def test_picture_is_one_element_of_any_size(pictures: dict[str, ElementTree.Element], case: str) -> None:
    assert pictures[case].tag == f"{SVG}svg"
    assert {"viewBox", "role", "aria-label"} <= pictures[case].attrib.keys()
    assert not {"width", "height"} & pictures[case].attrib.keys()


def test_first_row_is_at_the_top(pictures: dict[str, ElementTree.Element]) -> None:
    places = {
        element.text: float(element.attrib["transform"].rpartition(" ")[2].rstrip(")"))
        if "transform" in element.attrib
        else float(element.attrib["y"])
        for element in pictures["bars"].iter(f"{SVG}text")
    }
    assert places["x"] < places["<y> & z"]
    assert pictures["bars"].attrib["aria-label"] == "A&B"


def test_further_values_have_a_legend(pictures: dict[str, ElementTree.Element]) -> None:
    assert {"n", "n 90 %"} <= {*texts(pictures["marks"])}


def test_long_names_are_cut_and_missing_ones_are_a_dash(pictures: dict[str, ElementTree.Element]) -> None:
    assert "x" * 29 + "…" in texts(pictures["long"])
    assert {"–", "$x$"} <= {*texts(pictures["text"])}


def test_lines_can_have_bars_behind_them(pictures: dict[str, ElementTree.Element]) -> None:
    assert {"h", "count", "c"} <= {*texts(pictures["lines"])}
    assert "08:00" in texts(pictures["times"])


def test_text_below_lines_is_no_formula(pictures: dict[str, ElementTree.Element]) -> None:
    assert r"$\foo$" in texts(pictures["formula"])


def test_only_names_that_fit_are_below_lines(pictures: dict[str, ElementTree.Element]) -> None:
    names = [text for text in texts(pictures["many"]) if ":" in text]
    assert names[0] == "00:00"
    assert 5 <= len(names) <= 12
