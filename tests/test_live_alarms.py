"""Alarms: each has an event, latches and dead times hold, every alarm ends, and the journal tells it all."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from live_models import SECOND

from coad.exceptions import FileError, InputError
from coad.live.alarms import AlarmSettings, act, on_event, on_time
from coad.live.reading import ACTIONS
from coad.live.store import Store
from coad.live.values import Event, Refusal, Step, event_key

OPTIONS = AlarmSettings(latch=300, dead_time=50)


def event(start=10, end=20, state="open", station="K01", **more):
    values = {"n_pairs": 3, "p_s": 0.9, "p_q": 0.8, "score": 0.72, **more}
    return Event(event_key("m", station, start), station, start, end, start, state=state, **values)


class Alarms(RuleBasedStateMachine):
    """Events, people and time in any order, on a store: what must hold of the alarms at every moment."""

    @initialize(latch=st.integers(0, 200), dead=st.integers(0, 100), least=st.integers(1, 3))
    def begin(self, latch, dead, least):
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.options = AlarmSettings(latch, dead, least)
        self.store = Store(f"{self.folder.name}/watch.db", self.options)
        self.now = 1000
        self.running: Event | None = None
        self.keys: dict[str, Event] = {}

    @precondition(lambda self: self.running is None)
    @rule(pairs=st.integers(1, 4))
    def event_opens(self, pairs):
        self.keep(event(self.now, self.now, n_pairs=pairs))

    @precondition(lambda self: self.running is not None)
    @rule(over=st.booleans(), longer=st.integers(1, 60))
    def event_goes_on(self, over, longer):
        self.now += longer
        old = self.running
        state = "closed" if over else "open"
        self.keep(event(old.start, self.now, state, n_pairs=old.n_pairs + 1))

    def keep(self, one):
        self.keys[one.key] = one
        self.running = one if one.state == "open" else None
        self.store.commit(Step(events=(one,), watermark=self.now), b"")

    @rule(longer=st.integers(1, 150))
    def time_passes(self, longer):
        self.now += longer
        self.store.commit(Step(watermark=self.now), b"")

    @rule(action=st.sampled_from(ACTIONS), until=st.integers(1, 300), which=st.integers(0, 3))
    def somebody_acts(self, action, until, which):
        alarms = self.store.alarms()
        if alarms:
            alarm = alarms[which % len(alarms)]
            try:
                new = self.store.act(alarm["key"], action, "Ada", "seen", self.now + until)
            except InputError:
                assert self.store.alarms() == alarms, "what was refused changed something"
                return
            assert new["n"] > alarm["n"]
            assert new["person"] == "Ada"

    @invariant()
    def every_alarm_has_an_event(self):
        for alarm in self.alarms():
            assert alarm["events"]
            assert set(alarm["events"]) <= set(self.keys)
            assert all(self.keys[key].n_pairs >= self.options.min_pairs for key in alarm["events"][:1])

    @invariant()
    def a_source_has_one_alarm_that_is_not_over(self):
        assert sum(alarm["state"] != "cleared" for alarm in self.alarms()) <= 1

    @invariant()
    def latch_and_dead_time_hold(self):
        alarms = sorted(self.alarms(), key=lambda one: one["raised"])
        for alarm in alarms:
            if alarm["state"] == "cleared" and not alarm["acknowledged"]:
                assert alarm["cleared"] >= alarm["end"] + self.options.latch
            if alarm["state"] == "latched":
                assert not alarm["active"]
                assert self.now < alarm["end"] + self.options.latch
            if alarm["state"] == "shelved":
                assert self.now < alarm["until"]
        for before, after in itertools.pairwise(alarms):
            assert after["raised"] >= before["end"] + self.options.dead_time

    @invariant()
    def the_journal_has_every_transition_once(self):
        for alarm in self.alarms():
            lines = [one for one in self.store.journal(limit=10_000) if one.key.startswith(alarm["key"])]
            assert [one.body["n"] for one in lines] == list(range(1, alarm["n"] + 1))
            assert lines[-1].body["state"] == alarm["state"]
            assert lines[0].body["state"] == "raised"

    def alarms(self):
        return self.store.alarms() if hasattr(self, "store") else []

    def teardown(self):
        if not hasattr(self, "store"):
            return
        if self.running is not None:
            self.event_goes_on(True, 1)
        self.now += 1000
        self.store.commit(Step(watermark=self.now), b"")
        assert all(alarm["state"] == "cleared" for alarm in self.alarms()), "every alarm ends"
        self.store.close()
        self.folder.cleanup()


TestAlarms = Alarms.TestCase
TestAlarms.settings = settings(max_examples=25, stateful_step_count=25)


def test_an_acknowledged_alarm_ends_with_its_event():
    alarm = on_event(event(), None, None, OPTIONS)
    alarm = act(alarm, "acknowledge", "Ada", "on it", 15, OPTIONS)
    assert (alarm["state"], alarm["person"], alarm["note"]) == ("acknowledged", "Ada", "on it")
    assert on_event(event(end=30, state="closed"), alarm, None, OPTIONS)["state"] == "cleared"


def test_a_shelved_alarm_comes_back():
    alarm = act(on_event(event(), None, None, OPTIONS), "shelve", "Ada", "", 15, OPTIONS, until=100)
    assert on_time(alarm, 99, OPTIONS)["state"] == "shelved"
    assert on_time(alarm, 100, OPTIONS)["state"] == "raised"


@pytest.mark.parametrize(
    ("action", "person", "until", "words"),
    [
        ("acknowledge", " ", None, "a name is needed"),
        ("shelve", "Ada", None, "an end that is still to come"),
        ("shelve", "Ada", 5, "an end that is still to come"),
        ("unshelve", "Ada", None, "not shelved"),
        ("clear", "Ada", None, "still goes on"),
        ("burn", "Ada", None, "there is no action"),
    ],
)
def test_what_cannot_be_done_is_refused(action, person, until, words):
    with pytest.raises(InputError, match=words):
        act(on_event(event(), None, None, OPTIONS), action, person, "", 15, OPTIONS, until)


def test_marks_of_people_give_the_measured_precision(tmp_path):
    store = Store(tmp_path / "watch.db", AlarmSettings(latch=0))
    for k in range(3):
        store.commit(Step(events=(event(100 * k, 100 * k + 5, "closed"),), watermark=100 * k + 6), b"")
    first, second, _ = [one["key"] for one in store.alarms()]
    store.act(first, "confirm", "Ada")
    store.act(second, "false", "Bob", "pulsed heating")
    assert store.precision() == (1, 2)
    line = store.journal(limit=100)[-1]
    assert (line.body["verdict"], line.body["person"], line.body["note"]) == (
        "false",
        "Bob",
        "pulsed heating",
    )


def test_a_step_is_kept_once_however_often_it_is_committed(tmp_path):
    store = Store(tmp_path / "watch.db")
    refusal = Refusal("K01", 5, 9, 4, "gate", "charge below 30 pC")
    step = Step(events=(event(), event(end=30, state="closed")), refusals=(refusal,), watermark=30)
    store.commit(step, b"", position=[7], counts={"pairs": 4})
    before = store.journal(), store.alarms(), store.events(), store.refusals()
    store.commit(step, b"", position=[7], counts={"pairs": 4})
    assert (store.journal(), store.alarms(), store.events(), store.refusals()) == before
    assert (store.position(), store.counters()) == ([7], {"pairs": 4})
    assert [one.id for one in before[0]] == sorted(one.id for one in before[0])


def test_a_transaction_that_fails_leaves_nothing(tmp_path):
    store = Store(tmp_path / "watch.db")
    with pytest.raises(TypeError):
        store.commit(Step(events=(event(numbers={"x": object}),), watermark=9), b"", position=1)
    assert store.position() is None
    assert not store.journal()


def test_old_entries_are_forgotten_and_open_ones_kept(tmp_path):
    store = Store(tmp_path / "watch.db", AlarmSettings(latch=0))
    old, new = event(1 * SECOND, 2 * SECOND, "closed"), event(50 * SECOND, 60 * SECOND, "open")
    store.commit(Step(events=(old, new), watermark=70 * SECOND), b"")
    store.forget_before(80 * SECOND)
    assert [one["key"] for one in store.events()] == [new.key]
    assert [one["state"] for one in store.alarms()] == ["raised"]


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "watch.db").write_text("no database" * 100)
    with pytest.raises(FileError, match=r"watch\.db cannot be opened: file is not a database"):
        Store(tmp_path / "watch.db")


@pytest.mark.parametrize("size", [1, 3, 100])
def test_alarms_are_the_same_however_many_events_come_in_one_step(tmp_path, size):
    """A replay brings days in one step; what a latch of minutes ended in between has ended there too."""
    found = [event(start, start + 10, "closed") for start in (10, 40, 1000, 1030, 5000)]
    store = Store(tmp_path / "watch.db", OPTIONS)
    for first in range(0, len(found), size):
        step = found[first : first + size]
        store.commit(Step(events=tuple(step), watermark=step[-1].end), b"")
    store.commit(Step(watermark=9000), b"")
    alarms = [(one["raised"], one["cleared"], len(one["events"])) for one in store.alarms(limit=-1)]
    assert sorted(alarms) == [(10, 350, 2), (1000, 1340, 2), (5000, 5310, 1)]
