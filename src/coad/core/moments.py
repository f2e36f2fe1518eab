"""Moments: the four additive sums that the metric is a function of."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from coad._typing import ArrayLike, Numeric
from coad.core.arrays import is_torch, library, mean
from coad.exceptions import InputError

__all__ = ["Moments", "Value"]

#: What the metric's functions return for some moments: a float, a NumPy array or a torch tensor.
if TYPE_CHECKING:
    import typing_extensions

    Value = typing_extensions.TypeVar("Value", default=Any)  # Python has defaults from 3.13 on
else:
    Value = TypeVar("Value")


@dataclass(frozen=True)
class Moments(Generic[Value]):
    """Four additive sums: n, Σp_s, Σp_q, Σp_s·p_q.

    The sums may be floats, NumPy arrays (many settings at once) or torch tensors; type checkers are told
    what the metric's functions return for them, a float unless other sums were handed in.
    With ``strata``, the last axis of each sum runs over the context strata that
    ``strata`` names; without, there is one stratum, which is the paper's method.

    >>> m = Moments.of([1, 1, 0, 0], [1, 0, 0, 0])
    >>> m.n, m.mu_s, m.mu_q, m.mu_sq
    (4.0, 0.5, 0.25, 0.25)
    >>> (m + m).n
    8.0
    """

    n: Any
    sum_s: Any
    sum_q: Any
    sum_sq: Any
    strata: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, p_s: Numeric, p_q: Numeric, context: ArrayLike | None = None) -> Moments[float]:
        """The moments of two confidences.

        Parameters
        ----------
        p_s, p_q
            Numbers in [0, 1], one for each row: 0/1 flags or anything between. Torch tensors keep their graph.
        context
            The stratum of each row.

        Returns
        -------
        Moments
            With one sum for each stratum, if there is a context.

        >>> Moments.of([1, 0, 1], [1, 1, 0], context=["a", "b", "b"]).sum_sq
        array([1., 0.])
        """
        if is_torch(p_s) or is_torch(p_q):
            return cls._of_torch(p_s, p_q, context)
        s, q = _confidences(p_s, "p_s"), _confidences(p_q, "p_q")
        if len(s) != len(q):
            raise InputError(f"p_s has {len(s):,} rows and p_q has {len(q):,}; they must match row by row")
        if context is None:
            return Moments(float(len(s)), float(s.sum()), float(q.sum()), float(s @ q))
        strata, code = _codes(context, len(s))
        size = len(strata)
        return Moments(
            np.bincount(code, minlength=size).astype(float),
            np.bincount(code, s, size),
            np.bincount(code, q, size),
            np.bincount(code, s * q, size),
            strata,
        )

    @classmethod
    def _of_torch(cls, p_s: Any, p_q: Any, context: ArrayLike | None) -> Moments[Any]:
        torch = sys.modules["torch"]
        s, q = torch.as_tensor(p_s).double(), torch.as_tensor(p_q).double()
        if context is None:
            return Moments(float(s.shape[0]), s.sum(), q.sum(), (s * q).sum())
        strata, code = _codes(context, s.shape[0])
        index = torch.as_tensor(code, device=s.device)
        zero = torch.zeros(len(strata), dtype=torch.float64, device=s.device)
        return Moments(
            zero.index_add(0, index, torch.ones_like(s)),
            zero.index_add(0, index, s),
            zero.index_add(0, index, q),
            zero.index_add(0, index, s * q),
            strata,
        )

    def __add__(self, other: Moments[Value]) -> Moments[Value]:
        if self.strata == other.strata:
            return Moments(
                self.n + other.n,
                self.sum_s + other.sum_s,
                self.sum_q + other.sum_q,
                self.sum_sq + other.sum_sq,
                self.strata,
            )
        if self.strata is None or other.strata is None:
            raise InputError("moments with and without context strata cannot be added")
        union = tuple(dict.fromkeys(self.strata + other.strata))
        return self._spread(union) + other._spread(union)

    def _spread(self, union: tuple[Any, ...]) -> Moments[Value]:
        """The same sums laid out over more strata."""
        assert self.strata is not None
        place = [union.index(label) for label in self.strata]
        sums = []
        for value in (self.n, self.sum_s, self.sum_q, self.sum_sq):
            wide = library(value).zeros((*value.shape[:-1], len(union)), dtype=value.dtype)
            wide[..., place] = value
            sums.append(wide)
        return Moments(sums[0], sums[1], sums[2], sums[3], union)

    def pooled(self) -> Moments[Value]:
        """The moments with the strata summed up."""
        if self.strata is None:
            return self
        return Moments(self.n.sum(-1), self.sum_s.sum(-1), self.sum_q.sum(-1), self.sum_sq.sum(-1))

    @property
    def mu_s(self) -> Value:
        """Mean of p_s over all strata."""
        return cast(Value, mean(self.pooled().sum_s, self.pooled().n))

    @property
    def mu_q(self) -> Value:
        """Mean of p_q over all strata."""
        return cast(Value, mean(self.pooled().sum_q, self.pooled().n))

    @property
    def mu_sq(self) -> Value:
        """Mean of p_s·p_q over all strata: the joint fraction J."""
        return cast(Value, mean(self.pooled().sum_sq, self.pooled().n))


def _confidences(value: Any, name: str) -> Any:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, but its shape is {array.shape}")
    if len(array) and not (np.nanmin(array) >= 0.0 and np.nanmax(array) <= 1.0 and not np.isnan(array).any()):
        raise InputError(f"{name} must lie in [0, 1]; it holds confidences or 0/1 flags, not raw scores")
    return array


def _codes(context: ArrayLike, n: int) -> tuple[tuple[Any, ...], Any]:
    labels = np.asarray(context)
    if labels.shape != (n,):
        raise InputError(f"context has shape {labels.shape}, but there are {n:,} rows")
    values, code = np.unique(labels, return_inverse=True)
    return tuple(values.tolist()), code
