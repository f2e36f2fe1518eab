"""Names of a package that load when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from coad._extras import missing_package

__all__ = ["lazy_names"]


def lazy_names(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose public names live in the modules that ``home`` gives."""

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(home[name]), name)
        except ModuleNotFoundError as error:
            raise missing_package(error) or error from None
        setattr(sys.modules[package], name, value)  # next time it is found at once
        return value

    return load
