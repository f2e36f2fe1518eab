"""A Dask cluster: connected, checked, and fed. Dask does the scheduling; what runs on it is the same code as here."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coad import __version__
from coad.exceptions import CoadError, FileError, InputError

__all__ = ["as_completed", "connected", "in_order", "models_bytes", "shared_folder", "unpacked"]

#: Seconds to wait for a scheduler, and for its first worker.
_PATIENCE = 10
#: A part that took this many workers with it is given up: it is the part that kills them.
_MOST_DEATHS = 3
#: Share of the free memory of this machine that the workers of ``auto`` may take together.
_MEMORY_SHARE = 0.8


@contextmanager
def connected(cluster: str, workers: int | None = None) -> Iterator[Any]:
    """A Dask client whose workers run the same coad as this process.

    Parameters
    ----------
    cluster
        ``"auto"`` starts a cluster on this machine, one process per processor, and ends it afterwards. Otherwise the
        address of a scheduler, or a scheduler file.
    workers
        Processes of ``"auto"``.

    Yields
    ------
    distributed.Client
    """
    import dask
    from distributed import Client, LocalCluster

    from coad.data.memory import free_memory

    quiet = {"distributed.scheduler.allowed-failures": _MOST_DEATHS, "distributed.admin.tick.limit": "10m"}
    with dask.config.set(quiet):
        if cluster == "auto":
            count = workers or os.cpu_count() or 1
            limit = int(_MEMORY_SHARE * free_memory() / count)
            with (
                LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    memory_limit=limit,
                    dashboard_address=None,
                    host="127.0.0.1",
                    silence_logs=50,
                    env={"OMP_NUM_THREADS": "1"},
                ) as local,
                Client(local) as client,
            ):
                yield client
            return
        if "://" not in cluster and not Path(cluster).is_file():
            raise InputError(
                f"--cluster must be auto, an address (tcp://host:8786) or a scheduler file, not {cluster!r}"
            )
        where = {"address": cluster} if "://" in cluster else {"scheduler_file": cluster}
        try:
            client = Client(**where, timeout=_PATIENCE)
        except (OSError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler answers at {cluster} within {_PATIENCE} s: {_line(error)}"
            ) from error
        with client:
            try:
                client.wait_for_workers(1, timeout=_PATIENCE)
            except TimeoutError:
                raise InputError(
                    f"the scheduler at {cluster} has no workers; start some with dask worker"
                ) from None
            _same_version(client)
            yield client


def in_order(client: Any, work: Callable[..., Any], items: Sequence[Any], *rest: Any) -> Iterator[Any]:
    """``work(item, *rest)`` for each item on the cluster, in order; a part whose worker died is done again."""
    for future in client.map(work, items, *([one] * len(items) for one in rest), pure=False):
        yield _result(future)
        future.release()


def as_completed(client: Any, work: Callable[..., Any], items: Sequence[Any], *rest: Any) -> Iterator[Any]:
    """Like :func:`in_order`, in the order of completion."""
    from distributed import as_completed

    for future in as_completed(client.map(work, items, *([one] * len(items) for one in rest), pure=False)):
        yield _result(future)
        future.release()


def _result(future: Any) -> Any:
    from distributed import KilledWorker

    try:
        return future.result()
    except CoadError:
        raise
    except KilledWorker as error:
        raise InputError(
            f"a part was given up after {_MOST_DEATHS} workers died with it, probably for lack of memory; give the "
            f"workers more, or smaller files ({_line(error)})"
        ) from error


def models_bytes(folder: Path) -> dict[str, bytes]:
    """The files of a model folder: what is sent to the workers, once. Nothing in them is executed."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and _is_model(path)
    }


@contextmanager
def unpacked(content: dict[str, bytes]) -> Iterator[Path]:
    """A temporary model folder with these files."""
    with tempfile.TemporaryDirectory(prefix="coad-") as name:
        for file, data in content.items():
            (Path(name) / file).write_bytes(data)
        yield Path(name)


def shared_folder(client: Any, folder: Path) -> Path:
    """Refuse a folder that a worker does not see, or in which it cannot write."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f".coad-{uuid.uuid4().hex}"
    probe.touch()
    try:
        for worker, seen in client.run(_sees, str(probe)).items():
            if not seen:
                raise FileError(
                    f"the worker at {worker} cannot read and write {folder}: name a folder that all workers share"
                )
    finally:
        probe.unlink(missing_ok=True)
    return folder


def _sees(probe: str) -> bool:
    return os.path.isfile(probe) and os.access(os.path.dirname(probe), os.W_OK)


def _is_model(path: Path) -> bool:
    return path.name in ("model.json", "model.safetensors", "layout.json")


def _same_version(client: Any) -> None:
    for worker, version in client.run(_version).items():
        if version != __version__:
            raise InputError(
                f"the worker at {worker} runs coad {version}, and this is coad {__version__}; install the same everywhere"
            )


def _version() -> str:
    try:
        import coad
    except ImportError:
        return "none"
    return coad.__version__


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
