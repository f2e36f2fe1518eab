"""Find data files: in a given folder, COAD_DATA, the cache, or on the network, verified by checksum."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import urllib.request
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coad.data.atomic import written_whole
from coad.exceptions import FileError

__all__ = ["RemoteFile", "cache_dir", "fetch", "read_unpacked"]

#: Seconds after which a download is abandoned.
_TIMEOUT = 30.0


@dataclass(frozen=True)
class RemoteFile:
    """One published file: its name, its addresses, and the sha256 of its unpacked content."""

    name: str
    urls: tuple[str, ...]
    sha256: str


def cache_dir(environ: dict[str, str] | None = None) -> Path:
    """Return the folder for downloads: XDG_CACHE_HOME or the platform's cache folder.

    >>> cache_dir({"XDG_CACHE_HOME": "/var/cache/me"}).as_posix()
    '/var/cache/me/coad'
    """
    env = dict(os.environ) if environ is None else environ
    if env.get("XDG_CACHE_HOME"):
        return Path(env["XDG_CACHE_HOME"]) / "coad"
    if sys.platform == "win32" and env.get("LOCALAPPDATA"):
        return Path(env["LOCALAPPDATA"]) / "coad" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "coad"
    return Path.home() / ".cache" / "coad"


def fetch(
    files: Sequence[RemoteFile],
    folder: str,
    data: str | Path | None = None,
    *,
    download: bool = True,
) -> list[Path]:
    """Find files in one folder, or download them to the cache.

    Parameters
    ----------
    files
        The files; all must be in the same folder.
    folder
        Name of the data set's folder.
    data
        Folder to search (itself and its subfolder ``folder``). If given, no other place is searched.
        Otherwise ``COAD_DATA/folder``, ``COAD_DATA`` and the cache are searched in this order.
    download
        Whether missing files are downloaded.

    Returns
    -------
    list of Path
        One path per file.
    """
    named = Path(data) if data is not None else None
    if named is not None:
        places = [named / folder, named]
    else:
        places = [cache_dir() / folder]
        if os.environ.get("COAD_DATA"):
            root = Path(os.environ["COAD_DATA"])
            places = [root / folder, root, *places]
    for place in places:
        found = [_present(place, file.name) for file in files]
        if all(found):
            return [path for path in found if path is not None]
    if named is not None:
        raise FileError(_advice(files, places, f"{named} does not hold the {folder} files"))
    if not download:
        raise FileError(_advice(files, places, f"the {folder} files were not found"))
    target = cache_dir() / folder
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            _advice(files, places, f"the cache folder {target} cannot be made ({error})")
        ) from error
    return [_present(target, file.name) or _download(file, target, files, places) for file in files]


def read_unpacked(path: Path, sha256: str | None = None) -> bytes:
    """Read a file, unpack it if its name ends in ``.gz``, and verify its ``sha256``."""
    try:
        raw = path.read_bytes()
        content = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path} cannot be read: {error}; delete it and fetch it again") from error
    if sha256 is not None:
        _verify(content, sha256, str(path))
    return content


def _present(place: Path, name: str) -> Path | None:
    """The file itself, or its unpacked form."""
    for candidate in (place / name, place / name.removesuffix(".gz")):
        if candidate.is_file():
            return candidate
    return None


def _download(file: RemoteFile, target: Path, files: Sequence[RemoteFile], places: Sequence[Path]) -> Path:
    failures = []
    for url in file.urls:
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
                packed = response.read()
            content = gzip.decompress(packed) if file.name.endswith(".gz") else packed
        except (OSError, EOFError, zlib.error) as error:  # URLError is an OSError
            failures.append(f"{url}: {error}")
            continue
        _verify(content, file.sha256, url)
        with written_whole(target / file.name) as draft:
            draft.write_bytes(packed)
        return target / file.name
    reason = f"{file.name} was not found and could not be downloaded ({'; '.join(failures)})"
    raise FileError(_advice(files, places, reason))


def _verify(content: bytes, sha256: str, where: str) -> None:
    actual = hashlib.sha256(content).hexdigest()
    if actual != sha256:
        raise FileError(
            f"{where} is not the file that was published: the sha256 of its unpacked content is "
            f"{actual}, expected {sha256}; delete it and fetch it again"
        )


def _advice(files: Sequence[RemoteFile], places: Sequence[Path], reason: str) -> str:
    names = ", ".join(file.name for file in files)
    looked = ", ".join(str(place) for place in places)
    return (
        f"{reason}. Looked in: {looked}. Without a network, put {names} (or the unpacked files) into one "
        f"folder and pass it with --data (data=), or set COAD_DATA to the folder above it. "
        f"They are published at {files[0].urls[0].rsplit('/', 1)[0]}/"
    )
