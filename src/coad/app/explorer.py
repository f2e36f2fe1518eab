"""The explorer: scored pairs with a person's marks, and the answers that its page asks for."""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from coad._typing import BoolArray, IntArray
from coad.app.event_marks import EventMarks, confirmed
from coad.app.insight import Insight
from coad.app.marks import Marks
from coad.app.plain import plain
from coad.app.view import View
from coad.core.labels import label_scores
from coad.core.validation import check_beta
from coad.core.verdict import NO_COINCIDENCE
from coad.events.runs import Events
from coad.exceptions import InputError
from coad.report.cards import card, one_sided, pair_facts, pair_title
from coad.report.checks import checks_table, regime_rows
from coad.report.data import Scored
from coad.report.drawings import NormalRows, describe
from coad.report.model_figures import history_lines, logit, sampled
from coad.report.study import Study
from coad.report.words import tone, verdict
from coad.workflows.recipe import Recipe

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["Explorer"]

log = logging.getLogger(__name__)

#: Cards on a page of the gallery, lines of the table of regimes, and bins of the timeline: what fits a screen.
PAGE, _REGIMES, _BINS = 12, 30, 160
#: Positions of the sliders of a threshold and of β: finer than a hand moves them.
_STEPS, _BETA_STEPS = 400, 80
#: Points drawn of what is flagged, and of what is not, so that the first picture comes at once.
_DRAWN_FLAGGED, _DRAWN_OTHERS = 1200, 1800
#: With more regimes than this, their table takes longer than everything else.
_MAX_REGIMES = 2000
_NOT_SIGNIFICANT = " The best pair of thresholds is shown, which is not significant."


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
    names : str
        The title of the page.
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
        names: str = "",
        parent: tuple[Explorer, IntArray] | None = None,
    ) -> None:
        self.model, self.recipe, self.scored, self.marks, self.names = model, recipe, scored, marks, names
        if parent is None:
            self.study = Study(scored, model)
        else:
            from coad.learned.dismissal import alpha_without

            whole = parent[0].scored.flags(*parent[0].study.start)
            keep = np.isin(np.arange(len(whole)), parent[1])
            self.study = Study(scored, model, alpha_without(float(model.alpha_), whole, keep))
        self._normal = NormalRows(scored, scored.flags(*self.study.start))
        if parent is None:
            self.insight = Insight(model, self.study, self._normal)
        else:
            self.insight = parent[0].insight.part(parent[1], self.study, self._normal)
        self.event_marks = EventMarks(scored, marks)
        self._random_order = np.random.default_rng(0).permutation(len(scored))
        self._clock = None if scored.time is None else _seconds(scored.time)
        self.first_view = threading.Event()  # set when the first picture was served
        self._ready = threading.Event()
        self._failed = ""

    def prepare(self) -> None:
        """Compute the slow parts: tests, β scan, kinds. Errors are shown on the page."""
        try:
            _ = self.study.status, self.study.scan, self.study.hint
            self.insight.prepare()
            for beta in self._slider_betas():
                self.study.best(beta)
        except Exception as error:  # this runs in a thread, where nobody would see it
            log.exception("the tests failed")
            self._failed = f"{type(error).__name__}: {error}"
        finally:
            self._ready.set()

    def overview(self) -> dict[str, Any]:
        """What the page needs once: names, sliders, filters and the points of the scatter plot."""
        scored, study = self.scored, self.study
        flagged = scored.flags(*study.start)
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
                "alpha": study.alpha,
                "alpha_given": study.alpha_given,
                "start": study.start,
                "betas": self._slider_betas(),
                "sliders": {"s": _slider(scored.p_s), "q": _slider(scored.p_q)},
                "regimes": list(scored.contexts) if scored.code is not None else [],
                "clock": clock,
                "labels": scored.label is not None,
                "why": self.insight.can_explain,
                "points": {
                    "pair": drawn,
                    "x": np.round(logit(scored.p_s[drawn]), 3),
                    "y": np.round(logit(scored.p_q[drawn]), 3),
                    "p_s": scored.p_s[drawn],
                    "p_q": scored.p_q[drawn],
                },
            }
        )

    def look(self, view: View, *, tune: bool = False) -> dict[str, Any]:
        """The estimates at a view, and a page of its gallery; ``tune`` first takes the best thresholds for its β."""
        view = view.check()
        if tune:
            t_s, t_q = self.study.best(view.beta)
            view = View(**{**asdict(view), "threshold_s": t_s, "threshold_q": t_q})
        flags = self.scored.flags(view.threshold_s, view.threshold_q)
        events = self.scored.events(flags)
        marked = self.event_marks.of_events(events)
        chosen = self._filtered(view, events, marked)
        count, truth = len(chosen), self.scored.label
        answer = {
            "numbers": asdict(self.study.numbers_at(view.threshold_s, view.threshold_q, view.beta)),
            "events": len(events),
            "shown": count,
            "confirmed": confirmed(marked),
            "trouble": self.marks.trouble,
            "timeline": self._timeline(events, chosen),
            "regimes": self._regimes(view),
            "judged": None if truth is None else list(label_scores(flags, truth, view.beta)),
        }
        if view.show == "events":
            pages = max(1, -(-count // PAGE))
            page = min(max(view.page, 0), pages - 1)
            some = chosen[page * PAGE : (page + 1) * PAGE]
            cards = [
                self._card(int(events.peak[i]), int(events.n_pairs[i]), marked.get(int(i))) for i in some
            ]
        else:
            pages, page = 1, 0
            pairs = one_sided(self.study, view.show, PAGE, (view.threshold_s, view.threshold_q))
            cards = [self._card(int(pair), 1, None) for pair in pairs]
        if self.insight.kinds_known and cards:
            for one, kind in zip(cards, self._kind_names(np.array([x["pair"] for x in cards])), strict=True):
                one["kind"] = kind
        self.first_view.set()
        return plain(answer | {"page": page, "pages": pages, "cards": cards})

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
        """The verdict, the tests and the scan, once they are ready."""
        if not self._ready.is_set():
            return {"ready": False}
        if self._failed:
            return {"ready": True, "failed": self._failed}
        study = self.study
        own = next(iter(self.model.fitted_.values()))
        null = study.test.test
        return plain(
            {
                "ready": True,
                "verdict": verdict(study) + (_NOT_SIGNIFICANT if study.status == NO_COINCIDENCE else ""),
                "tone": tone(study),
                "status": study.status,
                "scan": [asdict(point) for point in study.scan],
                "null": None if null is None else np.round(null.null_fbeta_hat, 4),
                "observed": None if study.test.candidate is None else study.test.candidate.fbeta_hat,
                "checks": checks_table(study)[1],
                "seeds": [asdict(one) | {"kept": one.seed in own.ensemble} for one in own.starts],
                "history": [line._asdict() for line in history_lines(self.model)],
                "kinds": self.kinds(),
            }
        )

    def event(self, pair: int, view: View) -> dict[str, Any]:
        """Everything about one pair, and the event around it at these thresholds."""
        scored, pair = self.scored, self._checked(pair)
        events = scored.events(scored.flags(view.threshold_s, view.threshold_q))
        number = int(events.of_pair([pair])[0])
        size = int(events.n_pairs[number]) if number >= 0 else 1
        marks = self.event_marks
        mark = marks.of_events(events).get(number) if number >= 0 else marks.of_pair(pair)
        return plain(
            {
                "pair": pair,
                "flagged": number >= 0,
                "title": pair_title(scored, pair),
                "facts": pair_facts(scored, pair, size),
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
            events = self.scored.events(self.scored.flags(view.threshold_s, view.threshold_q))
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
        events = scored.events(scored.flags(view.threshold_s, view.threshold_q))
        marked = self.event_marks.of_events(events)
        chosen = np.sort(self._filtered(view, events, marked))
        more: dict[str, Any] = {"file": np.array(self.event_marks.files)[scored.file]}
        for name in ("time", "id", "label"):
            if getattr(scored, name) is not None:
                more[name] = getattr(scored, name)
        if scored.code is not None:
            more["regime"] = np.array(scored.contexts)[scored.code]
        table = events_table(
            events[chosen], scored.p_s, scored.p_q, first_row=scored.first, last_row=scored.last, more=more
        )
        if self.insight.kinds_known:
            names = self._kind_names(events.peak[chosen])
            table = table.append_column("kind", pa.array(names, pa.string()))
        return table.append_column("mark", pa.array([marked.get(int(i)) for i in chosen], pa.string()))

    def _card(self, pair: int, size: int, mark: str | None) -> dict[str, Any]:
        scored = self.scored
        title, facts = pair_title(scored, pair), pair_facts(scored, pair, size)
        html = card(self.study, self._normal, pair, title, facts)
        return {"pair": pair, "html": html, "mark": mark, "kind": None}

    def _kind_names(self, pairs: IntArray) -> list[str | None]:
        """The name of the kind of each pair."""
        called = {one["kind"]: one["name"] or one["label"] for one in self.kinds()}
        return [called.get(kind) for kind in self.insight.kinds_of(pairs)]

    def _filtered(self, view: View, events: Events, marks: dict[int, str]) -> IntArray:
        """The numbers of the events that pass the filters, in the order asked for."""
        peak = events.peak
        keep: BoolArray = np.ones(len(events), dtype=np.bool_)
        if view.regime >= 0 and self.scored.code is not None:
            keep &= self.scored.code[peak] == view.regime
        if self._clock is not None:
            if view.start is not None:
                keep &= self._clock[peak] >= view.start
            if view.end is not None:
                keep &= self._clock[peak] <= view.end
        if view.kind:
            keep &= np.array(self.insight.kinds_of(peak), dtype=object) == view.kind
        if view.mark:
            marked = np.array([marks.get(i, "none") for i in range(len(events))], dtype=object)
            keep &= np.array(marked != "none" if view.mark == "any" else marked == view.mark, dtype=np.bool_)
        chosen = np.flatnonzero(keep)
        key = {
            "strongest": -self.scored.p_s[peak] * self.scored.p_q[peak],
            "latest": -peak if self._clock is None else -self._clock[peak],
            "longest": -events.n_pairs,
            "random": self._random_order[peak],
        }[view.sort]
        return np.asarray(chosen[np.argsort(key[chosen], kind="stable")])

    def _timeline(self, events: Events, chosen: IntArray) -> dict[str, Any]:
        """A histogram of the shown events over time."""
        axis = np.arange(len(self.scored), dtype=float) if self._clock is None else self._clock
        low, high = float(axis.min()), float(axis.max())
        high = high if high > low else low + 1.0
        counts, _ = np.histogram(axis[events.peak[chosen]], bins=_BINS, range=(low, high))
        return {"counts": counts, "low": low, "high": high}

    def _regimes(self, view: View) -> list[Any]:
        if self.scored.code is None or len(self.scored.contexts) > _MAX_REGIMES:
            return []
        return regime_rows(self.study, (view.threshold_s, view.threshold_q))[1][:_REGIMES]

    def _slider_betas(self) -> list[float]:
        middle = np.geomspace(0.01, 100, _BETA_STEPS - 1)
        return [0.0, *(float(f"{beta:.3g}") for beta in middle), math.inf]

    def _checked(self, pair: int) -> int:
        if not 0 <= pair < len(self.scored):
            raise InputError(
                f"there is no {self.scored.what[:-1]} {pair}; they go from 0 to {len(self.scored) - 1}"
            )
        return int(pair)


def _slider(p: Any) -> list[float]:
    """Thresholds that flag from half of the pairs down to one, in logarithmic steps."""
    falling = np.sort(p)[::-1]
    n = len(falling)
    count = np.geomspace(max(1, n // 2), 1, _STEPS + 1)
    return [float(one) for one in falling[np.round(count).astype(np.int64) - 1]]


def _seconds(time: Any) -> Any:
    if time.dtype.kind == "M":
        return time.astype("datetime64[us]").astype(np.int64) / 1e6
    return time.astype(float)
