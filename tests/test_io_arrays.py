"""NPZ, HDF5 and MATLAB files as rows; nothing in them is ever executed."""

from __future__ import annotations

import io
import zipfile

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from coad.data import Layout, iter_columns, read_columns, read_pairs
from coad.data.tables import column_names
from coad.exceptions import FileError, InputError

ARRAYS = {
    "PS1": np.arange(30.0).reshape(5, 6),
    "PS2": np.ones((5, 6)),
    "profile": np.arange(15).reshape(5, 3),
}


def saved(folder, kind):
    path = folder / f"x.{kind}"
    if kind == "npz":
        np.savez_compressed(path, **ARRAYS)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            for name, array in ARRAYS.items():
                file[name] = array
    else:
        savemat(path, ARRAYS, do_compression=True)
    return path


KINDS = ["npz", "h5", "mat"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_file_gives_the_same_pairs(tmp_path, kind):
    layout = Layout(s="PS*", q="profile[0:2]", context="profile[2], profile[1]", label="profile[2]")
    pairs = read_pairs(saved(tmp_path, kind), layout)
    assert pairs.s.shape == (5, 2, 6)
    np.testing.assert_array_equal(pairs.s[:, 0], ARRAYS["PS1"])
    np.testing.assert_array_equal(pairs.q, ARRAYS["profile"][:, :2])  # few values a row are columns
    assert pairs.q_names == ("profile[0:2][0]", "profile[0:2][1]")
    assert pairs.context[0] == "profile[2]=2, profile[1]=1"
    assert pairs.label.tolist() == [2, 5, 8, 11, 14]


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_come_in_batches(tmp_path, kind):
    batches = list(iter_columns(saved(tmp_path, kind), ["PS1", "profile[1]"], 2))
    assert [len(batch["PS1"]) for batch in batches] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate([b["PS1"] for b in batches]), ARRAYS["PS1"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_truncated_array_files_are_refused(tmp_path, kind, share):
    path = saved(tmp_path, kind)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(FileError, match="cannot read") as caught:
        read_columns(path, ["PS1", "PS2", "profile"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [b"", b"hello world" * 40])
def test_files_of_another_kind_are_refused(tmp_path, kind, content):
    path = tmp_path / f"x.{kind}"
    path.write_bytes(content)
    with pytest.raises(FileError):
        read_columns(path, ["PS1"])


class Bomb:
    """Whatever unpickles it runs its code."""

    exploded = False

    def __reduce__(self):
        return (setattr, (Bomb, "exploded", True))


def npy_header(shape):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["npz", "compressed npz", "h5", "chunked h5"])
def test_files_that_declare_a_trillion_values_are_refused_before_memory_is_taken(tmp_path, run_coad, kind):
    path = tmp_path / f"big.{kind.split()[-1]}"
    if kind == "npz":
        with zipfile.ZipFile(path, "w") as file:
            for name in ("a", "b"):
                file.writestr(f"{name}.npy", npy_header((10**12,)) + b"\0" * 100)
    elif kind == "compressed npz":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name in ("a", "b"):
                with file.open(f"{name}.npy", "w", force_zip64=True) as part:
                    part.write(npy_header((2**24,)))
                    for _ in range(2**7):
                        part.write(bytes(2**20))
    else:
        with h5py.File(path, "w") as file:
            for name in ("a", "b"):
                file.create_dataset(name, (10**12,), "f8", chunks=(1000,) if "chunked" in kind else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coad.data.memory.free_memory", lambda: 1e8)
        code, _, errors = run_coad("thresholds", path, "--s", "a", "--q", "b")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "declares" in errors or "GB of memory" in errors


def test_pickled_objects_are_never_loaded(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, bomb=np.array([Bomb()], dtype=object), fine=np.zeros(1))
    with pytest.raises(FileError, match="pickled objects, which coad never loads"):
        read_columns(path, ["bomb"])
    assert not Bomb.exploded
    assert read_columns(path, ["fine"])["fine"].tolist() == [0]


def test_arrays_of_different_lengths_are_named(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.zeros(3), b=np.zeros(4))
    with pytest.raises(InputError, match="'a' has 3 and 'b' 4"):
        read_columns(path, ["a", "b"])


def test_a_place_outside_the_array_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"selects index 3 of the last axis, .* shape \(5, 3\)"):
        read_columns(saved(tmp_path, "npz"), ["profile[3]"])


def test_inputs_that_share_a_channel_of_one_array_are_refused(tmp_path):
    path = saved(tmp_path, "npz")
    with pytest.raises(InputError, match="overlapping parts of 'PS1'"):
        read_pairs(path, Layout(s="PS1[0:3]", q="PS1[2:6]"))
    assert len(read_pairs(path, Layout(s="PS1[0:3]", q="PS1[3:6]"))) == 5


def test_groups_text_and_compound_datasets_of_hdf5_are_columns(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["run/name"] = ["x", "y"]
        file["run/table"] = np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")])
        file["scalar"] = 3.0
    assert column_names(path) == ["run/name", "run/table.a", "run/table.b"]
    columns = read_columns(path, ["run/name", "run/table.b"], categories=["run/name"])
    assert columns["run/name"].tolist() == ["x", "y"]
    assert columns["run/table.b"].tolist() == [2.5, 4.5]


def struct(n=4, samples=6):
    names = [("case", object), ("VB", object), ("signal", object)]
    rows = np.empty((1, n), dtype=names)
    for i in range(n):
        rows[0, i] = (float(i), np.empty((0, 0)) if i == 1 else 0.1 * i, np.full((samples, 1), float(i)))
    return rows


def test_a_struct_array_is_a_row_per_element(tmp_path):
    path = tmp_path / "mill.mat"
    savemat(path, {"mill": struct()})
    columns = read_columns(path, ["case", "VB", "signal"])
    assert columns["case"].tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(columns["VB"], [0, np.nan, 0.2, 0.3])
    assert columns["signal"].shape == (4, 6)
    assert columns["signal"][2].tolist() == [2.0] * 6


def test_two_variables_keep_the_name_of_the_struct(tmp_path):
    path = tmp_path / "x.mat"
    savemat(path, {"mill": struct(), "speed": np.arange(4.0)})
    assert column_names(path) == ["mill.case", "mill.VB", "mill.signal", "speed"]


def test_a_crash_of_the_reader_of_matlab_files_is_one_line(tmp_path, monkeypatch, run_coad):
    path = saved(tmp_path, "mat")
    monkeypatch.setattr("coad.data.matlab._CHILD", "import os; os.abort()")
    code, _, errors = run_coad("thresholds", path, "--s", "PS1[0]", "--q", "PS2[0]")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "it is damaged; the reader ended with -6" in errors


def test_a_matlab_file_larger_than_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "zeros.mat"
    savemat(path, {"x": np.zeros(2**25)}, do_compression=True)
    assert path.stat().st_size < 1_000_000
    limited = "import sys, coad.data.matlab as m; m.free_memory = lambda: 4e8; m.child(*sys.argv[1:])"
    monkeypatch.setattr("coad.data.matlab._CHILD", limited)
    with pytest.raises(FileError, match="more than half of the free memory"):
        read_columns(path, ["x"])


def test_columns_of_a_matlab_file_can_be_changed_without_changing_the_next(tmp_path):
    path = saved(tmp_path, "mat")
    read_columns(path, ["PS1"])["PS1"][:] = 7.0
    np.testing.assert_array_equal(read_columns(path, ["PS1"])["PS1"], ARRAYS["PS1"])


def test_signals_of_different_lengths_are_named(tmp_path):
    path = tmp_path / "x.mat"
    rows = struct()
    rows[0, 3]["signal"] = np.zeros((9, 1))
    savemat(path, {"mill": rows})
    with pytest.raises(InputError, match=r"'signal' .* different lengths \(6 to 9\)"):
        read_columns(path, ["signal"])


def test_a_matlab_7_3_file_is_read_through_hdf5(tmp_path):
    path = tmp_path / "x.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["matrix"] = np.arange(6.0).reshape(2, 3)  # MATLAB's 3 × 2
        group = file.create_group("mill")
        parts = [file.create_dataset(f"#refs#/{i}", data=np.full((1, 5), float(i))) for i in range(3)]
        group["signal"] = np.array([[part.ref for part in parts]], dtype=h5py.ref_dtype)
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(128))
    columns = read_columns(path, ["matrix", "mill.signal"])
    assert columns["matrix"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert columns["mill.signal"].shape == (3, 5)
