"""
1. Two scores, no labels
========================

You have two anomaly scores for each row, and nobody has labels. Which rows should an alarm go off for? A threshold on one score must be
guessed. Two scores that watch the same system for different reasons set each other's threshold: what is odd in both at once is an event,
what is odd in one alone is noise, and the rows where they disagree tell how much of the agreement is luck.
"""

# %%
# Two scores
# ----------
#
# The scores may come from detectors, rules or sensors; a higher score is odder. Here they are simulated, the first set of the paper:
# 4,000 normal rows, and 200 rows with an event that both scores feel. ``label`` says which these are. It is used at the end, to judge,
# and never before.

import matplotlib.pyplot as plt

import coad
from coad.research.datasets.synthetic import independent_noise, synthetic_outliers

data = synthetic_outliers(n_normal=4000, random_state=0)
score_s, score_q = data.s, data.q

fig, ax = plt.subplots(figsize=(5.2, 4.4))
ax.scatter(score_s, score_q, s=5, alpha=0.5)
ax.set(xlabel="score s", ylabel="score q", title="What you have: two scores, no labels")
plt.show()

# %%
# Thresholds
# ----------
#
# One call tries every pair of thresholds and keeps the best. There is no contamination rate to give: how many anomalies there are is part
# of the answer.

result = coad.select_thresholds(score_s, score_q)

print(result.status)
print(result.message)
print(f"flag where s >= {result.threshold_s:.2f} and q >= {result.threshold_q:.2f}: {result.n_joint} rows")
print(f"about {result.alpha:.1%} of the rows are anomalies")
print(f"of the flagged rows, {result.precision_hat:.0%} are not explained by chance")

# %%
# The flagged rows are the upper right corner. The points to its left and below it are odd in one score only; they are what chance is
# counted from.

flagged = result.predict(score_s, score_q)

fig, ax = plt.subplots(figsize=(5.2, 4.4))
ax.scatter(score_s[~flagged], score_q[~flagged], s=5, alpha=0.4, label="not flagged")
ax.scatter(score_s[flagged], score_q[flagged], s=12, label="flagged")
ax.axvline(result.threshold_s, color="#808a99", lw=1, ls="--")
ax.axhline(result.threshold_q, color="#808a99", lw=1, ls="--")
ax.set(xlabel="score s", ylabel="score q")
ax.legend()
plt.show()

# %%
# Fewer false alarms, or fewer missed events
# ------------------------------------------
#
# ``beta`` says which you want: 0 is the surest rows only, ``inf`` is every event that can be had, 1 weighs both alike.

for beta in (0.1, 1, 10):
    choice = coad.select_thresholds(score_s, score_q, beta=beta)
    print(
        f"beta {beta:>4}: {choice.n_joint:4d} rows flagged, {choice.precision_hat:.0%} not explained by chance"
    )

# %%
# ``beta_scan`` does this for many values. The labels come in here, for the first time, to see whether what was estimated without them
# holds. The estimates are lower bounds for thresholds that are fixed beforehand; a pair that was picked on these very rows looks somewhat
# better than it is, which the interval after ``F̂`` allows for.

scan = coad.beta_scan(score_s, score_q, label=data.label)

fig, ax = plt.subplots(figsize=(5.2, 4.0))
ax.plot(
    [p.recall_hat for p in scan],
    [p.precision_hat for p in scan],
    marker=".",
    label="estimated without labels",
)
ax.plot([p.recall for p in scan], [p.precision for p in scan], marker=".", label="by the labels")
ax.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))
ax.legend()
plt.show()

# %%
# When there is nothing to find
# -----------------------------
#
# A best pair of thresholds exists for pure noise too. The result says whether it is better than what other pairings of the same rows give;
# if not, nothing is flagged.

noise_s, noise_q = independent_noise(4000, random_state=1)
nothing = coad.select_thresholds(noise_s, noise_q)

print(nothing.status)
print(nothing.message)
print("rows flagged:", int(nothing.predict(noise_s, noise_q).sum()))

# %%
# The same from a file
# --------------------
#
# If the scores are columns of a file, no Python is needed:
#
# .. code-block:: console
#
#    $ coad thresholds scores.csv --s score_s --q score_q --out flags.csv
#
# Next: :doc:`a table of sensors instead of scores </auto_examples/t2_plant_table>`, or what each :doc:`status </guide/status>` means.
