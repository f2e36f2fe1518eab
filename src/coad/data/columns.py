"""Select columns by name, glob or ``/regular expression/``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from coad.exceptions import InputError


def select_columns(
    names: Sequence[str], patterns: str | Iterable[str], *, what: str = "column", where: str = ""
) -> list[str]:
    """Select column names by patterns.

    Parameters
    ----------
    names : sequence of str
        Existing column names.
    patterns : str or iterable of str
        Names, globs (``vib_*``) or regular expressions between slashes (``/^vib_[xy]$/``), as a list
        or separated by commas. An existing name is taken literally, even if it contains ``*``, ``[``
        or a comma. A pattern that matches nothing is an error.
    what, where : str
        What is selected, and the file, for error messages.

    Returns
    -------
    list of str
        In the order of the patterns, then of ``names``.

    >>> names = ["t", "motor_a", "motor_b", "vib_x", "vib_y", "vib_mean"]
    >>> select_columns(names, "motor_*, vib_mean")
    ['motor_a', 'motor_b', 'vib_mean']
    >>> select_columns(names, "/vib_[xy]/")
    ['vib_x', 'vib_y']
    >>> select_columns(names, "moter_*")
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: no column matches 'moter_*'; did you mean 'motor_*'?
    """
    wanted = [patterns] if isinstance(patterns, str) else list(patterns)
    chosen: dict[str, None] = {}
    for pattern in [part for one in wanted for part in _split(one, names)]:
        matched = _matches(names, pattern)
        if not matched:
            raise _nothing_matches(names, pattern, what, where)
        chosen.update(dict.fromkeys(matched))
    if not chosen:
        raise InputError(f"no {what} was named{_in(where)}")
    return list(chosen)


def check_columns(names: Sequence[str], wanted: Iterable[str], *, where: str = "") -> None:
    """Refuse names that do not exist, suggesting the closest one, and names that exist twice."""
    for name in wanted:
        count = list(names).count(name)
        if count == 0:
            raise missing_column(names, name, where=where)
        if count > 1:
            raise InputError(f"column {name!r} appears {count} times{_in(where)}; rename one of them")


def refuse_overlap(s: Iterable[str], q: Iterable[str]) -> None:
    """Refuse columns that are in both inputs, because a column coincides with itself.

    >>> refuse_overlap(["motor_a", "vib_x"], ["vib_x", "vib_y"])
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: column 'vib_x' is in both s and q; leave it out of one of them
    """
    in_q = set(q)
    both = [name for name in s if name in in_q]
    if len(both) == 1:
        raise InputError(f"column {both[0]!r} is in both s and q; leave it out of one of them")
    if both:
        raise InputError(
            f"{len(both)} columns are in both s and q ({quoted(both)}); leave each out of one of them"
        )


def missing_column(names: Sequence[str], name: str, *, where: str = "") -> InputError:
    """The error for a missing column: suggests the closest name, or lists the existing ones.

    >>> str(missing_column(["score_s", "score_q"], "scores_s", where="scores.csv"))
    "no column 'scores_s' in 'scores.csv'; did you mean 'score_s'?"
    """
    message = f"no column {name!r}{_in(where)}"
    nearest = _nearest(names, name)
    if nearest:
        return InputError(f"{message}; did you mean {nearest!r}?")
    if names and all(_is_number(one) for one in names):
        return InputError(f"{message}; the first line has numbers; add a header line with column names")
    return InputError(f"{message}; there are {quoted(names)}" if names else f"{message}; there are none")


def quoted(names: Sequence[str], limit: int = 8) -> str:
    """Quote names for a message; long lists are shortened.

    >>> quoted(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit:,} more"


def _split(pattern: str, names: Sequence[str]) -> list[str]:
    pattern = pattern.strip()
    if pattern in names or _is_regex(pattern):
        return [pattern]
    parts: list[str] = []
    for part in pattern.split(","):
        # A comma inside /…/ belongs to the expression, so join the parts again.
        if parts and parts[-1].startswith("/") and not _is_regex(parts[-1]):
            parts[-1] += "," + part.rstrip()
        else:
            parts.append(part.strip())
    return [part for part in parts if part]


def _is_regex(pattern: str) -> bool:
    return (
        len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/") and ",/" not in pattern[1:-1]
    )


def _matches(names: Sequence[str], pattern: str) -> list[str]:
    if pattern in names:
        return [pattern]
    if _is_regex(pattern):
        try:
            expression = re.compile(pattern[1:-1])
        except re.error as error:
            raise InputError(f"{pattern} is not a regular expression: {error}") from error
        return [name for name in names if expression.search(name)]
    return [name for name in names if fnmatchcase(name, pattern)]


def _nothing_matches(names: Sequence[str], pattern: str, what: str, where: str) -> InputError:
    message = f"no {what} matches {pattern!r}{_in(where)}"
    if _is_regex(pattern):
        return InputError(f"{message}; there are {quoted(names)}")
    if not any(sign in pattern for sign in "*?["):
        return missing_column(names, pattern, where=where)
    # Compare the fixed prefix with prefixes of the same length, to suggest a glob.
    stem = re.split(r"[*?\[]", pattern)[0]
    if stem:
        stems = {name[: len(stem)]: None for name in names}
        near = _nearest(list(stems), stem)
        if near:
            return InputError(f"{message}; did you mean {near + pattern[len(stem) :]!r}?")
    return InputError(f"{message}; there are {quoted(names)}")


def _nearest(names: Sequence[str], name: str) -> str | None:
    by_lower = {one.lower(): one for one in reversed(names)}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _in(where: str) -> str:
    return f" in {where!r}" if where else ""
