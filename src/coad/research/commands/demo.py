"""``coad demo``: the main job on simulated data, with its pictures."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._print import number, out, span, table

if TYPE_CHECKING:
    from coad.report.page import Section


def demo(
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-demo.html"),
    beta: Annotated[float, typer.Option(help="0 asks for precision, inf for recall.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated data.")] = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Both modes on simulated data, compared with the hidden truth: thresholds on two scores, then
    two networks that learn from raw windows."""
    from coad.data.atomic import check_writable
    from coad.research.experiments.synthetic import run_demo, write_demo_page

    check_writable(output)
    out("Simulated data: 20,000 normal rows, 1,000 anomalies that show in both inputs. No labels are used.")
    run = run_demo(beta=beta, random_state=seed)
    result, bounds = run.result, run.result.intervals
    out(f"{result.status}: {result.message}")
    best = run.ceiling
    assert best.precision is not None
    assert best.recall is not None
    bare: tuple[float, float] | None = None
    rows = [
        ("threshold on s", number(result.threshold_s), "", "", number(best.threshold_s)),
        ("threshold on q", number(result.threshold_q), "", "", number(best.threshold_q)),
        ("flagged rows", f"{result.n_joint:,}", "", "", f"{best.n_joint:,}"),
    ]
    for name, value, interval, judged, ceiling in (
        (
            "precision",
            result.precision_hat,
            bounds.precision_hat if bounds else bare,
            run.precision,
            best.precision,
        ),
        ("recall", result.recall_hat, bounds.recall_hat if bounds else bare, run.recall, best.recall),
        ("F", result.fbeta_hat, bounds.fbeta_hat if bounds else bare, run.fbeta, best.fbeta),
        ("anomaly rate", result.alpha, bounds.alpha if bounds else bare, run.rate, run.rate),
    ):
        rows.append((name, number(value), span(interval), number(judged), number(ceiling)))
    table(("", "no labels", "95 % interval", "by labels", "best possible"), rows)
    out(
        "The last two columns look at the hidden truth: at our thresholds, and at the best that labels can buy."
    )
    write_demo_page(run, output, _learned(seed))
    out(f"Pictures: {output}")
    if show:
        webbrowser.open(output.resolve().as_uri())


def _learned(seed: int) -> list[Section]:
    """Train on raw windows, print what came of it, and give the page its sections."""
    from coad.cli._progress import on_terminal
    from coad.research.experiments.demo import learned_sections, run_learned_demo

    out(
        "\nThe learned mode. Simulated windows: a current (s) and a vibration (q), 5 % events, and as many "
        "faults of either sensor alone. Two networks learn from the raw windows; no scores, no labels."
    )
    run = run_learned_demo(random_state=seed, verbose=on_terminal())
    hat = run.evaluation
    out(f"{run.status}: {int(run.flagged.sum()):,} of {len(run.flagged):,} new windows flagged")
    rows = [
        ("precision", number(hat.precision_hat), span(hat.precision_interval), number(run.judged.precision)),
        ("recall", number(hat.recall_hat), span(hat.recall_interval), number(run.judged.recall)),
        ("F", number(hat.fbeta_hat), span(hat.fbeta_interval), number(run.judged.fbeta)),
        ("anomaly rate", number(run.alpha), "", number(float(run.data.label.mean()))),
    ]
    table(("", "no labels", "95 % interval", "by labels"), rows)
    out(
        "Without labels the figures are cautious: all that may be chance is counted as chance, and a network that is half "
        "sure counts half. They are lower bounds in expectation, and the intervals are about these bounds."
    )
    return learned_sections(run)
