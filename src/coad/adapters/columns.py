"""``ColumnDetector``: a detector of two inputs as a scikit-learn estimator of one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from coad._typing import BoolArray, FloatArray
from coad.core.assessment import Evaluation, RowScores
from coad.core.protocol import Detector
from coad.core.rule import Rule
from coad.data.columns import select_columns
from coad.data.layout import Layout
from coad.data.pairs import Pairs, table_names
from coad.data.read import pairs_from_frame
from coad.exceptions import InputError

__all__ = ["ColumnDetector"]

#: What :meth:`ColumnDetector.transform` gives for each row.
_OUTPUTS = ("p_s", "p_q", "score", "flagged")

Columns = str | int | Sequence[str] | Sequence[int]


class ColumnDetector(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Any detector of coad on one table, some columns of which are s and others q.

    So ``Pipeline``, ``cross_val_score``, ``GridSearchCV`` and ``set_output`` work as for any estimator of scikit-learn. As
    everywhere in coad, ``score_samples`` is high for anomalies and ``predict`` is True for them; both are arrays.

    Parameters
    ----------
    detector : Detector
        Fitted as a clone: :class:`~coad.CoAD`, :class:`~coad.Findings`, :class:`~coad.CoincidenceModes` or
        :class:`~coad.CoincidenceThreshold`.
    s, q : str, int or list of these
        Columns of the inputs: names, globs (``"vib_*"``) or ``/regular expressions/`` of a pandas, Polars or Arrow table,
        numbers of an array's. Without ``q``, it has all columns that nothing else has.
    context, time, group : str or int, optional
        Columns of the operating regime, the time and the run of each row, for detectors that use them.

    Attributes
    ----------
    detector_ : Detector
        The fitted detector.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(900, 4)); X[:60] += 4
    >>> from sklearn.ensemble import IsolationForest
    >>> from coad import CoincidenceThreshold
    >>> forests = CoincidenceThreshold(IsolationForest(random_state=0), IsolationForest(random_state=0), ordered=False)
    >>> det = ColumnDetector(forests, s=[0, 1], q=[2, 3]).fit(X)
    >>> bool(det.predict(X)[:60].mean() > 0.9)
    True
    >>> det.transform(X).shape, det.get_feature_names_out().tolist()
    ((900, 4), ['p_s', 'p_q', 'score', 'flagged'])
    """

    def __init__(
        self,
        detector: Any,
        *,
        s: Columns,
        q: Columns | None = None,
        context: Columns | None = None,
        time: str | int | None = None,
        group: str | int | None = None,
    ) -> None:
        self.detector = detector
        self.s = s
        self.q = q
        self.context = context
        self.time = time
        self.group = group

    def fit(self, X: Any, y: Any = None) -> ColumnDetector:
        """Fit a clone of the detector on the rows of a table; ``y`` is ignored."""
        pairs = self._pairs(X, fit=True)
        self.detector_: Detector = clone(self.detector).fit(pairs)
        return self

    def predict(self, X: Any) -> BoolArray:
        """Which rows are anomalies, (n,)."""
        return self.score_rows(X).flag

    def score_samples(self, X: Any) -> FloatArray:
        """The anomaly score of each row, (n,); high = anomalous."""
        return self.score_rows(X).score

    def score_rows(self, X: Any) -> RowScores:
        """Confidences, score and decision of each row, in one pass."""
        check_is_fitted(self)
        return self.detector_.score_rows(self._pairs(X))

    def score(self, X: Any, y: Any = None) -> float:
        """F̂ of the rule on these rows, without labels: what model selection maximises; ``y`` is ignored."""
        check_is_fitted(self)
        return float(self.detector_.score(self._pairs(X)))

    def evaluate(self, X: Any) -> Evaluation:
        """What the rule finds in these rows and how sure that is, without labels."""
        check_is_fitted(self)
        return self.detector_.evaluate(self._pairs(X))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """p_s, p_q, score and decision (0 or 1) of each row, (n, 4).

        ``set_output(transform="pandas")`` makes it a table with the index of ``X``; see also :meth:`score_table`.
        """
        return np.column_stack(_columns(self.score_rows(X))).astype(np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns of :meth:`transform`."""
        return np.array(_OUTPUTS, dtype=object)

    def score_table(self, X: Any) -> Any:
        """p_s, p_q, score and decision of each row as a table of the kind of ``X``: pandas (with its index), Polars or Arrow."""
        columns = dict(zip(_OUTPUTS, _columns(self.score_rows(X)), strict=True))
        if hasattr(X, "iloc"):
            return X.__class__(columns, index=X.index)
        if table_names(X) is None:
            raise InputError(f"score_table takes a table, not a {type(X).__name__}; transform gives an array")
        return X.__class__.from_pydict(columns) if hasattr(X, "from_pydict") else X.__class__(columns)

    @property
    def rule_(self) -> Rule:
        """What is flagged; see :class:`~coad.Rule`."""
        check_is_fitted(self)
        return self.detector_.rule_

    @property
    def status_(self) -> str:
        """What the fit found; see :mod:`coad.core.verdict`."""
        check_is_fitted(self)
        return self.detector_.status_

    def _pairs(self, X: Any, *, fit: bool = False) -> Pairs:
        """The rows of a table as pairs."""
        if table_names(X) is None:
            array = validate_data(self, X, reset=fit, ensure_min_samples=2 if fit else 1)
            table: Any = {str(i): column for i, column in enumerate(array.T)}
        else:
            validate_data(self, X, reset=fit, skip_check_array=True)
            table = X
        return pairs_from_frame(table, self._layout(table_names(table) or list(table)))

    def _layout(self, names: Sequence[str]) -> Layout:
        s, context = (None if one is None else _texts(one) for one in (self.s, self.context))
        time, group = (None if one is None else str(one) for one in (self.time, self.group))
        if self.q is not None:
            q = _texts(self.q)
        else:
            taken = select_columns(names, [*(s or ()), *(context or ())], what="column of s")
            q = [name for name in names if name not in (*taken, time, group)]
            if not q:
                raise InputError(f"n_features = {len(names)}: no column is left for q; name fewer for s")
        return Layout(s=s or [], q=q, context=context, time=time, group=group)


def _columns(found: RowScores) -> tuple[NDArray[Any], ...]:
    return found.p_s, found.p_q, found.score, found.flag


def _texts(columns: Columns) -> list[str]:
    return [str(one) for one in ([columns] if isinstance(columns, (str, int)) else columns)]
