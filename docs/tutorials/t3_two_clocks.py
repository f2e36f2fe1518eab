"""
3. Windows of two clocks
========================

Two instruments, two files, two clocks that do not tick together: a motor current fifty times a second, a vibration forty times. An event is
not one reading that is too high but a *shape* that lasts a second. This page pairs the two files, cuts both into windows, and looks for
windows that are odd in both.
"""

# %%
# Two files
# ---------
#
# Simulated: twenty minutes. Forty times, the current dips while the vibration rings; forty times each, only one of them does.

import shlex
import subprocess

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd


def sh(command):
    """Run a command as a terminal would, and print what it prints."""
    print("$", command)
    print(subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout)


rng = np.random.default_rng(0)
seconds = 1200
t_current = np.arange(0, seconds, 1 / 50) + rng.normal(0, 0.001, seconds * 50)
t_vibration = np.arange(0.007, seconds, 1 / 40) + rng.normal(0, 0.001, seconds * 40)

places = rng.permutation(np.arange(5, seconds - 5, 4))[:120] + rng.uniform(-0.5, 0.5, 120)
events, only_current, only_vibration = places[:40], places[40:80], places[80:]


def bumps(t, centres, width):
    """A bump of height 1 at each of the centres."""
    return np.exp(-0.5 * ((t[:, None] - centres) / width) ** 2).sum(axis=1)


dips = bumps(t_current, np.concatenate([events, only_current]), 0.2)
rings = bumps(t_vibration, np.concatenate([events, only_vibration]), 0.3)
current = 18 + np.sin(2 * np.pi * 1.3 * t_current) + 0.4 * rng.normal(size=len(t_current)) - 3.5 * dips
vibration = 0.5 * rng.normal(size=len(t_vibration)) + 2.5 * rings * np.sin(2 * np.pi * 11 * t_vibration)

start = pd.Timestamp("2026-03-02 08:00")
for name, t, values in (("current", t_current, current), ("vibration", t_vibration, vibration)):
    stamps = (start + pd.to_timedelta(t, unit="s")).round("us")
    pd.DataFrame({"time": stamps, name: values.round(4)}).to_csv(f"{name}.csv", index=False)


def draw(marks=None):
    """Three minutes of both signals, with stretches marked."""
    fig, axes = plt.subplots(2, 1, sharex=True)
    for ax, t, values, name in zip(
        axes, (t_current, t_vibration), (current, vibration), ("current", "vibration")
    ):
        shown = (t > 60) & (t < 240)
        ax.plot(t[shown], values[shown], lw=0.5, color="C0" if name == "current" else "C1")
        ax.set(ylabel=name)
        for left, right in () if marks is None else marks:
            ax.axvspan(left, right, color="C2", alpha=0.3, lw=0)
    axes[1].set(xlabel="seconds", xlim=(60, 240))
    plt.show()


draw()

# %%
# Pair the clocks, cut windows, find
# ----------------------------------
#
# ``--s-file`` and ``--q-file`` name the two files. Each reading of s is paired with the nearest one of q, if that is no farther than
# ``--tolerance``. ``--window 1s`` cuts the paired stretch into windows of a second; windows never span a gap.

sh(
    "coad find --s-file current.csv --q-file vibration.csv --s current --q vibration "
    "--time time --tolerance 20ms --window 1s --out windows"
)

# %%
# Windows are compared by level, spread, shape and power in frequency bands, so that the same ringing half a second later is still the
# same ringing. Under the table, "high" means far from the usual waveform, to either side. The windows that are flagged, new data being
# scored in the same way (a window's time is that of its last reading):

sh("coad score windows --s-file current.csv --q-file vibration.csv --out windows.csv")

flags = pd.read_csv("windows.csv")
begin = (pd.to_datetime(flags["time"]) - start).dt.total_seconds().to_numpy() - 1.0
flagged = flags.flag.to_numpy()
draw([(left, left + 1) for left in begin[flagged]])

# %%
# The simulation knows where the events are, so we may judge. Dips without ringing and ringing without a dip are as many as the events, and
# as strong.

starts, width = begin[flagged], 1.0
for name, centres in (("events", events), ("dips alone", only_current), ("ringing alone", only_vibration)):
    hit = [bool(((starts <= c) & (c < starts + width)).any()) for c in centres]
    print(f"{name}: {sum(hit)} of {len(hit)} in a flagged window")

# %%
# In Python, ``coad.data.align`` pairs two clocks and ``coad.data.make_windows`` cuts windows, if the data are in memory. To learn from the raw
# points instead of such features, ``coad fit`` takes the same options and trains two networks: :doc:`t6_your_own`.
