"""Labelled tables with two inputs, one ``.npz`` file each, in the folder ``tables`` under COAD_DATA.

A file holds ``s`` and ``q`` (rows first) and ``y`` (the labelled event, to judge only); where they exist, ``group``
(rows that share it stay on one side of a split), ``time``, ``context``, ``names_s`` and ``names_q``.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from coad.core.labels import check_labels
from coad.data.pairs import Pairs
from coad.exceptions import FileError, InputError

__all__ = ["load_table", "table_files"]

_FOLDER = "tables"
_REQUIRED = ("s", "q", "y")


def table_files(folder: str | Path | None = None) -> list[Path]:
    """Find the tables.

    Parameters
    ----------
    folder
        The folder with the tables, or the one above it; default: COAD_DATA.

    Returns
    -------
    list of Path
        All ``.npz`` files, by name.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> (root / "tables").mkdir()
    >>> (root / "tables" / "pump.npz").touch()
    >>> [path.name for path in table_files(root)]
    ['pump.npz']
    """
    named = folder or os.environ.get("COAD_DATA")
    if not named:
        raise FileError("the folder of the tables is not known: pass --folder (folder=), or set COAD_DATA")
    places = [Path(named) / _FOLDER, Path(named)]
    for place in places:
        files = sorted(place.glob("*.npz"), key=lambda path: path.name)
        if files:
            return files
    raise FileError(
        f"no .npz files in {' or '.join(str(place) for place in places)}; each needs s, q (rows first) and y (labels)"
    )


def load_table(path: str | Path) -> Pairs:
    """Read one table and check it.

    Parameters
    ----------
    path
        An ``.npz`` file with ``s``, ``q`` and ``y``.

    Returns
    -------
    Pairs
        With label, and with group, time, context and names where the file has them.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "pump.npz"
    >>> np.savez(path, s=np.zeros((3, 2)), q=np.ones((3, 1)), y=[0, 0, 1])
    >>> load_table(path)
    Pairs(3 rows, s (2,), q (1,), with label)
    """
    path = Path(path)
    content = _content(path)
    missing = [name for name in _REQUIRED if name not in content]
    if missing:
        raise InputError(
            f"{path}: {', '.join(missing)} missing; the file holds {', '.join(content) or 'nothing'}"
        )
    try:
        label = check_labels(content["y"], len(np.atleast_1d(content["s"])))
        if label.all() or not label.any():
            raise InputError("y is the same for all rows, so nothing can be judged")
        names = [tuple(map(str, content.get(name, ()))) for name in ("names_s", "names_q")]
        for name, own, values in zip("sq", names, (content["s"], content["q"]), strict=True):
            if own and len(own) != values.shape[-1 if values.ndim == 2 else 1]:
                raise InputError(f"names_{name} has {len(own)} names for {name} of shape {values.shape}")
        more: dict[str, Any] = {name: content.get(name) for name in ("context", "time", "group")}
        return Pairs(content["s"], content["q"], label=label, s_names=names[0], q_names=names[1], **more)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _content(path: Path) -> dict[str, np.ndarray]:
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise FileError(f"{path} is a single array, not an .npz file with s, q and y")
        with file:
            return {name: file[name] for name in file.files}
    except FileError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FileError(f"{path} cannot be read as .npz: {str(error).splitlines()[0]}") from error
