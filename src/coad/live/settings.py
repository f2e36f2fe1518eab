"""Tables of a TOML file as dataclasses: every key is known, has the right type, or the error names its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from coad.data.times import parse_duration
from coad.exceptions import FileError, InputError

__all__ = ["Nanoseconds", "TomlFile"]

T = TypeVar("T")
#: A duration: ``"250ms"`` in the file, nanoseconds here.
Nanoseconds = Annotated[int, "duration"]
_WORDS: dict[Any, str] = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of texts",
    dict: "a table of texts",
}


class TomlFile:
    """A TOML file that knows on which line each key stands.

    Parameters
    ----------
    path
        The file.
    text
        Its content, if it need not be read.

    >>> import tempfile
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Alarms:
    ...     latch: Nanoseconds = 0
    >>> path = Path(tempfile.mkdtemp()) / "watch.toml"
    >>> _ = path.write_text('[alarms]\\nlach = "5min"')
    >>> TomlFile(path).section("alarms", Alarms)
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: watch.toml, line 2: [alarms] has no key 'lach'; did you mean 'latch'?
    """

    def __init__(self, path: str | Path, text: str | None = None) -> None:
        self.path = Path(path)
        try:
            text = self.path.read_text(encoding="utf-8") if text is None else text
            self.values: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{self.path.name} is not TOML: {error}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
        self._lines = _lines_of(text)

    def check_sections(self, known: tuple[str, ...]) -> None:
        """Refuse tables that nobody asks for."""
        for name in self.values:
            if name not in known:
                raise self.error(f"there is no section [{name}]{_meant(name, known)}", name)

    def section(self, name: str, kind: type[T]) -> T:
        """A table as a dataclass."""
        table = self.values.get(name, {})
        if not isinstance(table, Mapping):
            raise self.error(f"[{name}] must be a table", name)
        return self.filled(table, kind, name)

    def sections(self, name: str, kind: type[T]) -> list[T]:
        """A list of tables, ``[[name]]``."""
        return [self.filled(table, kind, name, place) for place, table in enumerate(self.tables(name))]

    def tables(self, name: str) -> list[dict[str, Any]]:
        """The tables of a list as they are."""
        found = self.values.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.error(f"write [[{name}]], with two brackets: there may be several", name)
        return found

    def filled(
        self, table: Mapping[str, Any], kind: type[T], name: str, place: int = 0, but: tuple[str, ...] = ()
    ) -> T:
        """A table as a dataclass; the keys ``but`` are somebody else's."""
        hints = get_type_hints(kind, include_extras=True)
        known = {one.name: one for one in fields(kind) if one.init}  # type: ignore[arg-type]
        values = {}
        for key, value in table.items():
            if key in but:
                continue
            if key not in known:
                raise self.error(f"[{name}] has no key {key!r}{_meant(key, known)}", name, key, place)
            try:
                values[key] = _converted(value, hints[key])
            except InputError as error:
                raise self.error(f"{key} under [{name}] {error}", name, key, place) from None
        for key, one in known.items():
            if key not in values and one.default is MISSING and one.default_factory is MISSING:
                raise self.error(f"[{name}] needs the key {key!r}", name, None, place)
        try:
            return kind(**values)
        except InputError as error:
            raise self.error(str(error), name, None, place) from error

    def error(self, text: str, section: str, key: str | None = None, place: int = 0) -> InputError:
        """An error that names the line of a key or of a section."""
        line = self._lines.get((section, place, key), self._lines.get((section, place, None)))
        where = self.path.name if line is None else f"{self.path.name}, line {line}"
        return InputError(f"{where}: {text}")


def _meant(name: str, known: Any) -> str:
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else f"; it may have {', '.join(sorted(known))}"


def _converted(value: Any, hint: Any) -> Any:
    """The value as a type, or an InputError that goes on after the name of the key."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    options = tuple(one for one in options if one is not type(None))
    if len(options) > 1 and options != (str, int):
        options = options[:1]
    hint = options[0]
    if get_origin(hint) is Annotated:
        return _nanoseconds(value)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise InputError(f"must be one of {', '.join(map(repr, get_args(hint)))}, not {value!r}")
        return value
    plain = get_origin(hint) or hint
    plain = list if plain is tuple else plain
    wanted = (int, float) if plain is float else (str, int) if len(options) == 2 else plain
    good = isinstance(value, wanted) and (plain is bool or not isinstance(value, bool))
    if good and plain is list:
        good = all(isinstance(one, str) for one in value)
    if good and plain is dict:
        good = all(isinstance(one, str) for one in value.values())
    if not good:
        raise InputError(f"must be {_WORDS.get(plain, plain.__name__)}, not {value!r}")
    if get_origin(hint) is tuple:
        return tuple(value)
    return float(value) if plain is float else value


def _nanoseconds(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InputError(f'must be a duration such as "250ms", not {value!r}')
    if re.fullmatch(r"\s*0+(\.0*)?\s*[a-zA-Z]*\s*", str(value)):
        return 0
    try:
        return int(parse_duration(value).astype("timedelta64[ns]").astype(np.int64))
    except InputError:
        raise InputError(f'must be a duration such as "250ms", not {value!r}') from None


def _lines_of(text: str) -> dict[tuple[str, int, str | None], int]:
    """The line of each section, and of each key in it; of lists of tables by their place."""
    found: dict[tuple[str, int, str | None], int] = {}
    section, place = "", 0
    count: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"\s*(\[\[?)\s*([^\]\s.]+)", line)
        if head:
            section = head[2].strip("\"'")
            place = count.get(section, 0) if head[1] == "[[" else 0
            count[section] = place + 1
            found.setdefault((section, place, None), number)
            continue
        key = re.match(r"\s*([A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*(\.|=)", line)
        if key:
            found.setdefault((section, place, key[1].strip("\"'")), number)
            if not section:
                found.setdefault((key[1].strip("\"'"), 0, None), number)
    return found
