"""Named arrays in NPZ, HDF5 and MATLAB files; the first axis is the rows. Nothing is unpickled."""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad.data.columns import check_columns
from coad.data.matlab import read_mat
from coad.data.memory import WHOLE, refuse_too_large
from coad.data.paths import check_not_empty, file_kind
from coad.exceptions import FileError, InputError

#: ``profile[0]`` and ``X[0:2]`` select from the last axis of an array.
_PART = re.compile(r"(?P<name>.+)\[(?P<first>\d+)(?P<range>:(?P<end>\d*))?\]")


def array_names(path: Path) -> list[str]:
    """The names of the arrays in the file (HDF5 datasets in groups as ``group/name``)."""
    check_not_empty(path)
    kind = file_kind(path)
    with _reading(path):
        if kind == "npz":
            with np.load(path, allow_pickle=False) as file:
                return list(file.files)
        if kind == "hdf5":
            with _open_hdf5(path) as file:
                return list(_datasets(file))
        return list(read_mat(path))


def numeric_arrays(path: Path) -> list[str]:
    """The names of the arrays that hold one or more numbers per row."""
    with _reading(path), _opened(path, array_names(path)) as arrays:
        return [name for name, array in arrays.items() if array.shape and array.dtype.kind in "biuf"]


def array_batches(
    path: Path, names: Sequence[str], batch_rows: int | None = None
) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """Batches of rows of the named arrays, each with the number of its first row.

    ``name[i]`` and ``name[i:j]`` select from the last axis of an array. HDF5 files are read batch by
    batch; NPZ and MATLAB files are read whole.
    """
    whole_names = array_names(path)
    bases = {name: _part_of(name, whole_names) for name in names}
    check_columns(whole_names, [base for base, _ in bases.values()], where=str(path))
    with _reading(path), _opened(path, list(dict.fromkeys(base for base, _ in bases.values()))) as arrays:
        n = _common_length({base: arrays[base].shape for base, _ in bases.values()}, path)
        step = batch_rows or max(n, 1)
        refuse_too_large(
            sum(_row_bytes(array) * min(step, n) for array in arrays.values()),
            f"the file {str(path)!r}",
            WHOLE,
        )
        for start in range(0, n, step):
            pieces = {base: _plain(arrays[base][start : start + step], base, path) for base in arrays}
            yield start, {name: _cut(pieces[base], part, name) for name, (base, part) in bases.items()}


def array_bytes(path: Path) -> float:
    """The bytes of all arrays of a file once they are read."""
    check_not_empty(path)
    with _reading(path):
        if file_kind(path) == "npz":
            with zipfile.ZipFile(path) as members:
                return float(sum(member.file_size for member in members.infolist()))
        if file_kind(path) == "hdf5":
            with _open_hdf5(path) as file:
                return float(sum(_row_bytes(array) * array.shape[0] for array in _datasets(file).values()))
    return float(path.stat().st_size)


def is_part(pattern: str, names: Sequence[str]) -> bool:
    """Whether a pattern is ``name[i]`` or ``name[i:j]`` of an existing array.

    >>> is_part("profile[0]", ["profile"]), is_part("PS[12]", ["PS1", "PS2"])
    (True, False)
    """
    return pattern not in names and _part_of(pattern, names)[1] is not None


def shared_parts(s: Sequence[str], q: Sequence[str], names: Sequence[str]) -> list[str]:
    """Arrays of which s and q select overlapping parts.

    >>> shared_parts(["X[0:3]"], ["X[2:6]"], ["X"]), shared_parts(["X[0:2]"], ["X[2:]"], ["X"])
    (['X'], [])
    """
    shared = []
    for one, part_one in (_part_of(name, names) for name in s):
        for other, part_other in (_part_of(name, names) for name in q):
            if one == other and _places(part_one) & _places(part_other):
                shared.append(one)
    return list(dict.fromkeys(shared))


def _places(part: int | slice | None) -> set[int]:
    # An array of channels is assumed to be narrower than this.
    everything = range(1 << 16)
    return {part} if isinstance(part, int) else set(everything if part is None else everything[part])


def _part_of(name: str, names: Sequence[str]) -> tuple[str, int | slice | None]:
    match = None if name in names else _PART.fullmatch(name)
    if match is None or match["name"] not in names:
        return name, None
    first = int(match["first"])
    if match["range"] is None:
        return match["name"], first
    return match["name"], slice(first, int(match["end"]) if match["end"] else None)


def _cut(array: NDArray[Any], part: int | slice | None, name: str) -> NDArray[Any]:
    if part is None:
        return array
    size = array.shape[-1] if array.ndim > 1 else 0
    last = part if isinstance(part, int) else (part.stop or size) - 1
    if array.ndim < 2 or last >= size:
        raise InputError(
            f"{name!r} selects index {last} of the last axis, but the array has shape {array.shape}"
        )
    return np.ascontiguousarray(array[..., part])


