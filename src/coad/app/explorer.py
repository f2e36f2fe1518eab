"""The explorer: scored pairs with a person's marks, and the answers that its page asks for."""

from __future__ import annotations

import logging
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coad._typing import BoolArray, IntArray
from coad.app.event_marks import EventMarks, confirmed
from coad.app.filtering import filtered, timeline
from coad.app.insight import Insight
from coad.app.marks import Marks
from coad.app.sliders import SLIDER_BETAS, slider
from coad.app.view import View
from coad.core.labels import label_scores
from coad.core.rule import Rule
from coad.core.runs import seconds
from coad.core.validation import check_beta
from coad.events.runs import Events
from coad.exceptions import InputError
from coad.findings.estimator import Findings
from coad.report.cards import card, one_sided, pair_facts, pair_title
from coad.report.checks import checks_table, regime_rows
from coad.report.drawings import NormalRows, describe
from coad.report.model_figures import history_lines, logit
from coad.report.study import Study
from coad.report.words import tone, verdict
from coad.web.plain import plain
from coad.workflows.recipe import Recipe
from coad.workflows.scored import Scored, sampled
from coad.workflows.scoring import Source

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["Explorer"]

log = logging.getLogger(__name__)

#: Cards on a page of the gallery, and lines of the table of regimes: what fits a screen.
PAGE, _REGIMES = 12, 30
#: Points drawn of what is flagged, and of what is not, so that the first picture comes at once.
_DRAWN_FLAGGED, _DRAWN_OTHERS = 1200, 1800
#: With more regimes than this, their table takes longer than everything else.
_MAX_REGIMES = 2000


