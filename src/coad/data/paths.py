"""Find data files by path, folder or glob, and recognise their format."""

from __future__ import annotations

import os
from collections.abc import Iterable
from glob import glob, has_magic
from pathlib import Path
from typing import Union

from coad.data.atomic import check_name
from coad.exceptions import FileError

PathLike = Union[str, "os.PathLike[str]"]

#: Suffix → format. For a compressed file the inner suffix counts (``scores.csv.gz``).
KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".hdf": "hdf5",
    ".mat": "mat",
    ".xlsx": "excel",
    ".xlsm": "excel",
}

#: The formats that are tables.
TABLE_KINDS = ("csv", "parquet", "arrow", "excel")

#: Suffixes of compressed text.
COMPRESSED = (".gz", ".bz2", ".zst")
_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\x89HDF": "hdf5",
    b"PK\x03\x04": "npz",
    b"MATLAB 5": "mat",
}


def find_files(source: PathLike | Iterable[PathLike]) -> list[Path]:
    """Find the files of a path, a folder, a glob, or several of these.

    Parameters
    ----------
    source : path or iterable of paths
        A folder stands for all data files in it and in its subfolders.

    Returns
    -------
    list of Path
        Within a folder or glob sorted by name; numbers in names are compared as numbers (``part-2``
        before ``part-10``).

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("part-10.csv", "part-2.csv", "notes.md"):
    ...     _ = (folder / name).write_text("a\\n1\\n")
    >>> [path.name for path in find_files(folder)]
    ['part-2.csv', 'part-10.csv']
    """
    if not isinstance(source, (str, os.PathLike)):
        found = [path for one in source for path in find_files(one)]
        if not found:
            raise FileError("no files were given")
        return list(dict.fromkeys(found))
    text = os.fspath(source)
    path = Path(text).expanduser()
    check_name(path)
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = [one for one in path.rglob("*") if one.is_file() and _is_data(one, path)]
        if not inside:
            raise FileError(f"folder {text!r} has no data files ({', '.join(sorted(KINDS))})")
        return sorted(inside, key=_natural_order)
    if has_magic(text):
        matched = [Path(one) for one in glob(os.path.expanduser(text), recursive=True)]
        files = sorted((one for one in matched if one.is_file()), key=_natural_order)
        if not files:
            raise FileError(f"no file matches {text!r}")
        return files
    if path.exists():
        raise FileError(f"{text!r} is neither a file nor a folder")
    raise FileError(f"there is no file or folder {text!r}")


def file_kind(path: PathLike) -> str:
    """``"csv"``, ``"parquet"``, ``"arrow"``, ``"npz"``, ``"hdf5"``, ``"mat"`` or ``"excel"``.

    By the suffix; without a known suffix, by the first bytes; otherwise CSV.

    >>> file_kind("plant.parquet"), file_kind("run.csv.gz")
    ('parquet', 'csv')
    """
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    if suffixes and suffixes[-1] in KINDS:
        return KINDS[suffixes[-1]]
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise FileError(f"cannot open {str(path)!r}: {error.strerror or error}") from error
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "csv")


def check_not_empty(path: Path) -> None:
    """Refuse a file that is empty or cannot be opened."""
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise FileError(f"cannot open {str(path)!r}: {error.strerror or error}") from error
    if size == 0:
        raise FileError(f"{str(path)!r} is empty")


def _is_data(path: Path, root: Path) -> bool:
    # Spark and Dask write _SUCCESS, _metadata and hidden files beside the data, Excel ~$ beside an open workbook.
    if any(part.startswith((".", "_", "~$")) for part in path.relative_to(root).parts):
        return False
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in KINDS


def _natural_order(path: Path) -> list[tuple[int, int, str]]:
    parts: list[tuple[int, int, str]] = []
    digits, letters = "", ""
    for character in [*str(path), ""]:
        if character.isdecimal():
            if letters:
                parts.append((1, 0, letters))
                letters = ""
            digits += character
        else:
            if digits:
                parts.append((0, int(digits), digits))
                digits = ""
            letters += character
    if letters:
        parts.append((1, 0, letters))
    return parts
