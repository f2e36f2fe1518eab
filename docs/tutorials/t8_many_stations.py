"""
8. Many stations on a cluster
=============================

One machine is looked at; a site has hundreds. ``--each`` makes a model for every one of them and a page that puts the worst first, and
``--cluster`` has that done by many computers. This page uses a cluster of two processes on this one, which Dask starts by itself; with the
address of a scheduler in its place, the same commands use a real one.
"""

# %%
# Six pumps
# ---------
#
# Simulated: a Parquet file for each pump, with three signals of its motor and three of its vibration. In two of them a bearing wears: now
# and then both groups feel it. In the others each group has faults of its own, and nothing that both feel.

import shlex
import shutil
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

MOTOR, VIBRATION = ["motor_current", "motor_power", "motor_temp"], ["vib_rms", "vib_peak", "vib_high"]
WORN = {"pump_03": 0.05, "pump_05": 0.04}  # share of the rows


def sh(command):
    """Run a command as a terminal would, and print what it prints."""
    print("$", command)
    print(subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout)


def readings(pump, day, n=1440):
    """A row a minute, and which rows hold an event."""
    rng = np.random.default_rng([int(pump[-2:]), day])
    s, q = rng.normal(size=(2, n, 3)) + rng.normal(size=(2, n, 1))  # what the columns of a group share
    event = rng.random(n) < WORN.get(pump, 0)
    s[event] += rng.uniform(4, 7, (event.sum(), 1))
    q[event] += rng.uniform(4, 7, (event.sum(), 1))
    for own in (s, q):  # faults of one group alone
        fault = rng.random(n) < 0.015
        own[fault] += rng.uniform(3, 6, (fault.sum(), 1))
    time = pd.Timestamp("2026-03-01") + pd.Timedelta(days=day) + pd.to_timedelta(np.arange(n), unit="min")
    table = pd.DataFrame(np.hstack([s, q]).round(3), columns=[*MOTOR, *VIBRATION])
    table.insert(0, "time", time)
    return table, event


pumps = [f"pump_{number:02d}" for number in range(1, 7)]
for folder in ("site", "models", "week", "scores"):  # of an earlier run of this page
    shutil.rmtree(folder, ignore_errors=True)
Path("site").mkdir()
for pump in pumps:
    readings(pump, 0)[0].to_parquet(f"site/{pump}.parquet")

# %%
# A model for each
# ----------------
#
# ``--each folder`` takes every file of a folder, or every folder in it, for a source. A column can name the sources too (``--each station``),
# and so can a list in a text file (``--each list``). ``--cluster auto`` starts a worker for each core of this machine;
# ``--cluster tcp://scheduler:8786`` is a cluster that runs already. ``--unordered`` because here each row is drawn by itself.

sh(
    'coad find site --s "motor_*" --q "vib_*" --time time --unordered '
    "--each folder --cluster auto --out models"
)

# %%
# ``models`` has a folder for each pump, ``results.csv`` with a line for each, and a page of them, the worst first:
#
# .. raw:: html
#
#    <iframe class="coad-page" src="models/index.html" title="The page of all pumps" loading="lazy"></iframe>

# %%
# Six questions were asked at once, and one pump in twenty would seem to have something by luck alone. ``p_holm`` is corrected for that:
# what is below 0.05 is a finding, however many pumps there are.

results = pd.read_csv("models/results.csv").sort_values("source")
fig, ax = plt.subplots()
colours = ["C1" if pump in WORN else "C0" for pump in results.source]
ax.bar(results.source.str[-2:], -np.log10(results.p_holm.clip(lower=1e-6)), color=colours)
ax.axhline(-np.log10(0.05), color="C5", lw=1, ls="--")
ax.set(xlabel="pump (worn ones in orange)", ylabel="evidence, -log10 of p_holm")
plt.show()

# %%
# A worker that dies costs its pump again and nothing else. The same command again, with a seventh file in ``site``, would make the seventh
# model only; it also does again what failed or changed.
#
# A week of one pump
# ------------------
#
# New data of any size are scored file by file, on the same cluster. Each file gives a part of ``scores``, whole or not at all.

Path("week").mkdir()
days = [readings("pump_05", day) for day in range(1, 8)]
for day, (table, _) in enumerate(days, 1):
    table.to_parquet(f"week/2026-03-{day + 1:02d}.parquet")

sh("coad score models/pump_05 week --out scores --cluster auto")

scores = pd.concat([pd.read_parquet(part) for part in sorted(Path("scores").glob("*.parquet"))])
table, event = pd.concat([table for table, _ in days]), np.concatenate([event for _, event in days])
flagged = scores.flag.to_numpy()

fig, axes = plt.subplots(2, 1, sharex=True)
for ax, column, colour in ((axes[0], "motor_temp", "C0"), (axes[1], "vib_rms", "C1")):
    ax.plot(table.time, table[column], lw=0.4, color=colour, alpha=0.6)
    ax.plot(table.time[flagged], table[column][flagged], ".", color="C2", ms=4, label="flagged")
    ax.set(ylabel=column)
axes[0].legend(loc="upper right")
fig.autofmt_xdate()
plt.show()

# %%
# The simulation knows which rows hold an event:

right, met = event[flagged].mean(), flagged[event].mean()
print(f"{flagged.sum()} rows flagged, {right:.0%} of them events, and {met:.0%} of all events")

# %%
# Files must lie where all workers see them, and workers have the same version of coad; either is checked, and said in a line if it is
# not so. :doc:`/scale` tells what else outgrows a machine: thresholds of billions of rows, and long trainings. What was trained here
# can be watched as it comes, each station with its own model: :doc:`/live`.
