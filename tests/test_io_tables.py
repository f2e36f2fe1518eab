"""Tables open whatever they were saved as, and bad ones are refused in one clear sentence."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import coad
from coad.data import find_files, iter_columns, read_columns, select_columns
from coad.data.memory import text_size
from coad.data.paths import file_kind
from coad.data.tables import table_bytes
from coad.exceptions import FileError, InputError

SOURCE = str(Path(coad.__file__).parents[1])


def table(n=1000):
    rng = np.random.default_rng(0)
    return pa.table({"a": rng.normal(size=n), "b": np.arange(n), "run": [f"r{i % 3}" for i in range(n)]})


def saved(folder, kind, content):
    path = folder / f"data.{kind}"
    if kind == "csv":
        import pyarrow.csv as pacsv

        pacsv.write_csv(content, path)
    elif kind == "parquet":
        pq.write_table(content, path, row_group_size=300)
    elif kind == "feather":
        feather.write_feather(content, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, content.schema) as writer:
            writer.write_table(content, max_chunksize=170)
    return path


KINDS = ["csv", "parquet", "feather", "arrow"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_columns(tmp_path, kind):
    content = table()
    columns = read_columns(saved(tmp_path, kind, content), ["b", "a", "run"], categories=["run"])
    assert list(columns) == ["b", "a", "run"]
    np.testing.assert_array_equal(columns["a"], content["a"].to_numpy())
    assert columns["b"].dtype == np.float64
    assert columns["run"].tolist() == content["run"].to_pylist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_rows", [1, 7, 300, 5000])
def test_batches_are_bounded_and_add_up_to_the_whole(tmp_path, kind, batch_rows):
    content = table(430)
    batches = list(iter_columns(saved(tmp_path, kind, content), ["a"], batch_rows))
    assert max(len(batch["a"]) for batch in batches) <= batch_rows
    np.testing.assert_array_equal(np.concatenate([b["a"] for b in batches]), content["a"].to_numpy())


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a;b\n1,5;2\n", [1.5]),
        ("a\tb\n1.5\t2\n", [1.5]),
        ("a|b\n1|2\n", [1]),
        ("\ufeffa,b\n1,2\n", [1]),
        ("a,b\r\n1,2\r\n3,4\r\n", [1, 3]),
        ('"a","b"\n" 1 ","2"\n', [1]),
        ("a,b\nTrue,2\nfalse,3\n", [1, 0]),
        ("a,b\n1,2\n,3\nNaN,4\ninf,5\n", [1, np.nan, np.nan, np.inf]),
        ("a,b\nBad Input,2\n---,3\nN/A,4\n5,I/O Timeout\n", [np.nan, np.nan, np.nan, 5]),
        ("a,b\nbAd iNpUt,2\n 5 ,3\n", [np.nan, 5]),
        ("a;b\n1,5;2\nBAD inPut;2\n", [1.5, np.nan]),
    ],
)
def test_csv_habits_are_understood(tmp_path, text, values):
    path = tmp_path / "x.csv"
    path.write_text(text)
    np.testing.assert_array_equal(read_columns(path, ["a"])["a"], values)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", FileError, "is empty"),
        ("\n\n", FileError, "has no columns"),
        ("a,b\n", FileError, "has a header but no rows"),
        (
            "a,b\n1,2\n3",
            FileError,
            "differ in the number of values.*: .*Expected 2 columns, got 1: 3",
        ),
        ("a,b\nx,2\n", InputError, r"column 'a' in '.*' is not numeric: 'x' at row 0"),
        ("a,b\n1,2\n2,3\n1.2.3,4\n", InputError, "not numeric: '1.2.3' at row 2"),
        ("aa,b\n1,2\n", InputError, "did you mean 'aa'"),
        ("A,b\n1,2\n", InputError, "did you mean 'A'"),
        ("x,y\n1,2\n", InputError, "there are 'x', 'y'"),
        ("1,2\n3,4\n", InputError, "add a header line with column names"),
        ("a,a\n1,2\n", InputError, "appears 2 times"),
    ],
)
def test_bad_csv_is_refused_in_one_sentence(tmp_path, text, kind, message):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(kind, match=message) as caught:
        read_columns(path, ["a"])
    assert "\n" not in str(caught.value)


def test_a_bad_value_far_down_is_named_with_its_row(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a,b\n" + "1,2\n" * 1_500_000 + "1,oops\n")
    for read in (lambda: read_columns(path, ["a", "b"]), lambda: list(iter_columns(path, ["a", "b"]))):
        with pytest.raises(InputError, match="'oops' at row 1,500,000"):
            read()


def test_a_rare_spelling_of_missing_far_down_is_missing(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a,run\n" + "1,2\n" * 1_200_000 + "No daTA,3\n7,3\n")
    for batches in (iter_columns(path, ["a", "run"], categories=["run"]), [read_columns(path, ["a", "run"])]):
        parts = list(batches)
        assert sum(len(part["a"]) for part in parts) == 1_200_002
        np.testing.assert_array_equal(parts[-1]["a"][-3:], [1, np.nan, 7])
        assert parts[-1]["run"][-3:].tolist() == [2, 3, 3]


def test_sizes_are_those_after_decompression(tmp_path, monkeypatch, run_coad):
    path = tmp_path / "small.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"a,b\n" + b"0,1\n1,0\n" * 400_000)
    assert path.stat().st_size < 20_000
    assert table_bytes(path, 2) == pytest.approx(16 * 800_000, rel=0.01)
    assert text_size(path) == 4 + 8 * 400_000
    code, text, errors = run_coad("thresholds", path, "--s", "a", "--q", "b", "--max-rows", 500_000)
    assert code == 0, errors
    assert "read in" in text, "more rows than are held at once"
    monkeypatch.setattr("coad.data.memory.free_memory", lambda: 20e6)
    with pytest.raises(InputError, match=r"small\.csv\.gz' needs about 0\.0 GB of memory"):
        read_columns(path, ["a", "b"])
    assert sum(len(batch["a"]) for batch in iter_columns(path, ["a", "b"])) == 800_000


def test_not_enough_memory_is_one_line(monkeypatch, tmp_path, run_coad):
    path = saved(tmp_path, "csv", table())

    def full(*_, **__):
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr("coad.thresholds.selection.select_thresholds", full)
    code, _, errors = run_coad("thresholds", path, "--s", "a", "--q", "b")
    assert (code, errors) == (2, "coad: there is not enough memory for this (Unable to allocate 7.28 TiB)\n")


def test_fractions_after_a_million_whole_numbers_are_read(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a\n" + "1\n" * 3_000_000 + "1.5\n")
    assert [batch["a"][-1] for batch in iter_columns(path, ["a"], 10_000_000)][-1] == 1.5


def test_a_category_may_turn_from_numbers_to_text(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a,run\n" + "1,2\n" * 1_500_000 + "1,x\n")
    assert read_columns(path, ["run"], categories=["run"])["run"][[0, -1]].tolist() == ["2", "x"]


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv.gz"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_truncated_files_are_refused(tmp_path, kind, share):
    if kind == "csv.gz":
        path = tmp_path / "data.csv.gz"
        path.write_bytes(gzip.compress(saved(tmp_path, "csv", table()).read_bytes()))
    else:
        path = saved(tmp_path, kind, table())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(FileError, match="cannot read") as caught:
        read_columns(path, ["a"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", bytes(range(256)) * 9),
        ("x.csv", "a,ü\n1,2\n".encode("latin-1")),
        ("x.parquet", b"hello"),
        ("x.arrow", b"hello, hello, hello"),
        ("x.feather", b"FEA1hello"),
        ("x.csv.gz", b"\x1f\x8bhello"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match="cannot read"):
        read_columns(tmp_path / name, ["a"])


def test_a_damaged_page_in_the_middle_is_a_file_error(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(table(50_000), path, compression="gzip", use_dictionary=False)
    content = bytearray(path.read_bytes())
    middle = len(content) // 3
    content[middle : middle + 4000] = b"\xff" * 4000
    path.write_bytes(bytes(content))
    with pytest.raises(FileError, match="cannot read"):
        read_columns(path, ["a", "b"])


def test_times_and_lists_are_no_scores(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"t": pa.array([1, 2], pa.timestamp("s"))}), path)
    with pytest.raises(InputError, match=r"'t' in .* holds times, not numbers"):
        read_columns(path, ["t"])


def test_rows_of_equal_length_in_a_list_column_become_a_block(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"w": [[1.0, 2.0], [3.0, 4.0]], "ragged": [[1.0], [1.0, 2.0]]}), path)
    assert read_columns(path, ["w"])["w"].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InputError, match=r"rows of different lengths \(1 to 2\)"):
        read_columns(path, ["ragged"])


def test_dictionary_null_and_zoned_columns_are_plain_arrays(tmp_path):
    path = tmp_path / "t.parquet"
    zoned = pa.array([0, None], pa.timestamp("us", "Europe/Berlin"))
    pq.write_table(
        pa.table({"d": pa.array(["x", None]).dictionary_encode(), "z": zoned, "i": [1, None]}), path
    )
    columns = read_columns(path, ["d", "z", "i"], categories=["d", "z"])
    assert columns["d"].tolist() == ["x", ""]
    assert columns["z"][0] == np.datetime64("1970-01-01")
    assert np.isnat(columns["z"][1])
    np.testing.assert_array_equal(columns["i"], [1, np.nan])


def test_a_bad_file_in_a_folder_is_reported_and_the_rest_is_read(tmp_path):
    for number in range(4):
        pq.write_table(table(10), tmp_path / f"part-{number}.parquet")
    (tmp_path / "part-2.parquet").write_bytes(b"PAR1 cut off")
    bad = []
    rows = sum(
        len(b["a"]) for b in iter_columns(tmp_path, ["a"], on_bad_file=lambda path, _: bad.append(path.name))
    )
    assert (rows, bad) == (30, ["part-2.parquet"])
    with pytest.raises(FileError, match="part-2"):
        list(iter_columns(tmp_path, ["a"]))


def test_files_are_found_in_natural_order_and_hidden_ones_are_not(tmp_path):
    for name in ("p10.csv", "p9.csv", "_SUCCESS", ".x.csv", "sub/p1.parquet", "readme.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a\n1\n")
    assert [path.name for path in find_files(tmp_path)] == ["p9.csv", "p10.csv", "p1.parquet"]
    assert [path.name for path in find_files(str(tmp_path / "*.csv"))] == ["p9.csv", "p10.csv"]
    for source, message in (
        ("nope*.csv", "no file matches"),
        ("nope.csv", "there is no file"),
        ("empty", "no data"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(FileError, match=message):
            find_files(str(tmp_path / source))


def test_a_file_without_a_suffix_is_known_by_its_first_bytes(tmp_path):
    pq.write_table(table(5), tmp_path / "nameless")
    assert file_kind(tmp_path / "nameless") == "parquet"
    assert len(read_columns(tmp_path / "nameless", ["a"])["a"]) == 5


NAMES = ["t", "motor_a", "motor_b", "vib_x", "vib[0]", "a,b"]


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        ("motor_*", ["motor_a", "motor_b"]),
        ("vib_x,motor_a", ["vib_x", "motor_a"]),
        (["motor_b", "motor_*"], ["motor_b", "motor_a"]),
        ("/^(t|vib_.)$/", ["t", "vib_x"]),
        ("/o{1,2}t/, t", ["motor_a", "motor_b", "t"]),
        ("vib[0]", ["vib[0]"]),
        ("a,b", ["a,b"]),
    ],
)
def test_columns_are_chosen_by_name_glob_or_expression(patterns, chosen):
    assert select_columns(NAMES, patterns) == chosen


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("moter_*", r"did you mean 'motor_\*'"),
        ("vib_z", "did you mean 'vib_x'"),
        ("/zzz/", "no column matches '/zzz/'; there are"),
        ("/(/", "not a regular expression"),
        ("", "no column was named"),
    ],
)
def test_patterns_that_match_nothing_suggest_the_nearest(pattern, message):
    with pytest.raises(InputError, match=message):
        select_columns(NAMES, pattern)


def test_reading_does_not_import_pandas(tmp_path):
    path = saved(tmp_path, "csv", table())
    code = (
        "import sys; from coad.data import read_columns; "
        f"read_columns({str(path)!r}, ['a', 'b', 'run'], categories=['run']); "
        "sys.exit('pandas' in sys.modules or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ, "PYTHONPATH": SOURCE})
    assert done.returncode == 0


def test_columns_that_were_read_can_be_changed(tmp_path):
    columns = read_columns(saved(tmp_path, "parquet", table()), ["a"])
    columns["a"][0] = 7.0
    assert columns["a"][0] == 7.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_rows", [3, 7, 64])
def test_missing_values_stay_in_their_rows_when_batches_cut_through(tmp_path, kind, batch_rows):
    rng = np.random.default_rng(1)
    gone = rng.random(200) < 0.3
    content = pa.table(
        {
            "f": pa.array(np.arange(200.0), mask=gone),
            "i": pa.array(np.arange(200), mask=gone),
            "w": pa.array([f"w{i % 5}" for i in range(200)], mask=gone),
        }
    )
    batches = list(
        iter_columns(saved(tmp_path, kind, content), ["f", "i", "w"], batch_rows, categories=["w"])
    )
    for name in ("f", "i"):
        read = np.concatenate([batch[name] for batch in batches])
        np.testing.assert_array_equal(read, np.where(gone, np.nan, np.arange(200.0)))
    words = np.concatenate([batch["w"] for batch in batches])
    assert words.tolist() == ["" if g else f"w{i % 5}" for i, g in enumerate(gone)]
