"""One model for each of many sources, on local processes or on Dask; one source that fails does not stop the rest."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import as_completed as completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from coad.data.atomic import written_whole
from coad.data.layout import Layout
from coad.data.paths import find_files
from coad.data.witness import Witness, read_witness
from coad.exceptions import CoadError, FileError
from coad.scale.cluster import as_completed, connected, shared_folder
from coad.scale.split import sources_of
from coad.workflows.fitting import Training
from coad.workflows.recipe import Clocks
from coad.workflows.scoring import Source

__all__ = ["INDEX", "EachReport", "Job", "fit_each"]

#: The file that lists the model folders, for what watches them; and the table for people.
INDEX, TABLE = "index.json", "results.csv"
#: How often a pool of processes of which one died is started again.
_MOST_POOLS = 3


@dataclass(frozen=True)
class Job:
    """What is done with a source: ``lenses`` to find, or, if there are none, to fit."""

    layout: Layout
    training: Training
    clocks: Clocks | None = None
    lenses: tuple[str, ...] = ()
    scorers: tuple[str, ...] = ()
    max_rare: float = 0.1


@dataclass(frozen=True)
class EachReport:
    """One line for each source, the surest first and errors last; how many were done now."""

    results: list[dict[str, Any]]
    n_done: int

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The sources that have no model."""
        return [one for one in self.results if one["error"]]


def fit_each(
    each: str,
    source: Source,
    output: Path,
    job: Job,
    *,
    cluster: str | None = None,
    processes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> EachReport:
    """Train a model for each source; write the folders, an index, a table and a page of them.

    Parameters
    ----------
    each
        A column whose values are the sources; ``"folder"``: each subfolder or file of a folder; ``"list"``: each line
        of a text file names the files of a source.
    source
        The files.
    output
        A folder for the model folders. A second run does only what is missing or changed, and what failed.
    job
        What is done with each source.
    cluster
        As for :func:`~coad.scale.cluster.connected`; None: processes of this machine.
    processes
        How many; default: one per processor.
    progress
        Called with the number of sources done so far.

    Returns
    -------
    EachReport
    """
    check_output(output)
    output.mkdir(parents=True, exist_ok=True)
    known = {one["source"]: one for one in _index(output)}
    results: dict[str, dict[str, Any]] = {}
    # What is split off a table lies beside the models, where the workers of a cluster see it too.
    with tempfile.TemporaryDirectory(prefix=".coad-", dir=output) as scratch:
        todo = []
        for name, own in sources_of(each, source, job.layout, Path(scratch)).items():
            key = _key(job, source if each not in ("folder", "list") else own)
            folder = folder_name(name)
            old = known.get(name)
            if old and old["key"] == key and not old["error"] and (output / folder / "model.json").is_file():
                results[name] = old
            else:
                if old and not (output / folder / "model.json").is_file():
                    shutil.rmtree(output / folder, ignore_errors=True)  # what is left of a model
                todo.append((name, own, output / folder, key, job))
        todo = _with_shared_witness(todo, job, Path(scratch))
        done = 0
        for result in _all(todo, cluster, processes, output):
            results[result["source"]] = result
            done += 1
            _write(output, list(results.values()))
            if progress is not None:
                progress(done)
    table = _ranked(list(results.values()))
    _write(output, table)
    return EachReport(table, done)


def _with_shared_witness(todo: list[Any], job: Job, scratch: Path) -> list[Any]:
    """The same work, with the file of q read once for all of it: workers map its columns from the scratch folder."""
    if len(todo) < 2 or not todo[0][1].two_clocks:
        return todo
    clock = (job.clocks and job.clocks.time_q) or job.layout.time
    if clock is None:
        return todo  # each says so in its own line
    witness = read_witness(todo[0][1].q, job.layout, clock, scratch)
    return [(name, replace(own, q=witness), *rest) for name, own, *rest in todo]


def check_output(output: Path) -> None:
    """Refuse a folder that holds other things."""
    if output.is_file():
        raise FileError(f"{output} is a file; --out names a folder for the models")
    if output.is_dir() and any(output.iterdir()) and not (output / INDEX).is_file():
        raise FileError(f"{output} is not empty and has no {INDEX}; choose another --out")


def _all(
    todo: Sequence[Any], cluster: str | None, processes: int | None, output: Path
) -> Iterator[dict[str, Any]]:
    """The results, in the order of completion."""
    if not todo:
        return
    if cluster is not None:
        with connected(cluster) as client:
            shared_folder(client, output)
            yield from as_completed(client, _one, todo)
        return
    waiting = {one[0]: one for one in todo}
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes; together they have a thread for each processor
    try:
        for _ in range(_MOST_POOLS):
            count = min(processes or os.cpu_count() or 1, len(waiting))
            try:
                with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
                    for future in completed([pool.submit(_one, one) for one in waiting.values()]):
                        result = future.result()
                        del waiting[result["source"]]
                        yield result
                return
            except BrokenProcessPool:
                continue  # a process was killed: what it had begun is begun again
        for name, _, _, key, _ in waiting.values():
            yield _line(
                name, "", key, error=f"its process died, {_MOST_POOLS} times; is there enough memory?"
            )
    finally:
        if threads is None:
            os.environ.pop("OMP_NUM_THREADS", None)
        else:
            os.environ["OMP_NUM_THREADS"] = threads


def _one(task: tuple[str, Source, Path, str, Job]) -> dict[str, Any]:
    """In another process: the model of one source, and its line."""
    name, source, folder, key, job = task
    start = time.perf_counter()
    try:
        numbers = _fitted(source, folder, job)
    except (CoadError, ArithmeticError, ValueError, RuntimeError, MemoryError) as error:
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier run, with other data
        text = (str(error).splitlines() or [""])[0]
        return _line(
            name, "", key, error=text if isinstance(error, CoadError) else f"{type(error).__name__}: {text}"
        )
    return _line(name, folder.name, key, seconds=round(time.perf_counter() - start, 2), **numbers)


def _fitted(source: Source, folder: Path, job: Job) -> dict[str, Any]:
    from coad.workflows.evaluating import judge
    from coad.workflows.finding import find_in_files
    from coad.workflows.fitting import fit_files
    from coad.workflows.scored import read_scored

    if not job.lenses:
        fitted = fit_files(source, job.layout, folder, clocks=job.clocks, training=job.training)
        found = fitted.judgement
        numbers = {"rows": fitted.n_pairs, "findings": found.n_events, "p": found.evaluation.p_value}
    else:
        done = find_in_files(
            source,
            job.layout,
            folder,
            clocks=job.clocks,
            training=job.training,
            max_rare=job.max_rare,
            lenses=job.lenses,
            scorers=job.scorers,
        )
        scored = read_scored(done.model, done.recipe, source)
        found = judge(done.model, done.recipe, None, scored)
        flagged = sum(one.flagged for one in done.model)
        numbers = {"rows": len(scored), "findings": flagged, "p": done.model.p_value_}
    return numbers | {
        "status": found.status,
        "flagged": found.n_flagged,
        "fbeta_hat": round(found.evaluation.fbeta_hat, 6),
    }


def _line(name: str, folder: str, key: str, *, error: str = "", **numbers: Any) -> dict[str, Any]:
    none = {"status": "error" if error else "", "rows": 0, "findings": 0, "flagged": 0, "fbeta_hat": 0.0}
    line = {"source": name, "folder": folder, **none, "p": None, "p_holm": None, "seconds": 0.0, **numbers}
    return line | {"error": error, "key": key}


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for their number, by Holm's method.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(values)), key=lambda i: values[i])
    corrected, least = [0.0] * len(values), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(values) - rank) * values[i]))
        corrected[i] = least
    return corrected