class Explorer:
    """Scored pairs with a person's marks. Answers are plain values, ready for JSON.

    Parameters
    ----------
    model, recipe : CoAD, Recipe
        The model, and how it reads files.
    scored : Scored
        The pairs.
    marks : Marks
        Where marks are saved.
    source : Source, optional
        The files, to look for a column that explains a shared regime.
    names : str
        The title of the page.
    folder : Path, optional
        The model folder; without it, no rule can be saved.
    parent : (Explorer, array), optional
        The explorer of all pairs and the numbers of these among them, if some were dismissed.
    """

    def __init__(
        self,
        model: CoAD,
        recipe: Recipe,
        scored: Scored,
        marks: Marks,
        *,
        source: Source | None = None,
        names: str = "",
        folder: Path | None = None,
        parent: tuple[Explorer, IntArray] | None = None,
    ) -> None:
        self.model, self.recipe, self.scored, self.marks, self.names = model, recipe, scored, marks, names
        self.source, self.folder = source, folder
        self.findings = isinstance(model, Findings)
        #: The rule of the model folder; that of ``model`` may be a draft, with more kinds dismissed.
        self.kept_rule: Rule = model.rule_ if parent is None else parent[0].kept_rule
        self.study = Study(scored, model, recipe, source)
        self._normal = NormalRows(scored, self.study.flags)
        if parent is None:
            self.insight = Insight(model, self.study, self._normal)
        else:
            self.insight = parent[0].insight.part(parent[1], self.study, self._normal)
        self.event_marks = EventMarks(scored, marks)
        self._random_order = np.random.default_rng(0).permutation(len(scored))
        self._clock = None if scored.time is None else seconds(scored.time)
        self.first_view = threading.Event()  # set when the first picture was served
        self._ready = threading.Event()
        self._failed = ""

    def prepare(self) -> None:
        """Compute the slow parts: tests, β scan, kinds. Errors are shown on the page."""
        try:
            if self.study.has_thresholds:  # there is nothing to choose from in a list of modes or findings
                _ = self.study.judgement, self.study.scan
                self.insight.prepare()
                for beta in SLIDER_BETAS:
                    self.study.best(beta)
        except Exception as error:  # this runs in a thread, where nobody would see it
            log.exception("the tests failed")
            self._failed = f"{type(error).__name__}: {error}"
        finally:
            self._ready.set()

    def overview(self) -> dict[str, Any]:
        """What the page needs once: names, sliders, filters and the points of the scatter plot."""
        scored, study = self.scored, self.study
        flagged = study.flags
        drawn = np.concatenate(
            [
                sampled(np.flatnonzero(flagged), _DRAWN_FLAGGED),
                sampled(np.flatnonzero(~flagged), _DRAWN_OTHERS),
            ]
        )
        clock = None
        if self._clock is not None and scored.time is not None:
            clock = {
                "low": float(self._clock.min()),
                "high": float(self._clock.max()),
                "dates": scored.time.dtype.kind == "M",
            }
        return plain(
            {
                "names": self.names,
                "n": len(scored),
                "what": scored.what,
                "beta": study.beta,
                "alpha_given": study.rule.alpha_given,
                "can_save": self.folder is not None,
                "rule": study.rule.words(),
                "thresholds": study.has_thresholds,
                "findings": self.findings,
                "lines": study.has_thresholds and study.rule.product is None,
                "start": study.start,
                "betas": SLIDER_BETAS,
                "sliders": {"s": slider(scored.p_s), "q": slider(scored.p_q)},
                "regimes": list(scored.regime_names) if scored.code is not None else [],
                "clock": clock,
                "labels": scored.label is not None,
                "why": self.insight.can_explain,
                "points": {
                    "pair": drawn,
                    "x": np.round(logit(scored.p_s[drawn]), 3),
                    "y": np.round(logit(scored.p_q[drawn]), 3),
                    "p_s": scored.p_s[drawn],
                    "p_q": scored.p_q[drawn],
                    "flag": flagged[drawn],
                },
            }
        )

    def look(self, view: View, *, tune: bool = False) -> dict[str, Any]:
        """The estimates at a view, and a page of its gallery; ``tune`` first takes the best thresholds for its β."""
        view = view.check()
        if tune:
            t_s, t_q = self.study.best(view.beta)
            view = replace(view, threshold_s=t_s, threshold_q=t_q, saved=False)
        rule, flags = self.rule_of(view), self._flags(view)
        # Where the sliders stand: a threshold of the product, or none, has no place on them.
        shown = self.study.start if rule is self.study.rule else rule.thresholds
        events = self.scored.events(flags)
        marked = self.event_marks.of_events(events)
        chosen = self._filtered(view, events, marked)
        count, truth = len(chosen), self.scored.label
        answer = {
            "numbers": asdict(self.study.numbers(rule)) | {"thresholds": shown},
            "own": not self.study.rule.changes(rule),
            "unsaved": bool(self.kept_rule.changes(rule)),
            "events": len(events),
            "shown": count,
            "confirmed": confirmed(marked),
            "trouble": self.marks.trouble,
            "timeline": timeline(self._clock, len(self.scored), events.peak[chosen]),
            "rule": rule.words(),
            "regimes": self._regimes(view),
            "judged": None if truth is None else list(label_scores(flags, truth, view.beta)),
        }
        if view.show == "events":
            pages = max(1, -(-count // PAGE))
            page = min(max(view.page, 0), pages - 1)
            some = chosen[page * PAGE : (page + 1) * PAGE]
            cards = [self._card(int(events.peak[i]), events[int(i)], marked.get(int(i))) for i in some]
            if self.findings and not len(
                events
            ):  # the pairs that are oddest in both inputs: better than nothing
                cards = [
                    self._card(int(pair), None, self.event_marks.of_pair(int(pair)))
                    for pair in np.argsort(-self.scored.score, kind="stable")[:PAGE]
                ]
        else:
            pages, page = 1, 0
            pairs = one_sided(self.study, view.show, PAGE, (view.threshold_s, view.threshold_q))
            cards = [self._card(int(pair), None, None) for pair in pairs]
        if (self.insight.kinds_known or self.scored.mode is not None) and cards:
            for one, kind in zip(cards, self._kind_names(np.array([x["pair"] for x in cards])), strict=True):
                one["kind"] = kind
        self.first_view.set()
        return plain(answer | {"page": page, "pages": pages, "cards": cards})

    def rule_of(self, view: View) -> Rule:
        """The rule that the sliders show: the model's, until one of them is moved."""
        if view.saved or not self.study.has_thresholds:  # the modes of a catalogue have no thresholds to move
            return self.study.rule
        return self.study.rule_at(view.threshold_s, view.threshold_q, view.beta)

    def judged(self, view: View) -> dict[str, Any]:
        """The verdict on the rule of a view, with its tests: the banner."""
        rule = self.rule_of(view.check())
        study = self.study if not self.study.rule.changes(rule) else self.study.under(rule)
        found = study.evaluation
        unsaved = f"Not saved: {rule.words()}. " if self.kept_rule.changes(rule) else ""
        return plain(
            {
                "verdict": unsaved + verdict(study),
                "tone": tone(study),
                "status": study.status,
                "intervals": asdict(found.intervals),
                "p_value": found.p_value,
                "flagged": found.flagged,
                "events": found.n_events,
                "checks": checks_table(study)[1],
                "null": None if found.null_joint is None else found.null_joint,
                "observed": found.n_tested,
            }
        )

    def surface(self, beta: float) -> dict[str, Any] | None:
        """F̂ over both thresholds for a β."""
        surface = self.study.surface(check_beta(beta))
        if surface is None:
            return None
        n = len(self.scored)
        return plain(
            {
                "x": np.log10(surface.flagged_s / n),
                "y": np.log10(surface.flagged_q / n),
                "z": np.round(np.clip(surface.fbeta_hat, 0, None).T, 4),
                "threshold_s": surface.threshold_s,
                "threshold_q": surface.threshold_q,
            }
        )

    def more(self) -> dict[str, Any]:
        """The scan, the training and the kinds, once they are ready."""
        if not self._ready.is_set():
            return {"ready": False}
        if self._failed:
            return {"ready": True, "failed": self._failed}
        study = self.study
        if not study.has_thresholds:
            return {"ready": True, "scan": [], "kinds": [], "seeds": [], "history": []}
        answer = {"ready": True, "scan": [asdict(point) for point in study.scan], "kinds": self.kinds()}
        own = next(iter(self.model.fitted_.values()))
        seeds = [asdict(one) | {"kept": one.seed in own.ensemble} for one in own.starts]
        return plain(
            answer | {"seeds": seeds, "history": [one._asdict() for one in history_lines(self.model)]}
        )

    def event(self, pair: int, view: View) -> dict[str, Any]:
        """Everything about one pair, and the event around it at these thresholds."""
        scored, pair = self.scored, self._checked(pair)
        events = self._events(view)
        number = int(events.of_pair([pair])[0])
        around = events[number] if number >= 0 else None
        marks = self.event_marks
        mark = marks.of_events(events).get(number) if number >= 0 else marks.of_pair(pair)
        return plain(
            {
                "pair": pair,
                "flagged": number >= 0,
                "title": pair_title(scored, pair),
                "facts": pair_facts(scored, pair, around),
                "file": self.event_marks.files[int(scored.file[pair])],
                "p_s": scored.p_s[pair],
                "p_q": scored.p_q[pair],
                "mark": mark,
                "kind": self._kind_names(np.array([pair]))[0],
                "label": None if scored.label is None else bool(scored.label[pair]),
                "s": describe(scored.s.rows([pair])[0], scored.s_names, self._normal.of("s", pair)),
                "q": describe(scored.q.rows([pair])[0], scored.q_names, self._normal.of("q", pair)),
            }
        )

    def why(self, pair: int) -> dict[str, Any]:
        """The contribution of each part of both inputs to the networks' outputs."""
        return plain(self.insight.why(self._checked(pair)))

    def mark(self, pair: int, verdict: str | None, view: View | None = None) -> None:
        """Save the mark of a pair, or remove all marks of the event around it at ``view``; on disk when this returns."""
        pair = self._checked(pair)
        if verdict is None and view is not None:
            events = self._events(view)
            self.event_marks.remove_event(pair, events)
        else:
            self.event_marks.put(pair, verdict)

    def kinds(self) -> list[dict[str, Any]]:
        """The kinds of events with their names and whether they are dismissed."""
        notes = self.marks.kinds()
        return [
            one | {"name": note.name, "dismissed": note.dismissed}
            if (note := notes.get(one["kind"]))
            else one
            for one in self.insight.kinds()
        ]

    def events_table(self, view: View) -> Any:
        """The events at a view as a ``pyarrow.Table``, with time, label, regime, kind and mark."""
        import pyarrow as pa

        from coad.events.runs import events_table

        scored, view = self.scored, view.check()
        events = self._events(view)
        marked = self.event_marks.of_events(events)
        chosen = np.sort(self._filtered(view, events, marked))
        more: dict[str, Any] = {"file": np.array(self.event_marks.files)[scored.file]}
        for name in ("id", "label"):
            if getattr(scored, name) is not None:
                more[name] = getattr(scored, name)
        if scored.code is not None:
            more["regime"] = np.array(scored.regime_names)[scored.code]
        table = events_table(
            events[chosen],
            scored.p_s,
            scored.p_q,
            first_row=scored.first,
            last_row=scored.last,
            time=scored.time,
            more=more,
        )
        if scored.mode is not None:
            table = table.append_column(
                "finding" if self.findings else "mode", pa.array(scored.mode[events.peak[chosen]])
            )
        if self.insight.kinds_known:
            names = self._kind_names(events.peak[chosen])
            table = table.append_column("kind", pa.array(names, pa.string()))
        return table.append_column("mark", pa.array([marked.get(int(i)) for i in chosen], pa.string()))

    def _flags(self, view: View) -> BoolArray:
        rule = self.rule_of(view)
        return self.study.flags if rule is self.study.rule else rule.flags(self.scored.p_s, self.scored.p_q)

    def _events(self, view: View) -> Events:
        return self.scored.events(self._flags(view))

    def _card(self, pair: int, event: Events | None, mark: str | None) -> dict[str, Any]:
        scored = self.scored
        title, facts = pair_title(scored, pair), pair_facts(scored, pair, event)
        html = card(self.study, self._normal, pair, title, facts)
        return {"pair": pair, "html": html, "mark": mark, "kind": None}

    def _kind_names(self, pairs: IntArray) -> list[str | None]:
        """The name of the kind of each pair, or of its finding or mode."""
        if self.scored.mode is not None:
            what = "finding" if self.findings else "mode"
            return [f"{what} {one}" if one >= 0 else None for one in self.scored.mode[pairs].tolist()]
        called = {one["kind"]: one["name"] or one["label"] for one in self.kinds()}
        return [called.get(kind) for kind in self.insight.kinds_of(pairs)]

    def _filtered(self, view: View, events: Events, marks: dict[int, str]) -> IntArray:
        """The numbers of the events that pass the filters, in the order asked for."""
        return filtered(
            view,
            self.scored,
            events,
            marks,
            clock=self._clock,
            kinds_of=self.insight.kinds_of,
            random_order=self._random_order,
        )

    def _regimes(self, view: View) -> list[Any]:
        if self.scored.code is None or len(self.scored.contexts) > _MAX_REGIMES:
            return []
        return regime_rows(self.study, self.rule_of(view))[1][:_REGIMES]

    def _checked(self, pair: int) -> int:
        if not 0 <= pair < len(self.scored):
            raise InputError(
                f"there is no {self.scored.what[:-1]} {pair}; they go from 0 to {len(self.scored) - 1}"
            )
        return int(pair)
