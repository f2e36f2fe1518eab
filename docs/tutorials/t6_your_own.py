"""
6. Your own detector, your own network
======================================

``coad`` does not need to make the scores. Any two detectors can be joined, one for each input, and any PyTorch module can be trained by
coincidence.
"""

# %%
# Detectors that you trust
# ------------------------
#
# The press line of :doc:`t2_plant_table`: motor signals and vibration, with the product that runs. An isolation forest suits one input, a
# rule that an engineer wrote suits the other. A function from rows to scores is a detector too.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import IsolationForest

import coad
from coad.research.datasets.plant import simulated_plant

plant = simulated_plant(random_state=0)
rows, label = plant.pairs, plant.pairs.label  # the labels judge, at the end


def within_product(x):
    """Columns relative to the median of the product, in units of its spread."""
    result = np.empty_like(x)
    for product in np.unique(plant.product):
        own = plant.product == product
        middle = np.median(x[own], axis=0)
        result[own] = (x[own] - middle) / np.median(np.abs(x[own] - middle), axis=0)
    return result


def loud_and_sharp(x):
    """An engineer's rule: vibration level plus kurtosis, both relative."""
    return x[:, 0] + x[:, 2]


s, q = within_product(rows.s), within_product(rows.q)
detector = coad.CoincidenceThreshold(IsolationForest(random_state=0), loud_and_sharp).fit(s, q)

print(detector.result_.status)
print(detector.result_.message)
flagged = detector.predict(s, q)
print(
    f"{flagged.sum()} rows flagged; by the labels {label[flagged].mean():.0%} of them are events, {flagged[label].mean():.0%} of all"
)

# %%
# Nobody gave a contamination rate, and none of the two detectors has its own threshold any more. ``tune`` takes another ``beta`` without
# fitting the detectors again:

for beta in (0.1, 1, 10):
    flagged = detector.tune(beta=beta).predict(s, q)
    print(f"beta {beta}: {flagged.sum()} rows")

# %%
# Detectors of scikit-learn and PyOD are known: ``coad`` knows which end of their scores is odd, and fits those that are not fitted. Say
# ``orientation="low"`` for a function whose low values are odd.
#
# A network of your own
# ---------------------
#
# ``coad.CoAD`` trains two networks from raw rows. Give ``net=`` a pair: for s and for q, each one of a ready name, a
# ``coad.NetSpec`` (layers as plain data) or a function that makes a torch module with one output, the logit.

import torch
from torch import nn

from coad.research.datasets.synthetic import synthetic_windows

train = synthetic_windows(1500, random_state=0)  # current: dips; vibration: bursts; both at once in 5 %
new = synthetic_windows(1500, random_state=1)


class Spectrum(nn.Module):
    """Power in frequencies, then two layers: bursts ring, wherever they are in the window."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(33, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.layers(torch.log1p(torch.fft.rfft(x[:, 0]).abs()))


model = coad.CoAD(net=(coad.NetSpec(hidden=(32, 8)), Spectrum), n_starts=2, epochs=60, random_state=0)
model.fit(train.s, train.q)

found = model.evaluate(new.s, new.q)
print(
    f"{found.status}: {found.n_joint} of {found.n_rows} windows flagged, {found.precision_hat:.0%} not explained by chance"
)
flagged = model.predict(new.s, new.q)
print(
    f"by the labels: {new.label[flagged].mean():.0%} of them are events, {flagged[new.label].mean():.0%} of all events"
)

# %%
# What the networks say about new windows: events are in the corner where both are sure.

confidence = model.score_rows(new.s, new.q)
fig, ax = plt.subplots(figsize=(5.2, 4.2))
for is_event, name in ((False, "no event"), (True, "event")):
    own = new.label == is_event
    ax.scatter(confidence.p_s[own], confidence.p_q[own], s=8, alpha=0.5, label=name)
ax.set(
    xlabel="p_s, from the current", ylabel="p_q, from the vibration", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02)
)
ax.legend(loc="center")
plt.show()

# %%
# A training loop of your own
# ---------------------------
#
# ``coad.CoincidenceLoss`` is the objective alone: logits of both networks in, a loss out. Use large batches; the loss compares how often both are
# high with how often chance would have it.

torch.manual_seed(0)
net_s, net_q = nn.Linear(64, 1), Spectrum()
loss = coad.CoincidenceLoss(beta=1.0, alpha=0.05)
optimiser = torch.optim.Adam([*net_s.parameters(), *net_q.parameters()], lr=0.01)
x_s, x_q = (torch.as_tensor(x, dtype=torch.float32) for x in (train.s, train.q))
for step in range(3):
    optimiser.zero_grad()
    value = loss(net_s(x_s[:, 0]).squeeze(-1), net_q(x_q).squeeze(-1))
    value.backward()
    optimiser.step()
    print(f"step {step}: loss {value.item():.3f}")
