"""``coad demo``: findings, thresholds and networks on simulated data, with figures."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coad.cli._print import number, out, span, table

if TYPE_CHECKING:
    from coad.research.experiments.demo import LearnedDemo, ThresholdDemo


def demo(
    output: Annotated[Path, typer.Option("--out", help="The HTML page to write.")] = Path("coad-demo.html"),
    beta: Annotated[
        float, typer.Option(help="Weight of recall: 0 is precision only, inf recall only.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated data.")] = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """On simulated data, compared with the true labels: findings of a plant, thresholds on two scores, and two networks
    that learn from raw windows."""
    from coad.cli._progress import on_terminal, progress
    from coad.cli.find import show_findings
    from coad.data.atomic import check_writable
    from coad.research.experiments.demo import run_findings_demo, run_learned_demo, run_threshold_demo
    from coad.research.figures.demo import write_demo_page

    check_writable(output)
    page = output.with_name(f"{output.stem}-findings.html")
    out(
        "A simulated press line: six motor signals (s) and six of vibration and noise (q), every 15 minutes. Both see three "
        "products, the load, and two rare kinds of event; each has faults of its own. No labels are used."
    )
    with progress("looking for findings"):
        findings = run_findings_demo(page, random_state=seed)
    show_findings(findings.found, most=8)
    out(f"judged by the true labels: {findings.looks.in_words()}")
    out(f"Report: {page}\n")
    out(
        "Thresholds for two scores. Simulated data: 20,000 normal rows, 1,000 anomalies that show in both inputs. No labels are used."
    )
    thresholds = run_threshold_demo(beta=beta, random_state=seed)
    _show_thresholds(thresholds)
    out(
        "\nLearned from raw windows. Simulated windows: a current (s) and a vibration (q), 5 % events, and as many "
        "faults of either sensor alone. Two networks learn from the raw windows, without scores or labels."
    )
    learned = run_learned_demo(random_state=seed, verbose=on_terminal())
    _show_learned(learned)
    write_demo_page(thresholds, learned, output)
    out(f"Figures: {output}")
    if show:
        webbrowser.open(page.resolve().as_uri())


def _show_thresholds(run: ThresholdDemo) -> None:
    result, bounds, best = run.result, run.result.intervals, run.ceiling
    out(f"{result.status}: {result.message}")
    rows = [
        ("threshold on s", number(result.threshold_s), "", "", number(best.threshold_s)),
        ("threshold on q", number(result.threshold_q), "", "", number(best.threshold_q)),
        ("flagged rows", f"{result.n_joint:,}", "", "", f"{best.n_joint:,}"),
    ]
    for title, name, by_labels, ceiling in (
        ("precision", "precision_hat", run.precision, best.precision),
        ("recall", "recall_hat", run.recall, best.recall),
        ("F", "fbeta_hat", run.fbeta, best.fbeta),
        ("anomaly rate", "alpha", run.rate, run.rate),
    ):
        interval = getattr(bounds, name) if bounds else None
        rows.append(
            (title, number(getattr(result, name)), span(interval), number(by_labels), number(ceiling))
        )
    table(("", "no labels", "95 % interval", "by labels", "best possible"), rows)
    out(
        "The last two columns use the true labels: at our thresholds, and at the best thresholds chosen with labels."
    )


def _show_learned(run: LearnedDemo) -> None:
    hat = run.evaluation
    out(f"{run.status}: {int(run.flagged.sum()):,} of {len(run.flagged):,} new windows flagged")
    rows = [
        (
            "precision",
            number(hat.precision_hat),
            span(hat.intervals.precision_hat),
            number(run.judged.precision),
        ),
        ("recall", number(hat.recall_hat), span(hat.intervals.recall_hat), number(run.judged.recall)),
        ("F", number(hat.fbeta_hat), span(hat.interval), number(run.judged.fbeta)),
        ("anomaly rate", number(run.alpha), "", number(float(run.data.label.mean()))),
    ]
    table(("", "no labels", "95 % interval", "by labels"), rows)
    out(
        "The values without labels are conservative: everything that chance can explain counts as chance. "
        "They are lower bounds in expectation, and the intervals are intervals of these bounds."
    )
