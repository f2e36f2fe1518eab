"""Read MATLAB ``.mat`` files as named arrays; the first axis is the rows.

=============================  ==================================================
vector (n × 1 or 1 × n)        a column of n rows
matrix or array                rows along its first axis
struct array (1 × n)           one row per element, one column per field; a field
                               of vectors becomes an array of n rows
struct (1 × 1)                 one column per field
=============================  ==================================================

Fields are named ``struct.field``, or ``field`` if the file contains a single struct and nothing
else. Files of version 7.3 are HDF5 files.

A damaged file can crash SciPy, so it is read in a process of its own, with a limit of memory. The arrays come back
as .npy files, which hold no code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.data.memory import free_memory
from coad.exceptions import CoadError, FileError, InputError

_SECONDS = 600  # a reader that takes longer has lost its way in a damaged file
_CHILD = "import sys; from coad.data.matlab import child; child(*sys.argv[1:])"


def read_mat(path: Path) -> dict[str, NDArray[Any]]:
    """The variables of a ``.mat`` file as columns, which cannot be written to."""
    stat = path.stat()
    return dict(_in_child(path, stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=1)  # names and rows are asked for one after the other
def _in_child(path: Path, changed: int, size: int) -> dict[str, NDArray[Any]]:
    with tempfile.TemporaryDirectory(prefix="coad-") as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", _CHILD, str(path.absolute()), folder],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise FileError(f"cannot read {str(path)!r}: it took more than {_SECONDS} s") from error
        answer = Path(folder) / "answer.json"
        if not answer.exists():
            raise FileError(
                f"cannot read {str(path)!r}: it is damaged; the reader ended with {done.returncode}"
            )
        kind, content = json.loads(answer.read_bytes())
        if kind != "columns":
            raise (InputError if kind == "InputError" else FileError)(content)
        columns = {
            name: np.load(Path(folder) / f"{i}.npy", allow_pickle=False) for i, name in enumerate(content)
        }
    for array in columns.values():
        array.flags.writeable = False
    return columns


def child(path: str, folder: str) -> None:
    """In the process of its own: write the columns, or the error, to a folder."""
    if sys.platform != "win32":
        import resource

        most = int(0.5 * free_memory())
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    answer: tuple[str, Any]
    try:
        columns = _read(Path(path))
        for i, array in enumerate(columns.values()):
            np.save(Path(folder) / f"{i}.npy", array, allow_pickle=False)
        answer = "columns", list(columns)
    except CoadError as error:
        answer = type(error).__name__, str(error)
    except MemoryError:
        answer = "FileError", f"cannot read {path!r}: it needs more than half of the free memory"
    except Exception as error:  # a damaged file can raise almost any error in scipy, zlib and here
        answer = "FileError", f"cannot read {path!r}: it is damaged, or not a MATLAB file ({error!r:.200})"
    (Path(folder) / "answer.json").write_text(json.dumps(answer))


def _read(path: Path) -> dict[str, NDArray[Any]]:
    with path.open("rb") as file:
        head = file.read(128)
    variables = _read_hdf5(path) if b"MATLAB 7.3" in head or head[:4] == b"\x89HDF" else _read_classic(path)
    if not variables:
        raise FileError(f"{str(path)!r} has no variables")
    columns: dict[str, NDArray[Any]] = {}
    for name, value in variables.items():
        if isinstance(value, dict):
            prefix = "" if len(variables) == 1 else f"{name}."
            columns.update(
                {prefix + field: _column(items, prefix + field, path) for field, items in value.items()}
            )
        else:
            columns[name] = _column(value, name, path)
    return columns


#: A plain variable is an array; a struct is a dict from field to its array, or to a list (one per element).
_Variable = Any


def _read_classic(path: Path) -> dict[str, _Variable]:
    from scipy.io import loadmat

    content = loadmat(path, struct_as_record=True, squeeze_me=False, chars_as_strings=True)
    result: dict[str, _Variable] = {}
    for name, value in content.items():
        if name.startswith("__") or not isinstance(value, np.ndarray):
            continue
        if value.dtype.names:
            elements = value.ravel(order="F")
            result[name] = {
                field: elements[field][0] if len(elements) == 1 else list(elements[field])
                for field in value.dtype.names
            }
        else:
            result[name] = value
    return result


def _read_hdf5(path: Path) -> dict[str, _Variable]:
    import h5py

    with h5py.File(path, "r") as file:
        return {
            name: {field: _hdf5_value(file, part) for field, part in item.items()}
            if isinstance(item, h5py.Group)
            else _hdf5_value(file, item)
            for name, item in file.items()
            if not name.startswith("#")
        }


def _hdf5_value(file: Any, item: Any) -> _Variable:
    import h5py

    if isinstance(item, h5py.Group):
        raise InputError(
            f"{item.name!r} is a struct inside a struct, which has no rows; flatten it in MATLAB"
        )
    if item.dtype == h5py.ref_dtype:
        # A field of a struct array, or a cell array: one reference per element.
        return [_hdf5_value(file, file[reference]) for reference in np.asarray(item[()]).ravel()]
    if item.attrs.get("MATLAB_empty", 0):
        return np.empty((0, 0))
    # MATLAB is column-major, so the axes are reversed.
    array = np.asarray(item[()]).T
    if item.attrs.get("MATLAB_class", b"") == b"char":
        return np.array(["".join(chr(code) for code in row) for row in np.atleast_2d(array)])
    return array


def _column(value: Any, name: str, path: Path) -> NDArray[Any]:
    if isinstance(value, list):
        return _stacked([_column(one, name, path) for one in value], name, path)
    array = np.asarray(value)
    if array.dtype.kind == "O":
        return _stacked([_column(one, name, path) for one in array.ravel(order="F")], name, path)
    if array.ndim == 2 and 1 in array.shape:
        return array.ravel()
    return array


def _stacked(items: list[NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    """Stack elements as rows: scalars into a column (empty ones are missing), vectors into a block."""
    sizes = {item.shape for item in items if item.size}
    if not sizes:
        return np.full(len(items), np.nan)
    if sizes == {(1,)}:
        if all(item.dtype.kind in "US" for item in items if item.size):
            return np.array([str(item[0]) if item.size else "" for item in items])
        return np.array([float(item[0]) if item.size else np.nan for item in items])
    if len(sizes) > 1 or any(not item.size for item in items):
        lengths = sorted({item.shape[0] if item.ndim else 0 for item in items})
        raise InputError(
            f"{name!r} in {str(path)!r} has elements of different lengths ({lengths[0]:,} to {lengths[-1]:,})"
        )
    return np.stack(items)