@contextmanager
def _opened(path: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    kind = file_kind(path)
    if kind == "npz":
        with np.load(path, allow_pickle=False) as file:
            _check_members(file.zip, names, path)
            yield {name: file[name] for name in names}
    elif kind == "hdf5":
        with _open_hdf5(path) as file:
            found = {name: _datasets(file)[name] for name in names}
            for name, array in found.items():
                _check_stored(array, name, path)
            yield found
    else:
        found = read_mat(path)
        yield {name: found[name] for name in names}


def _check_members(members: zipfile.ZipFile, names: Sequence[str], path: Path) -> None:
    """Refuse arrays that declare more values than the file holds, or than fit into memory, before they are read."""
    total = 0
    for name in names:
        if f"{name}.npy" not in members.namelist():
            raise FileError(f"cannot read {str(path)!r}: {name!r} is not an array")
        held = members.getinfo(f"{name}.npy").file_size
        with members.open(f"{name}.npy") as stream:
            version = np.lib.format.read_magic(stream)
            header = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = header(stream)
        declared = math.prod(shape) * dtype.itemsize
        if declared > held:
            raise FileError(
                f"cannot read {str(path)!r}: {name!r} declares {declared:,} bytes and holds {held:,}"
            )
        total += held
    refuse_too_large(total, f"the file {str(path)!r}", "store it as Parquet or HDF5")


def _check_stored(array: Any, name: str, path: Path) -> None:
    """Refuse a dataset of HDF5 that declares values which were never written."""
    dataset = getattr(array, "dataset", array)
    held = dataset.id.get_storage_size()
    if dataset.size and (not held or (dataset.chunks is None and held < dataset.nbytes)):
        raise FileError(
            f"cannot read {str(path)!r}: {name!r} declares {dataset.size:,} values, and not all of them were written"
        )


def _row_bytes(array: Any) -> float:
    return float(math.prod(array.shape[1:]) * array.dtype.itemsize)


def _open_hdf5(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise FileError(f"reading {str(path)!r} needs h5py: pip install h5py") from error
    return h5py.File(path, "r")


def _datasets(file: Any) -> dict[str, Any]:
    """All datasets by path; the fields of a compound dataset as ``table.field``."""
    import h5py

    found: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset) or not item.shape:
            return
        if item.dtype.names:
            found.update({f"{name}.{part}": _Field(item, part) for part in item.dtype.names})
        else:
            found[name] = item

    file.visititems(visit)
    return found


class _Field:
    """A field of a compound dataset, read when it is sliced."""

    def __init__(self, dataset: Any, name: str) -> None:
        self.dataset, self.name = dataset, name
        kind = dataset.dtype[name]
        self.shape, self.dtype = (*dataset.shape, *kind.shape), kind.base

    def __getitem__(self, index: Any) -> NDArray[Any]:
        return np.asarray(self.dataset.fields(self.name)[index])


def _plain(values: Any, name: str, path: Path) -> NDArray[Any]:
    """An array of numbers, booleans or text; bytes are decoded."""
    array = np.asarray(values)
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    if array.dtype.kind == "O":
        if all(isinstance(one, (bytes, str)) for one in array.flat):
            texts = [one.decode("utf-8") if isinstance(one, bytes) else one for one in array.flat]
            return np.array(texts, dtype=str).reshape(array.shape)
        raise InputError(f"{name!r} in {str(path)!r} holds objects, not numbers or text")
    return array


def _common_length(shapes: dict[str, tuple[int, ...]], path: Path) -> int:
    for name, shape in shapes.items():
        if not shape:
            raise InputError(f"{name!r} in {str(path)!r} is a single value, not rows")
    lengths = {name: shape[0] for name, shape in shapes.items()}
    if len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lambda n: lengths[n]), max(lengths, key=lambda n: lengths[n])
        raise InputError(
            f"arrays of {str(path)!r} differ in rows: "
            f"{short!r} has {lengths[short]:,} and {long!r} {lengths[long]:,}"
        )
    return next(iter(lengths.values()), 0)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of the libraries into a ``FileError`` of one line that names the file."""
    try:
        yield
    except (FileError, InputError):
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise FileError(
            f"cannot read {str(path)!r}: it is truncated, or not an NPZ file ({error})"
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        text = str(error).strip().split("\n")[0]
        if "allow_pickle" in text or "pickle" in text.lower():
            text = "it holds pickled objects, which coad never loads; save plain arrays"
        elif "truncated" in text or "file signature not found" in text:
            text = f"it is truncated, or not an HDF5 file ({text})"
        raise FileError(f"cannot read {str(path)!r}: {text}") from error
