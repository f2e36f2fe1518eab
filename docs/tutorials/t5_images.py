"""
5. Images
=========

The inputs need not be columns. Here each is a camera: two small images of a digit, taken at the same time, each blurred for a reason of
its own. 0 is the normal case; 1, 2 and 3 are events, and each is noisier than the one before. Two networks learn together which images are
odd, from the pairing alone.
"""

# %%
# Pairs of images
# ---------------
#
# scikit-learn's digits, paired as the paper pairs MNIST's: an event of kind 1 always shows as a 1 to both; one of kind 2 is mistaken now and
# then, and one of kind 3 often. The digits are for drawing and judging; the networks get the images.

import math

import matplotlib.pyplot as plt
import numpy as np

import coad
from coad.research.datasets.digits import digits_pairs

train = digits_pairs(2000, np.random.default_rng(0))
new = digits_pairs(2000, np.random.default_rng(1), split="test")


def show(rows, title):
    """Images of s above those of q."""
    fig, axes = plt.subplots(2, len(rows), figsize=(7.2, 1.9))
    for column, row in zip(axes.T, rows):
        for ax, image in zip(column, (new.s[row, 0], new.q[row, 0])):
            ax.imshow(image, cmap="gray_r")
            ax.set(xticks=[], yticks=[])
    axes[0, 0].set_ylabel("s")
    axes[1, 0].set_ylabel("q")
    fig.suptitle(title)
    plt.show()


print("images of s:", train.s.shape)
show(range(12), "twelve pairs: what s saw, and what q saw")

# %%
# Train
# -----
#
# The networks are chosen from the shapes. One training serves several values of ``beta``: 0.05 wants the surest events, 1 a balance, infinity all
# that can be had. Two starts and 30 epochs keep this page quick; leave both out for real work.

detector = coad.CoAD(beta=[0.05, 1, math.inf], n_starts=2, epochs=30, random_state=0)
detector.fit(train.s, train.q)

for beta in (0.05, 1, math.inf):
    found = detector.at(beta).evaluate(new.s, new.q)
    print(f"beta {beta}: {found.status}, {found.n_joint} of {found.n_rows} new pairs flagged")

# %%
# What each β flags
# -----------------
#
# Judged by the digits that both cameras showed. A small β takes the kind that is never mistaken; a larger one takes more, up to the
# noisiest. Zeros are left alone.

fig, ax = plt.subplots()
digits = np.arange(4)
for place, beta in enumerate((0.05, 1, math.inf)):
    flagged = detector.at(beta).predict(new.s, new.q)
    share = [flagged[(new.digit_s == digit) & (new.digit_q == digit)].mean() for digit in digits]
    ax.bar(digits + 0.27 * (place - 1), share, width=0.25, label=f"β = {beta}")
ax.set(xticks=digits, xlabel="digit that both images show", ylabel="share flagged", ylim=(0, 1.05))
ax.legend()
plt.show()

# %%
# The pairs that both networks are surest about, and the pairs on which they disagree most:

score = detector.at(1).score_rows(new.s, new.q)
show(np.argsort(-score.p_s * score.p_q)[:12], "both networks: an event")
show(np.argsort(-np.abs(score.p_s - score.p_q))[:12], "one network alone: noise")

# %%
# The paper does this with MNIST, larger images and longer training; ``coad reproduce mnist`` does it too, and its table stands in
# :doc:`/results/comparison`. Which network is used, and how to bring another: :doc:`t6_your_own`.
