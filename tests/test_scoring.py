"""Scoring files with a saved model: batches, bad files, and output that is whole or absent."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch")

from coad.data import Layout, read_pairs
from coad.data.atomic import written_whole
from coad.exceptions import FileError, InputError
from coad.learned.estimator import CoAD
from coad.workflows.evaluating import evaluate_files
from coad.workflows.model_folder import load_model, save_model
from coad.workflows.recipe import Clocks, Recipe
from coad.workflows.scoring import Source, iter_confidences, read_ahead, score_files

LAYOUT = Layout(s=("a", "b"), q=("c",), time="t", time_unit="number", window=4, stride=2, max_gap="1s")


def rows(n, seed, start=0.0):
    rng = np.random.default_rng(seed)
    event = np.repeat(rng.random(n // 4) < 0.1, 4)
    a, b, c = rng.normal(size=(3, n)) + 3 * event
    return {"t": start + np.arange(n) * 0.1, "a": a, "b": b, "c": c, "run": np.full(n, seed)}


@pytest.fixture(scope="module")
def model():
    parts = [read_pairs(rows(1200, seed), LAYOUT) for seed in range(2)]
    s, q = (np.concatenate([getattr(part, side) for part in parts]) for side in "sq")
    return CoAD(n_starts=1, epochs=15, random_state=0).fit(s, q)


@pytest.fixture
def folder(tmp_path):
    """Three files; the one in the middle is whole."""
    data = tmp_path / "data"
    data.mkdir()
    for number in range(3):
        pq.write_table(pa.table(rows(400, 10 + number)), data / f"part-{number}.parquet", row_group_size=90)
    return data


def test_batches_of_any_size_give_the_scores_of_all_rows_at_once(model, folder, tmp_path):
    pairs = read_pairs(folder, LAYOUT)
    p_s, p_q = model.confidences(pairs.s, pairs.q)
    for batch_rows in (7, 64, 10_000):
        out = tmp_path / "scores.parquet"
        done = score_files(model, Recipe(LAYOUT), Source(folder), out, batch_rows=batch_rows)
        table = pq.read_table(out)
        assert (done.n_rows, done.n_pairs, done.bad_files) == (1200, len(pairs), [])
        np.testing.assert_allclose(table["p_s"].to_numpy(), p_s, atol=1e-6)
        np.testing.assert_allclose(table["p_q"].to_numpy(), p_q, atol=1e-6)
        # Rows count within each file, so that a score can be found again there.
        assert table["row"].to_pylist() == [*range(0, 397, 2)] * 3
        assert table["last_row"].to_pylist()[:3] == [3, 5, 7]
        assert table["file"].to_pylist()[0].endswith("part-0.parquet")
        assert done.n_flagged == sum(table["flag"].to_pylist())


@pytest.mark.parametrize("damage", ["cut", "empty", "noise"])
def test_a_bad_file_in_the_middle_is_named_and_the_rest_is_scored(model, folder, tmp_path, damage):
    bad = folder / "part-1.parquet"
    content = bad.read_bytes()
    bad.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "noise": b"\0\1" * 500}[damage])
    done = score_files(model, Recipe(LAYOUT), Source(folder), tmp_path / "scores.csv")
    assert [path.name for path, _ in done.bad_files] == ["part-1.parquet"]
    files = set(pyarrow.csv.read_csv(tmp_path / "scores.csv")["file"].to_pylist())
    assert {name.rsplit("/")[-1] for name in files} == {"part-0.parquet", "part-2.parquet"}


def damage_last_page(path):
    """Overwrite the last pages of a Parquet file; its first row groups stay readable."""
    last = pq.ParquetFile(path).metadata.row_group(4)
    content = bytearray(path.read_bytes())
    for column in range(last.num_columns):
        chunk = last.column(column)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(bytes(content))


def test_a_file_with_a_damaged_row_group_is_whole_or_absent(model, folder, tmp_path):
    damage_last_page(folder / "part-1.parquet")
    out, seen = tmp_path / "scores.csv", []
    done = score_files(model, Recipe(LAYOUT), Source(folder), out, batch_rows=50)
    assert [path.name for path, _ in done.bad_files] == ["part-1.parquet"]
    assert done.n_pairs == 2 * 199
    assert not any("part-1" in name for name in pyarrow.csv.read_csv(out)["file"].to_pylist())
    for part in iter_confidences(
        model, Recipe(LAYOUT), Source(folder), batch_rows=50, on_bad_file=lambda *_: None
    ):
        seen.append(part.path.name)
    assert set(seen) == {"part-0.parquet", "part-2.parquet"}


def test_a_read_error_is_not_called_a_write_error(model, folder, tmp_path):
    damage_last_page(folder / "part-1.parquet")
    out = tmp_path / "scores.csv"
    with pytest.raises(FileError, match=r"^cannot read '.*part-1\.parquet': "):
        score_files(model, Recipe(LAYOUT), Source(folder / "part-1.parquet"), out, batch_rows=50)
    assert not out.exists()
    with pytest.raises(FileError, match="why it failed"), written_whole(out):
        raise FileError("why it failed")


def test_the_command_names_the_bad_file_and_does_not_exit_with_0(model, folder, tmp_path, run_coad):
    import h5py

    save_model(model, Recipe(LAYOUT), tmp_path / "model")
    with h5py.File(folder / "part-5.h5", "w") as file:
        for name, values in rows(400, 15).items():
            file[name] = values
    whole = (folder / "part-5.h5").read_bytes()
    (folder / "part-4.h5").write_bytes(whole[: len(whole) // 3])
    code, out, err = run_coad("score", tmp_path / "model", folder, "--out", tmp_path / "s.parquet")
    assert code == 1
    assert "part-4.h5" in err
    assert len(err.strip().splitlines()) == 1
    assert "1,600 rows" in out
    assert pq.read_table(tmp_path / "s.parquet").num_rows == 4 * 199


def test_old_scores_stay_if_nothing_new_can_be_made(model, folder, tmp_path):
    out = tmp_path / "scores.csv"
    out.write_text("old")
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FileError, match="none of the"):
        score_files(model, Recipe(LAYOUT), Source(folder), out)
    columns = rows(400, 3)
    columns["c"][300] = np.nan
    pq.write_table(pa.table(columns), tmp_path / "gap.parquet", row_group_size=50)
    with pytest.raises(InputError, match=r"'c' has 1 missing value .first at row 300"):
        score_files(model, Recipe(LAYOUT), Source(tmp_path / "gap.parquet"), out, batch_rows=50)
    assert out.read_text() == "old"
    assert {one.name for one in tmp_path.iterdir()} == {"data", "scores.csv", "gap.parquet"}


def test_means_of_the_model_fill_gaps(model, tmp_path):
    columns = rows(400, 4)
    columns["c"][300] = np.nan
    pq.write_table(pa.table(columns), tmp_path / "gap.parquet")
    layout = Layout.from_dict(LAYOUT.to_dict() | {"missing": "mean"})
    recipe = Recipe(layout, means={"a": 0.0, "b": 0.0, "c": 7.0})
    part = next(iter_confidences(model, recipe, Source(tmp_path / "gap.parquet")))
    assert part.pairs.q[150, 0, 0] == 7.0


def test_a_batch_of_which_every_row_is_dropped_gives_no_pairs(model, tmp_path):
    columns = rows(400, 4)
    columns["c"][100:160] = np.nan
    pq.write_table(pa.table(columns), tmp_path / "gap.parquet")
    recipe = Recipe(LAYOUT).with_missing("drop")
    source = Source(tmp_path / "gap.parquet")
    done = [score_files(model, recipe, source, tmp_path / "s.csv", batch_rows=size) for size in (20, 400)]
    assert done[0] == done[1]
    assert done[0].n_pairs == 49 + 119


def test_interpolated_gaps_need_all_rows_and_give_as_many_scores(model, tmp_path):
    columns = rows(400, 4)
    columns["c"][300] = np.nan
    pq.write_table(pa.table(columns), tmp_path / "gap.parquet")
    layout = Layout.from_dict(LAYOUT.to_dict() | {"missing": "interpolate"})
    done = score_files(
        model, Recipe(layout), Source(tmp_path / "gap.parquet"), tmp_path / "s.parquet", batch_rows=30
    )
    assert (done.n_rows, done.n_pairs) == (400, 199)


def test_files_too_short_for_a_window_are_said_to_be(model, tmp_path):
    pq.write_table(pa.table(rows(400, 4)).slice(0, 3), tmp_path / "short.parquet")
    with pytest.raises(FileError, match="window"):
        score_files(model, Recipe(LAYOUT), Source(tmp_path / "short.parquet"), tmp_path / "s.parquet")


def test_a_model_of_one_table_refuses_two_sources_and_the_other_way_round(model, folder, tmp_path):
    two = Source(s=folder, q=folder)
    with pytest.raises(InputError, match="without --s-file"):
        score_files(model, Recipe(LAYOUT), two, tmp_path / "s.parquet")
    with pytest.raises(InputError, match="pass --s-file"):
        score_files(model, Recipe(LAYOUT, Clocks()), Source(folder), tmp_path / "s.parquet")
    with pytest.raises(InputError, match="must end in"):
        score_files(model, Recipe(LAYOUT), Source(folder), tmp_path / "s.xlsx")


def test_a_saved_model_comes_back_with_its_recipe(model, tmp_path):
    recipe = Recipe(LAYOUT, Clocks("hold", "50ms", "when"), {"a": 1.5, "p": [1.0, 2.0]})
    save_model(model, recipe, tmp_path / "deep" / "model")
    again, same = load_model(tmp_path / "deep" / "model")
    assert same == recipe
    pairs = read_pairs(rows(200, 1), LAYOUT)
    np.testing.assert_array_equal(
        again.score_samples(pairs.s, pairs.q), model.score_samples(pairs.s, pairs.q)
    )


def test_evaluating_files_is_evaluating_their_pairs(model, folder):
    pairs = read_pairs(folder, LAYOUT)
    expected = model.evaluate(pairs.s, pairs.q)
    report = evaluate_files(model, Recipe(LAYOUT), Source(folder))
    assert report.judgement.evaluation.fbeta_hat == pytest.approx(expected.fbeta_hat, abs=1e-6)
    assert report.judgement.evaluation.n_rows == len(pairs)
    assert report.scored.n_rows == 1200


def test_labels_that_are_text_are_refused(model, tmp_path):
    columns = rows(400, 4) | {"state": ["ok"] * 400}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="'state' holds text"):
        evaluate_files(model, Recipe(LAYOUT), Source(tmp_path / "x.parquet"), label="state")


def test_reading_ahead_keeps_the_order_and_hands_errors_over():
    assert list(read_ahead(iter(range(50)))) == list(range(50))

    def broken():
        yield 1
        raise InputError("bad row")

    items = read_ahead(broken())
    assert next(items) == 1
    with pytest.raises(InputError, match="bad row"):
        next(items)
    endless = read_ahead(iter(int, 1))
    next(endless)
    endless.close()  # must not hang
