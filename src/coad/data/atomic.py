"""Atomic writing: a file is written completely or not at all."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coad.exceptions import FileError

_WINDOWS = os.name == "nt"


def check_writable(path: Path) -> Path:
    """Check before any work is done that a file can be written."""
    check_name(path)
    if path.is_dir():
        raise FileError(f"{path} is a folder; name a file in it")
    check_name(path.with_name(f".{path.name}.{'x' * 8}{path.suffix}"))  # that of the draft, which is longer
    if path.exists() and not path.is_file():
        raise FileError(f"{path} is not an ordinary file")
    folder = path.parent
    if not folder.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise FileError(f"cannot write {path}: permission denied")
    return path


def check_name(path: Path) -> None:
    """Refuse a name that the system does not take: too long, or in a folder that cannot be searched."""
    try:
        path.exists()
    except (OSError, ValueError) as error:
        shown = str(path) if len(str(path)) <= 60 else f"...{str(path)[-57:]}"
        raise FileError(
            f"{shown!r} is no name for a file: {getattr(error, 'strerror', None) or error}"
        ) from error


@contextmanager
def written_whole(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """A temporary path that replaces ``path`` when the block ends without an error.

    Readers see the old content or the new content, also after a crash of the program. With
    ``durable`` the content is flushed to disk before the replacement, so this holds after a power
    failure too.

    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_whole(folder / "a.txt") as draft:
    ...     _ = draft.write_text("whole")
    >>> [one.name for one in folder.iterdir()]
    ['a.txt']
    """
    path = check_writable(path).resolve()  # if it is a link, write its target
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}") from error
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        draft.chmod(0o666 & ~_umask())
        if durable:
            _sync(draft)
        draft.replace(path)
        if durable:
            _sync(path.parent)
    except FileError:
        raise  # of a file that was read meanwhile
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


@contextmanager
def written_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that replaces ``folder`` when the block ends without an error.

    Readers that call :func:`recovered` first see the old content or the new content, whenever the
    program is killed: the old folder is set aside, the new one takes its place, and only then the old
    one is removed. What an earlier process that was killed left behind is removed, too.

    >>> home = Path(tempfile.mkdtemp())
    >>> for text in ("old", "new"):
    ...     with written_folder(home / "model") as draft:
    ...         _ = (draft / "a.txt").write_text(text)
    >>> (home / "model" / "a.txt").read_text(), len(list(home.iterdir()))
    ('new', 1)
    """
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside, draft = (folder.with_name(f".{folder.name}.{what}.{os.getpid()}") for what in ("old", "draft"))
    try:
        recovered(folder)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        yield draft
        for path in draft.iterdir():
            _sync(path)
        _sync(draft)
        if folder.exists():
            os.replace(folder, aside)
        os.replace(draft, folder)
        _sync(folder.parent)
    finally:
        recovered(folder)  # an interrupt between the two renames must not cost the old folder
        for what in ("old", "draft"):
            for path in folder.parent.glob(f".{glob.escape(folder.name)}.{what}.*"):
                if path in (aside, draft) or not _is_running(path.suffix):
                    shutil.rmtree(path, ignore_errors=True)


def recovered(folder: Path) -> Path:
    """The folder; put back first if a program was killed while it replaced it by another."""
    if not folder.exists():
        for aside in folder.absolute().parent.glob(f".{glob.escape(folder.name)}.old.*"):
            os.replace(aside, folder)
            break
    return folder


def _is_running(suffix: str) -> bool:
    """Whether the process whose number stands in ``.123`` is alive; one that cannot be asked counts as alive."""
    if _WINDOWS:  # where os.kill(…, 0) is no question: it interrupts the process
        return True
    try:
        os.kill(int(suffix[1:]), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True
    return True


def write_durably(path: Path, content: bytes) -> None:
    """Write a file atomically and flush it to disk; its folder is created if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path, durable=True) as draft:
        draft.write_bytes(content)


def _sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    if _WINDOWS and path.is_dir():  # it opens no folders, and writes their names with the files
        return
    descriptor = os.open(
        path, os.O_RDWR if _WINDOWS else os.O_RDONLY
    )  # Windows flushes only what may be written
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
