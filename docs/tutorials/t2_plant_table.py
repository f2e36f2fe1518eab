"""
2. A plant table: from CSV to findings to decisions
===================================================

You have a file with a row per quarter of an hour, and two groups of columns that watch the same machine: motor signals and vibration.
Something is wrong now and then, nobody has written down when. This page goes from the file to a list of what is rare and odd in both
groups, to a person's decisions, to flags for new data.

Everything here is done by commands. In this script ``sh("...")`` runs one; in a terminal, type what is between the quotes.
"""

# %%
# The file
# --------
#
# It is a simulated press line (nothing is measured): six motor signals and six of vibration and noise, three products, a load, two rare
# kinds of event that both groups see, and faults of single sensors. The column ``event`` says which rows hold an event. No command
# looks at it before the last section.

import shlex
import subprocess

import matplotlib.pyplot as plt
import pandas as pd

from coad.research.datasets.plant import write_plant


def sh(command):
    """Run a command as a terminal would, and print what it prints."""
    print("$", command)
    print(subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout)


write_plant("plant.csv")
write_plant("new.csv", random_state=1)
table = pd.read_csv("plant.csv", parse_dates=["time"])
table[["time", "product", "motor_current", "motor_torque", "vib_rms", "vib_kurtosis"]].head()

# %%
# What a person sees in it: slow changes of load and product, and peaks of which it is hard to say whether they matter.

fig, (top, bottom) = plt.subplots(2, 1, sharex=True)
top.plot(table.time, table.motor_torque, lw=0.6)
top.set(ylabel="motor_torque [Nm]")
bottom.plot(table.time, table.vib_kurtosis, lw=0.6, color="C1")
bottom.set(ylabel="vib_kurtosis")
fig.autofmt_xdate()
plt.show()

# %%
# Find
# ----
#
# Say which columns are ``s``, which are ``q``, which one is the time, and which one names the operating regime, here the product: what is
# usual is then learned for each product by itself.

sh('coad find plant.csv --s "motor_*" --q "vib_*,noise_*" --time time --context product --out run')

# %%
# Each line is a *finding*: rows that both inputs single out. The order is by how rare, how odd in **both**, how far beyond chance and how
# stable they are. Findings that are rare and odd in both are flagged; every other line says why it is not. Under the table stands what
# sets the first ones apart, in widths of the columns' usual range.
#
# The command has also written a page, ``run/report.html``, with pictures of each finding. This is it (scroll inside):
#
# .. raw:: html
#
#    <iframe class="coad-page" src="run/report.html" title="The report of coad find" loading="lazy"></iframe>

# %%
# Look, then decide
# -----------------
#
# The first three findings are clear: a torque and current that jump with a knock (the tool jams), and heat with high-frequency vibration
# (a bearing wears). Findings 4 and 5 are flagged too, and their reasons are weak: a slow change of load. Only a person can say so, in three
# words: ``event``, ``normal`` or ``ignore``.

for number, word in ((1, "event"), (2, "event"), (3, "event"), (4, "normal")):
    sh(f"coad decide run {number} {word}")

sh("coad decide run")

# %%
# Without a number, ``coad decide`` shows the list. What nobody looked at is told by what was decided: rows that are more like the
# events than like the normal rows are flagged, others are not. Findings that are not odd stand for normal rows.

# %%
# New data
# --------
#
# The folder ``run`` now holds a rule: your decisions. Every command and Python apply it.

sh("coad score run new.csv --out flags.csv")

# %%
# ``flags.csv`` has a line for each row: the score, whether it is flagged, and which finding it belongs to.

new, flags = pd.read_csv("new.csv", parse_dates=["time"]), pd.read_csv("flags.csv")
flagged = flags.flag.to_numpy()

fig, (top, bottom) = plt.subplots(2, 1, sharex=True)
for ax, column, colour in ((top, "motor_torque", "C0"), (bottom, "vib_kurtosis", "C1")):
    ax.plot(new.time, new[column], lw=0.6, color=colour, alpha=0.6)
    ax.plot(new.time[flagged], new[column][flagged], ".", color="C2", ms=5, label="flagged")
    ax.set(ylabel=column)
top.legend(loc="upper right")
fig.autofmt_xdate()
plt.show()

# %%
# How good is it?
# ---------------
#
# ``coad evaluate`` estimates that without labels. This file has a label column, so it is judged by it as well: this is the first time
# that anything looks at it. "After 5 looks" is what one gets who answers five times what a finding is; we answered four times.

sh("coad evaluate run new.csv --label event")

# %%
# Before the decisions, most of the flagged rows held none of the events; four answers later nearly all do. This is why ``coad``
# ranks and asks, rather than promising that a rule knows what you call a fault.
#
# To go on: ``coad explore run new.csv`` shows the same in a browser, where the keys ``e``, ``n`` and ``i`` decide. :doc:`/findings` tells
# how the list is made and what it cannot do; :doc:`t4_operating_points` is about ``--context``.
