"""
4. Operating points
===================

Machines have operating points, products, materials, warm-ups. Both inputs see them, so both move together, and that looks like
coincidence. It is the most common way to be misled. This page shows how to see it and what to do: tell ``coad`` the operating point.
"""

# %%
# Two scores that share a regime
# ------------------------------
#
# Simulated: for a seventh of the time the machine runs at full load, in stretches, and both scores are higher then. Apart from that, 3 %
# of the rows hold an event.

import matplotlib.pyplot as plt
import numpy as np

import coad

rng = np.random.default_rng(0)
n = 4000
full_load = np.repeat(rng.random(n // 50) < 0.15, 50)
event = rng.random(n) < 0.03  # for judging only
score_s = rng.normal(size=n) + 3.0 * full_load + 3.5 * event
score_q = rng.normal(size=n) + 3.0 * full_load + 3.5 * event

fig, ax = plt.subplots(figsize=(5.2, 4.2))
for load, name in ((False, "part load"), (True, "full load")):
    ax.scatter(score_s[full_load == load], score_q[full_load == load], s=5, alpha=0.5, label=name)
ax.set(xlabel="score s", ylabel="score q")
ax.legend()
plt.show()

# %%
# Without the operating point
# ---------------------------

plain = coad.select_thresholds(score_s, score_q)
print(plain.status)
print(plain.message)

flagged = plain.predict(score_s, score_q)
print(f"flagged {flagged.sum()} rows, of which {event[flagged].mean():.0%} hold an event")

# %%
# The status is ``shared regime suspected``, and the message says why: after one score is moved by a few rows, most of the coincidence is
# still there. Events would be gone; something slow is not. Note that "not explained by chance" is high all the same, and rightly:
# the full load *is* no chance. It is no event either.
#
# With the operating point
# ------------------------
#
# Two things are needed. Each score is taken relative to what is usual at its operating point, and chance is counted within each
# operating point (``context=``).


def relative(score):
    """The score less the median of its operating point."""
    result = score.copy()
    for load in np.unique(full_load):
        result[full_load == load] -= np.median(score[full_load == load])
    return result


within = coad.select_thresholds(relative(score_s), relative(score_q), context=full_load)
print(within.status)
print(within.message)

flagged = within.predict(relative(score_s), relative(score_q))
print(f"flagged {flagged.sum()} rows, of which {event[flagged].mean():.0%} hold an event")

fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.6), sharex=True, sharey=True)
for ax, load, name in ((axes[0], False, "part load"), (axes[1], True, "full load")):
    own = full_load == load
    ax.scatter(relative(score_s)[own], relative(score_q)[own], s=5, alpha=0.4)
    ax.scatter(relative(score_s)[own & flagged], relative(score_q)[own & flagged], s=10, label="flagged")
    ax.set(title=name, xlabel="score s, relative")
axes[0].set(ylabel="score q, relative")
axes[0].legend(loc="lower right")
plt.show()

# %%
# From columns, it is one option
# ------------------------------
#
# ``coad.find`` and ``coad.CoAD`` do both things by themselves: columns are scaled within each context, and chance is counted within it.
# On the press line of :doc:`t2_plant_table`, where both inputs see the product:

from coad.research.datasets.plant import simulated_plant

plant = simulated_plant(random_state=0)
rows = plant.pairs

for name, context in (("without the product", None), ("with the product", plant.product)):
    found = coad.find(rows.s, rows.q, context=context, time=rows.time, random_state=0)
    print(name)
    print(found.table[:4])
    for finding in found.table[:4]:
        print(
            f"  {finding.number}: {rows.label[finding.rows].mean():.0%} of its rows hold an event, by the labels"
        )

# %%
# With the product, the first three findings are the events and nothing else. On the command line it is ``--context product``; if no
# column says what runs, ``--context-blocks 2h`` compares each stretch of two hours with itself.
#
# If ``coad fit`` suspects a shared regime, it names the column that explains it best. That advice is for an operating condition, not for a consequence of the
# fault: keep such columns out with ``--not-context``. How to tell them apart: :doc:`/guide/assumption`.
