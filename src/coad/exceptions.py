"""The errors and warnings of coad, one small tree.

Errors say what is wrong, where, and what to do. Every error that a user can
cause is a :class:`CoadError`; the command line turns it into one line and exit
code 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class CoadError(Exception):
    """Base of every error that coad raises on purpose."""


class InputError(CoadError, ValueError):
    """Data or a setting that coad cannot work with, and what to do about it."""


class FileError(CoadError, OSError):
    """A file that cannot be read or written."""


class MissingPackageError(CoadError, ImportError):
    """An optional package is needed and not installed; the message says how to install it."""


if TYPE_CHECKING:

    class NotFittedError(CoadError, AttributeError, ValueError):
        """A method that needs ``fit`` was called before it."""

else:

    def __getattr__(name: str) -> Any:
        # It is scikit-learn's as well, and scikit-learn takes too long to load for those who only want an error.
        if name != "NotFittedError":
            raise AttributeError(f"module 'coad.exceptions' has no attribute {name!r}")
        from sklearn.exceptions import NotFittedError as SklearnNotFittedError

        kind = type(
            "NotFittedError",
            (CoadError, SklearnNotFittedError),
            {"__module__": __name__, "__doc__": "A method that needs ``fit`` was called before it."},
        )
        globals()["NotFittedError"] = kind
        return kind


class CoadWarning(UserWarning):
    """Base of every warning that coad gives on purpose."""


class UndefinedMetricWarning(CoadWarning):
    """A metric is not defined for these moments and was set to a stated value."""


class NoCoincidenceWarning(CoadWarning):
    """There is no evidence of coincidence, so nothing will be flagged."""


class UnseenContextWarning(CoadWarning):
    """Rows are in regimes that training did not see, so nothing is known of what is usual there."""


class SharedRegimeWarning(CoadWarning):
    """The coincidence looks like a shared operating regime, not like events."""
