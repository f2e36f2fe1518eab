"""Excel workbooks are tables; one that cannot be read is refused in a line."""

import datetime
import sys

import numpy as np
import pytest
from makers import plant

from coad.data import find_files, read_columns
from coad.data.tables import numeric_columns
from coad.exceptions import FileError, MissingPackageError

openpyxl = pytest.importorskip("openpyxl")


def workbook(path, rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(list(row))
    book.save(path)
    return path


def test_the_first_sheet_is_a_table(tmp_path):
    day = datetime.datetime(2020, 3, 9, 10, 14)
    path = workbook(
        tmp_path / "a.xlsx",
        [(), ("t", "x", "y", None, "run"), (day, 1, "Bad Input", "note", "a"), (day, 2.5, 7, None, "b")],
    )
    columns = read_columns(path, ["t", "x", "y", "run"], categories=["t", "run"])
    assert columns["t"].dtype == "M8[ns]"
    np.testing.assert_array_equal(columns["x"], [1, 2.5])
    np.testing.assert_array_equal(columns["y"], [np.nan, 7])
    assert columns["run"].tolist() == ["a", "b"]
    assert numeric_columns(path) == ["x", "y"]
    (tmp_path / "~$a.xlsx").write_bytes(b"lock")
    assert find_files(tmp_path) == [path]


def test_a_workbook_is_fitted_and_scored_like_any_table(run_coad, tmp_path):
    pytest.importorskip("torch")
    columns = plant(200)
    path = workbook(
        tmp_path / "a.xlsx", [columns, *zip(*(c.tolist() for c in columns.values()), strict=True)]
    )
    fit = ("fit", path, "--s", "motor_*", "--q", "vib_*", "--starts", 1, "--epochs", 2)
    code, text, errors = run_coad(*fit, "--out", tmp_path / "model")
    assert code == 0, errors
    assert "200 rows" in text
    code, _, errors = run_coad("score", tmp_path / "model", path, "--out", tmp_path / "s.csv")
    assert code == 0, errors


@pytest.mark.parametrize("content", [b"PK\x03\x04 no zip", b"plain text", None])
def test_a_damaged_workbook_is_refused_in_a_line(tmp_path, run_coad, content):
    path = tmp_path / "a.xlsx"
    if content is None:
        content = workbook(path, [("a", "b"), (1, 2)]).read_bytes()[:-300]
    path.write_bytes(content)
    with pytest.raises(FileError, match="save it as CSV"):
        read_columns(path, ["a"])
    code, _, errors = run_coad("thresholds", path, "--s", "a", "--q", "b")
    assert (code, len(errors.splitlines())) == (2, 1)


def test_without_openpyxl_a_line_says_what_to_install(tmp_path, monkeypatch):
    path = workbook(tmp_path / "other.xlsx", [("a", "b"), (1, 2)])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'coad\[excel\]'"):
        read_columns(path, ["a"])
