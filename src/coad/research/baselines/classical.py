"""Classical detectors through PyOD: OCSVM, isolation forest, LOF, kernel density, Gaussian mixture."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from coad._typing import BoolArray, FloatArray
from coad.exceptions import CoadError, InputError, NotFittedError
from coad.research.baselines.base import Array32, flat
from coad.research.baselines.rows import principal

__all__ = ["CONTAMINATION", "Classical", "MultiModal"]

#: The fraction of anomalies, which PyOD requires; the paper's value.
CONTAMINATION = 0.17

NAMES = ("ocsvm", "iforest", "lof", "kde", "gmm")


class Classical:
    """A PyOD detector with its default settings, except for the contamination (0.17, as in the paper).

    Rows of more than 100 features are first reduced to 100 principal components: distances between rows
    stay nearly the same, and the fit takes seconds instead of hours.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 4)).astype(np.float32); x[:10] += 6
    >>> score = Classical("iforest", random_state=0).fit(x).score(x)
    >>> bool(score[:10].min() > np.median(score))
    True
    """

    threshold_: float | None

    def __init__(self, name: str, *, contamination: float = CONTAMINATION, random_state: int = 0) -> None:
        self.name = name
        self.contamination = contamination
        self.random_state = random_state

    def fit(self, x: Array32) -> Classical:
        """Reduce to principal components if needed, and fit the detector."""
        self._pca = principal(flat(x), self.random_state)
        self._detector = _detector(self.name, self.contamination, self.random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecation warnings inside PyOD and scikit-learn
            self._detector.fit(_reduced(self._pca, x))
        self.threshold_ = float(self._detector.threshold_)
        return self

    def score(self, x: Array32) -> FloatArray:
        """Compute PyOD's decision function, high for anomalies."""
        if not hasattr(self, "_detector"):
            raise NotFittedError("this detector is not fitted yet; call fit(x) first")
        return _finite(self._detector.decision_function(_reduced(self._pca, x)))


class MultiModal:
    """PyOD's ``MultiModalOD``: an ECOD for each input, standardised scores averaged.

    It has a single joint score, which is returned for both inputs.
    """

    def __init__(self, *, contamination: float = CONTAMINATION, random_state: int = 0) -> None:
        self.contamination = contamination
        self.random_state = random_state

    def fit(self, s: Array32, q: Array32, label: Any = None, group: Any = None) -> MultiModal:
        """Fit a detector for each input."""
        from pyod.models.ecod import ECOD

        try:
            from pyod.models.embedding import MultiModalOD
        except ImportError:
            raise CoadError("this PyOD has no MultiModalOD; version 3 or newer is needed") from None
        self._pca = [principal(flat(x), self.random_state) for x in (s, q)]
        # MultiModalOD has no default detectors; ECOD is PyOD's parameter-free one.
        detectors = {name: ECOD(contamination=self.contamination) for name in ("s", "q")}
        self._detector = MultiModalOD(detectors, contamination=self.contamination)
        self._detector.fit(self._rows(s, q))
        return self

    def scores(self, s: Array32, q: Array32) -> tuple[FloatArray, FloatArray]:
        """Return the joint score twice."""
        if not hasattr(self, "_detector"):
            raise NotFittedError("this detector is not fitted yet; call fit(s, q) first")
        joint = _finite(self._detector.decision_function(self._rows(s, q)))
        return joint, joint

    def predict(self, s: Array32, q: Array32) -> BoolArray:
        """Flag rows above the threshold set by the contamination."""
        return np.asarray(self.scores(s, q)[0] > float(self._detector.threshold_))

    def _rows(self, s: Array32, q: Array32) -> dict[str, Any]:
        return {"s": _reduced(self._pca[0], s), "q": _reduced(self._pca[1], q)}


def _detector(name: str, contamination: float, seed: int) -> Any:
    try:
        from pyod.models.gmm import GMM
        from pyod.models.iforest import IForest
        from pyod.models.kde import KDE
        from pyod.models.lof import LOF
        from pyod.models.ocsvm import OCSVM
    except ImportError:
        raise CoadError("classical peers need PyOD: pip install 'coad[bench]'") from None
    if name == "ocsvm":
        return OCSVM(contamination=contamination)
    if name == "iforest":
        return IForest(contamination=contamination, random_state=seed)
    if name == "lof":
        return LOF(contamination=contamination)
    if name == "kde":
        return KDE(contamination=contamination)
    if name == "gmm":
        # PyOD's default of one component is a single Gaussian. The floor on variances keeps a
        # component from collapsing onto a few rows.
        return GMM(n_components=4, reg_covar=1e-3, contamination=contamination, random_state=seed)
    raise InputError(f"unknown detector {name!r}; there are {', '.join(NAMES)}")


def _reduced(pca: Any, x: Array32) -> FloatArray:
    rows = flat(x) if pca is None else pca.transform(flat(x))
    return np.asarray(rows, dtype=np.float64)


def _finite(score: Any) -> FloatArray:
    """Replace infinite scores (log of a zero density) by a value above all finite ones."""
    values: FloatArray = np.asarray(score, dtype=np.float64)
    good = np.isfinite(values)
    if good.all():
        return values
    top = float(values[good].max()) + 1.0 if good.any() else 0.0
    return np.where(good, values, top)