def _ranked(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With corrected p-values; the worst source first: by p, then by the share of its rows that is flagged."""
    tested = [one for one in results if one["p"] is not None]
    corrected = dict(zip([one["source"] for one in tested], holm([one["p"] for one in tested]), strict=True))
    results = [one | {"p_holm": corrected.get(one["source"])} for one in results]

    def place(one: dict[str, Any]) -> tuple[Any, ...]:
        share = one["flagged"] / max(one["rows"], 1)
        return bool(one["error"]), 1.0 if one["p"] is None else one["p"], -share, one["source"]

    return sorted(results, key=place)


def folder_name(source: str) -> str:
    """A file name for a source that differs from those of other sources.

    >>> folder_name("RF-12"), folder_name("../a b").startswith("a-b-")
    ('RF-12', True)
    """
    plain = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in source).strip("-.")[:80]
    if plain == source:
        return plain
    return f"{plain}-{hashlib.sha256(source.encode()).hexdigest()[:8]}".lstrip("-.")


def _key(job: Job, source: Source) -> str:
    """What must be equal for a model to be kept: the settings, and the files as they are."""
    stamps = []
    for one in (source.files, source.s, source.q):
        for path in [] if one is None or isinstance(one, Witness) else find_files(one):
            stat = path.stat()
            stamps.append([str(path), stat.st_size, stat.st_mtime_ns])
    text = repr((replace(job, training=replace(job.training, verbose=False)), stamps))
    return hashlib.sha256(text.encode()).hexdigest()


def _index(output: Path) -> list[dict[str, Any]]:
    path = output / INDEX
    if not path.exists():
        return []
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        sources: list[dict[str, Any]] = values["sources"]
        if values["format"] != "coad sources" or not all(
            {"source", "key", "error"} <= one.keys() for one in sources
        ):
            raise ValueError("another format")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path} is truncated or was changed ({error}); delete it to begin again") from error
    return sources


def _write(output: Path, results: list[dict[str, Any]]) -> None:
    with written_whole(output / INDEX, durable=True) as draft:
        text = json.dumps({"format": "coad sources", "sources": results}, indent=1, ensure_ascii=False)
        draft.write_text(text, encoding="utf-8")
    names = [name for name in results[0] if name != "key"] if results else []
    with written_whole(output / TABLE) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(results)
