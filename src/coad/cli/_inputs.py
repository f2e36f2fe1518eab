"""The options that ``fit`` and ``modes`` share: files, columns, clocks, windows, context.

:class:`InputOptions` lists them once, and :func:`with_input_options` adds them to a command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from coad.cli._options import (
    FileArgument,
    LongOption,
    Missing,
    MissingOption,
    TimeFormatOption,
    UnorderedOption,
    notes,
    one_or_two,
)

if TYPE_CHECKING:
    from coad.data.layout import Layout
    from coad.workflows.recipe import Clocks
    from coad.workflows.scoring import Source


class Align(StrEnum):
    """How the rows of q are matched to the times of s."""

    nearest = "nearest"
    interpolate = "interpolate"
    hold = "hold"


class OutOfCore(StrEnum):
    """When to train from disk."""

    auto = "auto"
    always = "always"
    never = "never"


#: Options that name columns: ``--s a --s b`` is the same as ``--s a,b``.
_COLUMNS = ("s", "q", "context")


@dataclass(frozen=True)
class InputOptions:
    """Which files are read, which columns are what, and how rows become pairs."""

    file: FileArgument = None
    s: Annotated[
        str,
        typer.Option(
            "--s", metavar="<str>", help="Columns of input s: names, globs or /regex/; auto: all not in --q."
        ),
    ] = "auto"
    q: Annotated[
        str, typer.Option("--q", metavar="<str>", help="Columns of input q; auto: all not in --s.")
    ] = "auto"
    output: Annotated[Path, typer.Option("--out", help="Folder for the model.")] = Path("model")
    s_file: Annotated[
        Path | None, typer.Option(help="File of s, if s and q come from two files with their own times.")
    ] = None
    q_file: Annotated[Path | None, typer.Option(help="File of q; see --s-file.")] = None
    align: Annotated[Align, typer.Option(help="With --q-file: how q is resampled at the times of s.")] = (
        Align.nearest
    )
    tolerance: Annotated[
        str | None, typer.Option(help="With --q-file: largest time difference in a pair, e.g. 50ms.")
    ] = None
    time: Annotated[str | None, typer.Option(help="Time column.")] = None
    time_q: Annotated[str | None, typer.Option(help="Time column of --q-file, if it has another name.")] = (
        None
    )
    time_unit: Annotated[
        str | None, typer.Option(help="Unit of numeric times: s, ms, us, ns (epoch) or number; else guessed.")
    ] = None
    time_format: TimeFormatOption = None
    long: LongOption = None
    window: Annotated[
        str | None, typer.Option(help="Window length in rows (64) or time (250ms); default: single rows.")
    ] = None
    stride: Annotated[
        str | None,
        typer.Option("--stride", "--hop", help="Distance between window starts; default: the window length."),
    ] = None
    max_gap: Annotated[
        str | None, typer.Option(help="No window spans a longer time step; default: 5 median steps.")
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            metavar="<str>", help="Columns of the operating regime; chance is counted within each value."
        ),
    ] = None
    context_blocks: Annotated[str | None, typer.Option(help="Use blocks of time as context, e.g. 10min.")] = (
        None
    )
    group: Annotated[
        str | None, typer.Option(help="Run or batch ID; rows that share it stay on one side of every split.")
    ] = None
    label: Annotated[
        str | None, typer.Option(help="Label column; never used as an input or for training.")
    ] = None
    unordered: UnorderedOption = False
    missing: MissingOption = Missing.error
    seed: Annotated[
        int, typer.Option(help="Random seed; same model on the same machine with as many threads.")
    ] = 0
    out_of_core: Annotated[
        OutOfCore, typer.Option(help="Train from disk; auto: only if the data do not fit in memory.")
    ] = OutOfCore.auto

    def resolve(self, *, check: bool = True) -> tuple[Source, Layout, Clocks | None]:
        """The files, the layout with ``auto`` replaced by columns, and how two clocks are aligned.

        ``check``: that the output may become a model folder.
        """
        from coad.data.layout import Layout
        from coad.data.long import long_columns
        from coad.workflows.auto_columns import fill_auto
        from coad.workflows.model_folder import check_target
        from coad.workflows.recipe import Clocks

        if check:
            check_target(self.output)
        source = one_or_two(self.file, self.s_file, self.q_file)
        long, time = None, self.time
        if self.long is not None:
            columns = long_columns(source.files or source.s or [], self.long)
            long, time = ",".join(columns), columns[0]
        layout = Layout(
            s=self.s,
            q=self.q,
            context=self.context or None,
            time=time,
            group=self.group,
            label=self.label,
            time_unit=self.time_unit,
            time_format=self.time_format,
            long=long,
            context_blocks=self.context_blocks,
            window=self.window,
            stride=self.stride,
            max_gap=self.max_gap,
            missing=self.missing.value,
        )
        clocks = Clocks(self.align.value, self.tolerance, self.time_q) if source.two_clocks else None
        with notes():
            source = source.wide(layout)
        return source, fill_auto(source, layout), clocks


def with_input_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the fields of :class:`InputOptions` to a command, which gets them as its first argument.

    Typer reads options from a function's signature, so the new function has the fields and the
    command's own options in its signature.
    """
    fields_of_inputs = inspect.signature(InputOptions, eval_str=True).parameters.values()
    shared = [_repeatable(one) if one.name in _COLUMNS else one for one in fields_of_inputs]
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    @wraps(command)
    def with_options(**given: Any) -> None:
        for name in _COLUMNS:
            given[name] = ",".join(given[name]) if given[name] else None
        inputs = InputOptions(**{field.name: given.pop(field.name) for field in fields(InputOptions)})
        command(inputs, **given)

    with_options.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in (*shared, *own)}
    return with_options


def _repeatable(option: inspect.Parameter) -> inspect.Parameter:
    """The same option as one that may be given several times; otherwise only the last would count, without a word."""
    default = None if option.default is None else [option.default]
    annotation = Annotated[list[str] | None, *get_args(option.annotation)[1:]]
    return option.replace(annotation=annotation, default=default)
