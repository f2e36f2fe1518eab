"""The names of all methods, and a constructor for each."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from coad.exceptions import InputError

__all__ = ["COINCIDENT", "METHODS", "Method", "chosen_methods"]

Kind = Literal["one input", "two inputs", "coincidence", "catalogue"]
#: The kinds that are methods of this project.
COINCIDENT: tuple[Kind, ...] = ("coincidence", "catalogue")


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes
    ----------
    name, title
        Name on the command line and in tables.
    kind
        Which inputs and outputs it has.
    make
        ``make(seed, quick, setting)`` returns a new, unfitted detector; ``setting`` are the network
        settings (net, augment, epochs) of the data set.
    labels
        What it uses labels for in training: nothing (""), all rows ("all"), or to train on normal
        rows only ("healthy").
    only
        The one data set it applies to; empty for all.
    slow
        A data set on which it takes minutes and runs only if it is named.
    reduced
        Whether rows with many features are reduced to principal components first
        (:class:`~coad.research.baselines.rows.Sides`).
    """

    name: str
    title: str
    kind: Kind
    make: Callable[[int, bool, dict[str, Any]], Any]
    labels: Literal["", "all", "healthy"] = ""
    only: str = ""
    slow: str = ""
    reduced: bool = False


def _classical(name: str) -> Callable[[int, bool, dict[str, Any]], Any]:
    def make(seed: int, quick: bool, setting: dict[str, Any]) -> Any:
        from coad.research.baselines.classical import Classical

        return Classical(name, random_state=seed)

    return make


def _multimodal(seed: int, quick: bool, setting: dict[str, Any]) -> Any:
    from coad.research.baselines.classical import MultiModal

    return MultiModal(random_state=seed)


def _vae(seed: int, quick: bool, setting: dict[str, Any]) -> Any:
    from coad.research.baselines.vae import VAE

    return VAE(epochs=5 if quick else 30, random_state=seed)


def _svdd(seed: int, quick: bool, setting: dict[str, Any]) -> Any:
    from coad.research.baselines.svdd import DeepSVDD

    return DeepSVDD(epochs=5 if quick else 30, random_state=seed)


def _dghl(seed: int, quick: bool, setting: dict[str, Any]) -> Any:
    from coad.research.baselines.dghl import DGHL

    return DGHL(epochs=2 if quick else 8, lr=3e-3, random_state=seed)


def _omni(seed: int, quick: bool, setting: dict[str, Any]) -> Any:
    from coad.research.baselines.omni import OmniAnomaly

    return OmniAnomaly(
        epochs=2 if quick else 8, batch_size=256 if not quick else 64, lr=5e-3, random_state=seed
    )


def _paired(name: str) -> Callable[[int, bool, dict[str, Any]], Any]:
    def make(seed: int, quick: bool, setting: dict[str, Any]) -> Any:
        from coad.research.baselines import paired

        more = {key: setting[key] for key in ("net", "augment") if key in setting}
        size = {"epochs": 12, "least_steps": 150, "batch_size": 128} if quick else {
            "epochs": 30, "least_steps": 400, "batch_size": 256
        }  # fmt: skip
        return getattr(paired, name)(random_state=seed, **size, **more)

    return make


def _expert(seed: int, quick: bool, setting: dict[str, Any]) -> Any:
    from coad.research.baselines.expert import RFExpert

    return RFExpert()


def _coad(seed: int, quick: bool, setting: dict[str, Any]) -> Any:
    from coad.learned.estimator import CoAD

    # The settings of a named data set take precedence: they are short but sufficient for it.
    own = {"epochs": 30, "n_starts": 2, **setting} if quick else setting
    return CoAD(**own, random_state=seed)


def _modes(seed: int, quick: bool, setting: dict[str, Any]) -> Any:
    from coad.modes.estimator import CoincidenceModes

    return CoincidenceModes(n_starts=3 if quick else 6, random_state=seed)


_ALL = (
    Method("coad", "CoAD", "coincidence", _coad),
    Method("coad-plain", "CoAD without regimes", "coincidence", _coad),
    Method("modes", "Coincident modes", "catalogue", _modes, slow="rf"),
    Method("ocsvm", "OCSVM", "one input", _classical("ocsvm"), reduced=True),
    Method("iforest", "Isolation forest", "one input", _classical("iforest"), reduced=True),
    Method("lof", "LOF", "one input", _classical("lof"), reduced=True),
    Method("kde", "Kernel density", "one input", _classical("kde"), reduced=True),
    Method("gmm", "Gaussian mixture", "one input", _classical("gmm"), reduced=True),
    Method("multimodal", "PyOD MultiModalOD", "two inputs", _multimodal, reduced=True),
    Method("vae", "VAE", "one input", _vae),
    Method("vae-healthy", "VAE, healthy only", "one input", _vae, labels="healthy"),
    Method("svdd", "Deep SVDD", "one input", _svdd),
    Method("dghl", "DGHL", "one input", _dghl),
    Method("omnianomaly", "OmniAnomaly", "one input", _omni),
    Method("dcca", "Deep CCA", "two inputs", _paired("DeepCCA")),
    Method("dmca", "Deep MCA", "two inputs", _paired("DeepMCA")),
    Method("snn", "Supervised networks", "two inputs", _paired("SupervisedNets"), labels="all"),
    Method("expert", "Expert rule", "two inputs", _expert, labels="all", only="rf"),
)

#: All methods by name, in the order of the table.
METHODS: dict[str, Method] = {method.name: method for method in _ALL}


def chosen_methods(names: Sequence[str], data: str, *, regimes: bool, labelled: bool) -> list[Method]:
    """Select methods by name; ``all`` stands for every method that applies to the data, except slow ones.

    A method that is named is always selected, even if it cannot run: its row will state the error.

    Parameters
    ----------
    names
        Names of methods, or ``all``.
    data
        Name of the data set.
    regimes, labelled
        Whether the data have a context and labels.

    Returns
    -------
    list of Method
        In the order of the table.

    >>> [method.name for method in chosen_methods(["lof", "coad"], "rf", regimes=False, labelled=True)]
    ['coad', 'lof']
    >>> chosen_methods(["omnianomly"], "rf", regimes=False, labelled=True)
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: unknown method 'omnianomly'; the nearest is omnianomaly
    """
    wanted = [name.strip().lower() for name in names if name.strip()]
    if not wanted:
        raise InputError(f"no method was named; choose all, {', '.join(METHODS)}")
    for name in wanted:
        if name != "all" and name not in METHODS:
            near = difflib.get_close_matches(name, [*METHODS, "all"], n=3, cutoff=0.5)
            there = f"the nearest {'are' if len(near) > 1 else 'is'} {', '.join(near)}" if near else ""
            raise InputError(f"unknown method {name!r}; {there or 'there are all, ' + ', '.join(METHODS)}")
    chosen = []
    for method in METHODS.values():
        sensible = (
            (not method.only or method.only == data)
            and method.slow != data
            and (regimes or method.name != "coad-plain")
            and (labelled or not method.labels)
        )
        if method.name in wanted or ("all" in wanted and sensible):
            chosen.append(method)
    return chosen
