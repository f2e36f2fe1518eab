"""``python -m coad``, and the ``coad`` command: the commands of the product and those of the research room."""

from __future__ import annotations

import io
import sys

import typer

from coad import __version__
from coad._extras import missing_package
from coad.cli import (
    decide,
    evaluate,
    explore,
    export,
    find,
    fit,
    modes,
    report,
    role,
    score,
    stream,
    thresholds,
    tune,
    watch,
)
from coad.cli._print import out
from coad.exceptions import CoadError
from coad.research.commands import bench, demo, reproduce, watch_demo

app = typer.Typer(
    name="coad",
    help="Find anomalies without labels, by what two inputs see at once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("find")(find.find)
app.command("decide")(decide.decide)
app.command("thresholds")(thresholds.thresholds)
app.command("fit")(fit.fit)
app.command("modes")(modes.modes)
app.command("role")(role.role)
app.command("tune")(tune.tune)
app.command("score")(score.score)
app.command("evaluate")(evaluate.evaluate)
app.command("report")(report.report)
app.command("explore")(explore.explore)
app.command("watch")(watch.watch)
app.add_typer(stream.app, name="stream")
watch.make_demo = watch_demo.make_demo
app.command("export")(export.export)
app.command("demo")(demo.demo)
app.command("bench")(bench.bench)
app.add_typer(reproduce.app, name="reproduce")


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True),
) -> None:
    if version:
        out(f"coad {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; what a user got wrong is one line and exit code 2."""
    for output in (sys.stdout, sys.stderr):  # a terminal without Greek letters still gets an answer
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="replace")
    try:
        app()
    except CoadError as error:
        sys.stderr.write(f"coad: {error}\n")
        sys.exit(2)
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        sys.stderr.write(f"coad: {missing}\n")
        sys.exit(2)
    except MemoryError as error:
        sys.stderr.write(f"coad: there is not enough memory for this ({error})\n")
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has gone away
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    main()
