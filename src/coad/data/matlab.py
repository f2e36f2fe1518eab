"""Read MATLAB ``.mat`` files as named arrays; the first axis is the rows.

=============================  ==================================================
vector (n × 1 or 1 × n)        a column of n rows
matrix or array                rows along its first axis
struct array (1 × n)           one row per element, one column per field; a field
                               of vectors becomes an array of n rows
struct (1 × 1)                 one column per field
=============================  ==================================================

Fields are named ``struct.field``, or ``field`` if the file contains a single struct and nothing
else. Files of version 7.3 are HDF5 files and need h5py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.exceptions import FileError, InputError


def read_mat(path: Path) -> dict[str, NDArray[Any]]:
    """The variables of a ``.mat`` file as columns."""
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
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path, struct_as_record=True, squeeze_me=False, chars_as_strings=True)
    except (MatReadError, ValueError, TypeError, OSError, EOFError, IndexError, NotImplementedError) as error:
        raise FileError(
            f"cannot read {str(path)!r}: it is truncated, or not a MATLAB file ({error})"
        ) from error
    except Exception as error:
        # A damaged file can raise many other errors in scipy and zlib.
        raise FileError(f"cannot read {str(path)!r}: {error}") from error
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
    try:
        import h5py
    except ImportError as error:
        raise FileError(f"reading {str(path)!r} (MATLAB 7.3) needs h5py: pip install h5py") from error
    try:
        with h5py.File(path, "r") as file:
            return {
                name: {field: _hdf5_value(file, part) for field, part in item.items()}
                if isinstance(item, h5py.Group)
                else _hdf5_value(file, item)
                for name, item in file.items()
                if not name.startswith("#")
            }
    except (OSError, RuntimeError, KeyError) as error:
        raise FileError(
            f"cannot read {str(path)!r}: it is truncated, or not a MATLAB file ({error})"
        ) from error


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
