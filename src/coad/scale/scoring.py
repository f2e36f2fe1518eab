"""Score and evaluate folders of files on a cluster: one part for each file, whole or absent, and only what is missing."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from coad.data.atomic import written_whole
from coad.data.paths import PathLike, find_files
from coad.data.tables import column_names
from coad.exceptions import CoadError, FileError, InputError
from coad.scale.cluster import as_completed, connected, in_order, models_bytes, shared_folder, unpacked
from coad.workflows.model_folder import load_model
from coad.workflows.recipe import Recipe
from coad.workflows.scored import Scored, joined_scored, read_scored
from coad.workflows.scoring import Scores, Source, score_files

__all__ = ["ClusterScores", "read_on_cluster", "score"]

_MANIFEST = "manifest.json"


@dataclass
class ClusterScores(Scores):
    """Counts of what :func:`score` wrote, in this run and before."""

    n_parts: int = 0
    n_done: int = 0  # parts of this run; the others were there
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)


def score(
    model: PathLike,
    files: PathLike | list[PathLike],
    output: PathLike,
    *,
    cluster: str = "auto",
    missing: Any = None,
    progress: Callable[[int], None] | None = None,
) -> ClusterScores:
    """Score the files of a folder on Dask: one Parquet part for each file in ``output``, and a manifest.

    A part is whole or absent. A second run does only the files that are new or changed, and parts that are not what
    the manifest says. Memory of a worker is that of ``coad score``: a few batches of 48 MB, whatever the files' size.

    Parameters
    ----------
    model
        A model folder, of any kind. Its files are sent to the workers once.
    files
        Files, a folder or a glob, which all workers see under the same names.
    output
        A folder that all workers share.
    cluster
        ``"auto"`` (this machine), the address of a scheduler, or a scheduler file.
    missing
        What to do with missing values; as in the fit by default.
    progress
        Called with the number of rows done so far.

    Returns
    -------
    ClusterScores

    >>> score("no such model", "data/", "scores/")
    Traceback (most recent call last):
    ...
    coad.exceptions.FileError: no such model does not exist; name the folder that coad fit wrote
    """
    folder, target = Path(model), Path(output)
    recipe = load_model(folder)[1].with_missing(missing)
    found = [path.resolve() for path in find_files(files)]
    bad = _same_columns(found, recipe)
    if target.is_file() or target.suffix in (".parquet", ".csv"):
        raise InputError(f"on a cluster --out names a folder for the parts, not {str(target)!r}")
    content = models_bytes(folder)
    key = _digest(*content.values(), str(missing).encode())
    done = ClusterScores(n_parts=len(found), bad_files=bad)
    with connected(cluster) as client:
        shared_folder(client, target)
        known = _manifest(target, key)
        names = {f"part-{number:05d}.parquet": path for number, path in enumerate(found)}
        spoilt = {path for path, _ in bad}
        todo = [
            (name, str(path))
            for name, path in names.items()
            if path not in spoilt and not _is_done(target, name, path, known)
        ]
        done.parts = {name: known[name] for name in names if name in known and name not in dict(todo)}
        sent = client.scatter(content, broadcast=True, hash=False)
        for name, result in as_completed(
            client, _score_part, todo, sent, str(target), missing, len(found) > 1
        ):
            if isinstance(result, CoadError):
                done.bad_files.append((names[name], FileError(str(result))))
                continue
            done.parts[name] = result
            done.n_done += 1
            _write_manifest(target, key, done.parts)
            if progress is not None:
                progress(sum(part["n_rows"] for part in done.parts.values()))
        for path in target.glob("part-*.parquet"):
            if path.name not in done.parts:
                path.unlink()  # of a file that is gone, or can no longer be read
        _write_manifest(target, key, done.parts)
    for part in done.parts.values():
        done.n_rows += part["n_rows"]
        done.n_pairs += part["n_pairs"]
        done.n_flagged += part["n_flagged"]
        done.n_events += part["n_events"]
        done.unseen.update(Counter(part["unseen"]))
    if not done.parts:
        raise done.bad_files[0][1]
    return done


@contextmanager
def read_on_cluster(folder: Path, cluster: str, missing: Any = None) -> Iterator[Callable[..., Scored]]:
    """What stands for :func:`~coad.workflows.scored.read_scored` where files are scored on a cluster."""
    content = models_bytes(folder)
    with connected(cluster) as client:
        sent = client.scatter(content, broadcast=True, hash=False)
        yield partial(_read_parts, client, sent, missing)


def _read_parts(
    client: Any,
    sent: Any,
    missing: Any,
    model: Any,
    recipe: Recipe,
    source: Source,
    *,
    label: str | None = None,
    inputs: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Scored:
    """As :func:`~coad.workflows.scored.read_scored`, a file at a time on the workers."""
    if inputs:
        raise InputError("the looks at findings need their inputs here: evaluate --label without --cluster")
    files = [path.resolve() for path in find_files(source.files or [])]
    bad = _same_columns(files, recipe)
    todo = [str(path) for path in files if path not in dict(bad)]
    parts: list[Scored] = []
    for path, part in zip(todo, in_order(client, _read_part, todo, sent, missing, label), strict=True):
        if isinstance(part, CoadError):
            bad.append((Path(path), FileError(str(part))))
            continue
        parts.append(part)
        if progress is not None:
            progress(sum(one.n_rows for one in parts))
    if not parts:
        raise bad[0][1]
    joined = joined_scored(parts, recipe)
    return replace(joined, bad_files=(*joined.bad_files, *bad))


def _score_part(
    part: tuple[str, str], content: dict[str, bytes], target: str, missing: Any, several: bool
) -> tuple[str, dict[str, Any] | CoadError]:
    """On a worker: one file in, one part out; its counts and checksum, or what was wrong."""
    name, path = part
    output = Path(target) / name
    try:
        before = _stamp(Path(path))
        with unpacked(content) as folder:
            model, recipe = load_model(folder)
        done = score_files(model, recipe.with_missing(missing), Source(path), output, several=several)
        if done.bad_files:  # its rows before the error do not make a part
            output.unlink(missing_ok=True)
            return name, done.bad_files[0][1]
    except CoadError as error:
        output.unlink(missing_ok=True)
        return name, type(error)(str(error) if path in str(error) else f"{path}: {error}")
    return name, {
        "file": path,
        "input": before,
        "sha256": _digest(output.read_bytes()),
        "n_rows": done.n_rows,
        "n_pairs": done.n_pairs,
        "n_flagged": done.n_flagged,
        "n_events": done.n_events,
        "unseen": dict(done.unseen),
    }


def _read_part(path: str, content: dict[str, bytes], missing: Any, label: str | None) -> Scored | CoadError:
    """On a worker: the scored pairs of one file, or what was wrong."""
    try:
        with unpacked(content) as folder:
            model, recipe = load_model(folder)
        found = read_scored(model, recipe.with_missing(missing), Source(path), label=label, inputs=False)
    except FileError as error:
        return FileError(str(error) if path in str(error) else f"{path}: {error}")
    return found


def _same_columns(files: list[Path], recipe: Recipe) -> list[tuple[Path, FileError]]:
    """Refuse files with other columns; those that cannot be read are returned."""
    bad = []
    for path in files:
        try:
            names = column_names(path)
        except FileError as error:
            bad.append((path, error))
            continue
        recipe.layout.check_same(names, where=str(path))
    if recipe.clocks is not None or recipe.layout.missing == "interpolate":
        raise InputError("two sources, or --missing interpolate, need all rows at once: leave out --cluster")
    return bad


def _is_done(target: Path, name: str, path: Path, known: dict[str, Any]) -> bool:
    """Whether a part is there, of this file as it is now, and undamaged."""
    entry = known.get(name)
    output = target / name
    return (
        entry is not None
        and entry["file"] == str(path)
        and entry["input"] == _stamp(path)
        and output.is_file()
        and _digest(output.read_bytes()) == entry["sha256"]
    )


def _stamp(path: Path) -> list[int]:
    """Size and time of the last change: what tells that a file is another."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _manifest(target: Path, key: str) -> dict[str, Any]:
    """The parts of an earlier run with the same model; none if there was another."""
    path = target / _MANIFEST
    if not path.exists():
        strangers = [one.name for one in target.glob("*.parquet")]
        if strangers:
            raise FileError(f"{target} holds {strangers[0]} and no {_MANIFEST}; choose another --out")
        return {}
    try:
        values = json.loads(path.read_text())
        parts: dict[str, Any] = values["parts"] if values["model"] == key else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{path} is truncated or was changed ({error}); delete it to score everything again"
        ) from error
    return parts


def _write_manifest(target: Path, key: str, parts: dict[str, Any]) -> None:
    with written_whole(target / _MANIFEST, durable=True) as draft:
        draft.write_text(json.dumps({"model": key, "parts": dict(sorted(parts.items()))}, indent=1))


def _digest(*content: bytes) -> str:
    return hashlib.sha256(b"\0".join(content)).hexdigest()
