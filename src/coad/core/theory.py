"""The paper's theorems as functions: what the optimum of F̂β looks like, and when it switches.

* :func:`best_response`: with p_s held fixed, the optimal p_q is a threshold on w(q) = E[p_s | q].
* :class:`OverlappingSets`, :func:`critical_beta`, :func:`best_set_labels`: anomalies and normal
  data that overlap in both inputs, and the β at which the noisy part is worth flagging.
* :func:`simplified_mnist` and its kin: the observation model of the paper's MNIST experiment.
* :func:`pseudo_target_constants`: the two constants that carry the whole gradient of F̂β.

Everything here is exact arithmetic on probabilities; nothing is sampled.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from coad._typing import ArrayLike, FloatArray
from coad.core.metric import fbeta_hat, fbeta_weights
from coad.core.moments import Moments
from coad.core.validation import check_beta, check_rate
from coad.exceptions import InputError, UndefinedMetricWarning

__all__ = [
    "MNIST_B",
    "MNIST_W",
    "BestResponse",
    "OverlappingSets",
    "PseudoTarget",
    "best_mnist_labels",
    "best_response",
    "best_set_labels",
    "critical_beta",
    "mnist_observation_model",
    "mnist_pair_distribution",
    "pseudo_target_constants",
    "simplified_mnist",
]

#: Frequencies of the digits 0 to 3, and blur of the digits 1 to 3, in the paper's MNIST experiment.
MNIST_W = (0.85, 0.05, 0.05, 0.05)
MNIST_B = (0.0, 0.05, 0.2)

#: Sums of probabilities are compared with 0.5 and 1 up to rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class BestResponse:
    """The p_q that maximises F̂β against a fixed p_s.

    ``p_q`` is 1 where w > ``tau``, ``rho`` where w = ``tau``, 0 below. ``rho`` < 1 happens only
    where the constraint mu_q ≤ 0.5 cuts through a tie. ``moments`` are those of (p_s, p_q).
    """

    p_q: FloatArray
    tau: float
    rho: float
    moments: Moments
    fbeta_hat: float


def best_response(
    w: ArrayLike,
    mu_s: float | None = None,
    *,
    beta: float,
    alpha: float | None = None,
    weight: ArrayLike | None = None,
) -> BestResponse:
    """The exact optimal p_q under mu_q ≤ 0.5, given w(q) = E[p_s | q] for each q.

    ``weight`` is the probability of each q (equal by default). ``mu_s`` is the mean of p_s; it can
    only be the mean of ``w``, which is the default, and a value given is checked against it.

    The optimum is nearly categorical (paper, theorems on near-categorical solutions): flag the q
    with the largest w(q) first, and stop between two distinct values of w or at mu_q = 0.5. There
    are no more candidates than distinct values, so all are tried. Among equals, the one that flags
    least is returned.

    The paper shows that F̂ along a tie is log-convex, so that its maximum is at an end. That step
    needs w ≥ mu_s at the tie, but the conclusion holds below mu_s too. There, with γ = mu_q, the
    derivative of log F̂ is ``u - v1 - v2 - v3``: u = 1/(1 - γ), v1 and v2 are of the form 1/(c - γ),
    v3 of the form 1/(c + γ), all positive. Where it is 0, u = v1 + v2 + v3, so that the second
    derivative ``u² - v1² - v2² + v3²`` is positive: a minimum, never a maximum.

    >>> best = best_response([0.9, 0.8, 0.1, 0.1, 0.1], beta=1, alpha=0.4)
    >>> best.p_q.tolist(), best.tau, best.rho
    ([1.0, 1.0, 0.0, 0.0, 0.0], 0.8, 1.0)
    >>> best = best_response([0.6, 0.0], beta=1, alpha=0.4, weight=[0.8, 0.2])  # a tie across 0.5
    >>> round(best.rho, 4), best.moments.mu_q
    (0.625, 0.5)
    """
    w_q, p = _checked_w(w, weight)
    mean = float(w_q @ p)
    if mu_s is not None and not abs(mu_s - mean) <= 1e-9:
        raise InputError(
            f"mu_s is {mu_s!r}, but the mean of w is {mean:.12g}; leave mu_s out or pass that mean"
        )
    if not 0.0 < mean <= 0.5 + _ROUNDING:
        raise InputError(f"the mean of p_s must lie in (0, 0.5], but it is {mean:.6g}")

    values, place = np.unique(-w_q[p > 0], return_inverse=True)
    values = np.abs(values)  # largest first
    mass = np.bincount(place, p[p > 0])
    mu_q, joint = np.cumsum(mass), np.cumsum(mass * values)
    whole = int(np.searchsorted(mu_q, 0.5 + _ROUNDING, side="right"))
    last, rho = np.arange(whole), np.ones(whole)
    mu_q_tried, joint_tried = mu_q[:whole], joint[:whole]
    room = 0.5 - (mu_q[whole - 1] if whole else 0.0)
    if whole < len(values) and room > _ROUNDING:
        last, rho = np.append(last, whole), np.append(rho, room / mass[whole])
        mu_q_tried = np.append(mu_q_tried, 0.5)
        joint_tried = np.append(joint_tried, (joint[whole - 1] if whole else 0.0) + room * values[whole])

    tried = Moments(1.0, np.full(len(last), mean), mu_q_tried, joint_tried)
    best = int(np.argmax(fbeta_hat(tried, beta=beta, alpha=alpha)))
    tau = float(values[last[best]])
    p_q = np.where(w_q > tau, 1.0, np.where(w_q == tau, rho[best], 0.0))
    moments = Moments(1.0, mean, float(mu_q_tried[best]), float(joint_tried[best]))
    return BestResponse(
        p_q, tau, float(rho[best]), moments, float(fbeta_hat(moments, beta=beta, alpha=alpha))
    )


@dataclass(frozen=True)
class OverlappingSets:
    """Anomalous and normal data that overlap: in s on the set B, in q on the set C.

    ``alpha`` = P(A), the anomalies; ``b_anomalous`` = P(B | A), ``b_normal`` = P(B | Aᶜ), and
    likewise for C. Within A, and within Aᶜ, s and q are independent, so these five numbers fix
    every probability of the paper's theorem on overlapping sets.

    Its conditions, checked here: P(A ∪ B) and P(A ∪ C) ≤ 0.5, P(A \\ B \\ C) > 0, and (without loss
    of generality) P(A \\ B) ≥ P(A \\ C). Of the other two, P(Aᶜ \\ B \\ C) ≥ P(Aᶜ \\ B) P(Aᶜ \\ C) always
    holds under independence, and the last, which amounts to P(B | A) ≥ P(B | Aᶜ), only serves to
    make the switch happen at a finite β; it is not demanded, see :func:`critical_beta`.

    >>> sets = OverlappingSets(alpha=0.1, b_anomalous=0.2, b_normal=0.1, c_anomalous=0.3, c_normal=0.2)
    >>> round(sets.moments((1, 0, 0), (1, 1, 0)).mu_sq, 10)
    0.08
    """

    alpha: float
    b_anomalous: float
    b_normal: float
    c_anomalous: float
    c_normal: float

    def __post_init__(self) -> None:
        for name in ("alpha", "b_anomalous", "b_normal", "c_anomalous", "c_normal"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"{name} is a probability, not {getattr(self, name)!r}")
        check_rate(self.alpha)
        for name, noise in (("B", self.b_normal), ("C", self.c_normal)):
            union = self.alpha + (1.0 - self.alpha) * noise
            if union > 0.5 + _ROUNDING:
                key = f"{name.lower()}_normal"
                raise InputError(f"P(A ∪ {name}) is {union:.6g}, above 0.5; lower alpha or {key} ({noise!r})")
        if self.b_anomalous == 1.0 or self.c_anomalous == 1.0:
            raise InputError(
                "P(A \\ B \\ C) is 0: some anomalies must be clear in both inputs (noise below 1)"
            )
        if self.b_anomalous > self.c_anomalous:
            raise InputError(
                f"P(A \\ B) < P(A \\ C): s is noisier than q for anomalies ({self.b_anomalous!r} > "
                f"{self.c_anomalous!r}); exchange the two inputs"
            )

    def moments(self, labels_s: Sequence[float], labels_q: Sequence[float]) -> Moments:
        """Moments of any labelling: p_s on (A \\ B, B, Aᶜ \\ B) and p_q on (A \\ C, C, Aᶜ \\ C)."""
        s_anomalous, s_normal = _class_means(labels_s, self.b_anomalous, self.b_normal)
        q_anomalous, q_normal = _class_means(labels_q, self.c_anomalous, self.c_normal)
        normal = 1.0 - self.alpha
        return Moments(
            1.0,
            self.alpha * s_anomalous + normal * s_normal,
            self.alpha * q_anomalous + normal * q_normal,
            self.alpha * s_anomalous * q_anomalous + normal * s_normal * q_normal,
        )


def critical_beta(sets: OverlappingSets) -> float:
    """The β from which the noisy part B of input s is flagged (paper, theorem on overlapping sets).

    β² = (P(A \\ B) / P(A)) · D / z, where D = P(B | Aᶜ) P(C | Aᶜ) is the false-positive fraction with
    B flagged and z = P(A) (P(B | A) - D) is what flagging B adds to TP. The formula is the paper's,
    simplified by independence. With z ≤ 0, flagging B never pays and the answer is ``inf``, even at
    β = ``inf``; the paper's last condition rules that out. With B empty there is nothing to decide
    and the answer is 0.

    The lemma behind it says that two solutions tie only if their J and D agree. That is not so: they
    tie at β = β_crit, and all solutions with D = 0 tie at β = 0.

    >>> sets = OverlappingSets(alpha=0.1, b_anomalous=0.2, b_normal=0.1, c_anomalous=0.3, c_normal=0.2)
    >>> round(critical_beta(sets), 4)
    0.9428
    """
    if sets.b_anomalous == 0.0 and sets.b_normal == 0.0:
        return 0.0
    chance = sets.b_normal * sets.c_normal
    gain = sets.alpha * (sets.b_anomalous - chance)
    if gain <= 0.0:
        return math.inf
    return math.sqrt((1.0 - sets.b_anomalous) * chance / gain)


def best_set_labels(
    sets: OverlappingSets, beta: float
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """The labels of s and of q that maximise F̂β, in the order of :meth:`OverlappingSets.moments`.

    What is clear is labelled by its class, C is always flagged, B from the critical β on (a tie at
    β_crit goes to flagging, as in the paper).

    >>> sets = OverlappingSets(alpha=0.1, b_anomalous=0.2, b_normal=0.1, c_anomalous=0.3, c_normal=0.2)
    >>> best_set_labels(sets, beta=0.9), best_set_labels(sets, beta=1.0)
    (((1.0, 0.0, 0.0), (1.0, 1.0, 0.0)), ((1.0, 1.0, 0.0), (1.0, 1.0, 0.0)))
    """
    switch = critical_beta(sets)
    flag_b = check_beta(beta) >= switch and not math.isinf(switch)
    return (1.0, float(flag_b), 0.0), (1.0, 1.0, 0.0)


def simplified_mnist(
    labels: Sequence[float],
    *,
    beta: float,
    alpha: float | None = None,
    w: Sequence[float] = MNIST_W,
    b: Sequence[float] = MNIST_B,
) -> float:
    """F̂β in closed form when all images of a digit are alike and digit i gets p_s = p_q = labels[i].

    With m_k the mean label that class k shows (:func:`mnist_observation_model`), mu_s = mu_q =
    Σ w_k m_k and J = Σ w_k m_k². ``alpha`` is 1 - w_0 by default.

    >>> round(simplified_mnist([0, 1, 1, 0], beta=1), 4)
    0.7667
    """
    frequency, channel = _checked_mnist(w, b)
    y = np.asarray(labels, dtype=np.float64)
    if y.shape != frequency.shape or not ((y >= 0) & (y <= 1)).all():
        raise InputError(f"labels must be {len(frequency)} numbers in [0, 1], one per digit, not {labels!r}")
    shown = channel @ y
    mu, joint = float(frequency @ shown), float(frequency @ shown**2)
    rate = 1.0 - float(frequency[0]) if alpha is None else alpha
    return float(fbeta_hat(Moments(1.0, mu, mu, joint), beta=beta, alpha=rate))


def best_mnist_labels(
    beta: float,
    *,
    alpha: float | None = None,
    w: Sequence[float] = MNIST_W,
    b: Sequence[float] = MNIST_B,
) -> tuple[int, ...]:
    """The 0/1 labels of the digits that maximise F̂β with mu ≤ 0.5, by trying them all.

    >>> [best_mnist_labels(beta) for beta in (0.05, 1, float("inf"))]
    [(0, 1, 0, 0), (0, 1, 1, 0), (0, 1, 1, 1)]
    """
    frequency, channel = _checked_mnist(w, b)
    shown = frequency @ channel
    candidates = [y for y in product((0, 1), repeat=len(frequency)) if 0 < shown @ y <= 0.5 + _ROUNDING]
    if not candidates:
        raise InputError(f"no labelling flags between 0 and half of the images; digit frequencies: {shown}")
    candidates.sort(key=sum)  # among equals, max keeps the first: the one that flags fewest digits
    return max(candidates, key=lambda y: simplified_mnist(y, beta=beta, alpha=alpha, w=w, b=b))


def mnist_observation_model(b: Sequence[float] = MNIST_B) -> FloatArray:
    """Row k: the probabilities of the digits that one input shows for a pair of class k.

    Each input is blurred on its own. Digit i ≥ 1 turns into 0 with probability b_i; 0 turns into
    digit i with probability b_i, for each i, and stays 0 with probability 1 - Σ b_i.

    The paper does not say what "symmetrically" means. This is its wording taken literally; it changes
    the frequencies (digit 3 shows in 21 % of images, not 5 %). It could also mean equal *masses* (0
    turns into i with probability b_i w_i / w_0, which leaves the frequencies as they are). Both give
    the order of the paper's figure: digit 1 alone for small β, then 1 and 2, then all three. They
    differ in where the best labels switch: here at β = 0.136 and 1.545, with equal masses at 0.015
    and 0.116. The paper's trained networks (its table, β = 0.05, 1, ∞) agree with the first only,
    not with two further variants that assign each normal pair one digit to blur into; hence the choice.

    >>> mnist_observation_model((0.0, 0.25))
    array([[0.75, 0.  , 0.25],
           [0.  , 1.  , 0.  ],
           [0.25, 0.  , 0.75]])
    """
    blur = np.asarray(b, dtype=np.float64)
    if blur.ndim != 1 or len(blur) == 0 or not ((blur >= 0) & (blur <= 1)).all():
        raise InputError(f"b must hold one probability per anomalous digit, not {b!r}")
    if blur.sum() > 1.0 + _ROUNDING:
        raise InputError(f"b sums to {blur.sum():.6g}; a normal digit cannot be replaced more than always")
    channel = np.diag(np.concatenate(([max(1.0 - blur.sum(), 0.0)], 1.0 - blur)))
    channel[0, 1:] = channel[1:, 0] = blur
    return channel


def mnist_pair_distribution(w: Sequence[float] = MNIST_W, b: Sequence[float] = MNIST_B) -> FloatArray:
    """Joint probabilities of the two digits shown: row for input s, column for input q.

    >>> table = mnist_pair_distribution()
    >>> table.shape, round(float(table.sum()), 12), round(float(table[0, 0]), 5)
    ((4, 4), 1.0, 0.48025)
    """
    frequency, channel = _checked_mnist(w, b)
    return np.asarray(channel.T @ (frequency[:, None] * channel))


@dataclass(frozen=True)
class PseudoTarget:
    """∂F̂/∂J = ``c1``, ∂F̂/∂mu_s = -``c2_s``, ∂F̂/∂mu_q = -``c2_q``; all three are ≥ 0 if J ≤ mu ≤ 0.5.

    Row by row, n · ∂F̂/∂p_s = c1 p_q - c2_s and n · ∂F̂/∂p_q = c1 p_s - c2_q: each model is pulled
    towards a target that the other one sets.
    """

    c1: float
    c2_s: float
    c2_q: float


def pseudo_target_constants(moments: Moments, *, beta: float, alpha: float | None = None) -> PseudoTarget:
    """The constants of the pseudo-targets (paper, theorem on gradients), from single-stratum moments.

    The paper writes them as F̂ times a bracket that divides by J - mu_s mu_q. That factor of F̂ is
    cancelled here, so the constants are right, and still ≥ 0, where the models are as good as random
    (J = mu_s mu_q) or worse. Where F̂ itself is a stated value (J + αβ² = 0, or mu = 1) they are 0,
    announced by :class:`~coad.exceptions.UndefinedMetricWarning`.

    >>> pseudo_target_constants(Moments.of([1, 1, 0, 0], [1, 0, 0, 0]), beta=0)
    PseudoTarget(c1=2.6666666666666665, c2_s=0.0, c2_q=2.6666666666666665)
    """
    if moments.strata is not None:
        raise InputError("the constants are for moments without context strata; pass moments.pooled()")
    mu_s, mu_q, joint = float(moments.mu_s), float(moments.mu_q), float(moments.mu_sq)
    w_joint, w_alpha = fbeta_weights(check_beta(beta))
    anomalies = check_rate(alpha) if w_alpha > 0 else 0.0
    scale = w_joint * joint + w_alpha * anomalies
    quiet_s, quiet_q = 1.0 - mu_s, 1.0 - mu_q
    if scale <= 0.0 or quiet_s <= 0.0 or quiet_q <= 0.0:
        warnings.warn(
            "F̂ has no gradient here: the constants are set to 0", UndefinedMetricWarning, stacklevel=2
        )
        return PseudoTarget(0.0, 0.0, 0.0)
    slope = w_joint * (mu_s * mu_q - joint**2) + w_alpha * anomalies * (1.0 - 2.0 * joint + mu_s * mu_q)
    marginal = (1.0 - joint) / (scale * quiet_s * quiet_q)
    return PseudoTarget(
        slope / (scale**2 * quiet_s * quiet_q),
        marginal * (mu_q - joint) / quiet_s,
        marginal * (mu_s - joint) / quiet_q,
    )


def _class_means(labels: Sequence[float], noise_anomalous: float, noise_normal: float) -> tuple[float, float]:
    """Mean label within A and within Aᶜ, from the labels of (clear anomalous, noisy, clear normal)."""
    if len(labels) != 3 or not all(0.0 <= label <= 1.0 for label in labels):
        raise InputError(f"labels must be three numbers in [0, 1], not {labels!r}")
    anomalous, noisy, normal = labels
    return (
        (1.0 - noise_anomalous) * anomalous + noise_anomalous * noisy,
        (1.0 - noise_normal) * normal + noise_normal * noisy,
    )


def _checked_w(w: ArrayLike, weight: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    w_q = np.asarray(w, dtype=np.float64)
    if w_q.ndim != 1 or len(w_q) == 0:
        raise InputError(f"w must hold one value per q, but its shape is {w_q.shape}")
    if not ((w_q >= 0) & (w_q <= 1)).all():
        raise InputError("w must lie in [0, 1]: it is the mean of p_s given q")
    if weight is None:
        return w_q, np.full(len(w_q), 1.0 / len(w_q))
    p = np.asarray(weight, dtype=np.float64)
    if p.shape != w_q.shape:
        raise InputError(f"weight has shape {p.shape}, but w has {w_q.shape}; they must match value by value")
    if not (p >= 0).all() or not abs(p.sum() - 1.0) <= 1e-9:
        raise InputError(f"weight must be probabilities that sum to 1, but the sum is {p.sum():.12g}")
    return w_q, p


def _checked_mnist(w: Sequence[float], b: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    frequency, channel = np.asarray(w, dtype=np.float64), mnist_observation_model(b)
    if frequency.shape != (len(channel),):
        raise InputError(
            f"w must hold {len(channel)} frequencies (digit 0, then one per blur in b), not {w!r}"
        )
    if not (frequency >= 0).all() or not abs(frequency.sum() - 1.0) <= 1e-9:
        raise InputError(f"w must be frequencies that sum to 1, but the sum is {frequency.sum():.12g}")
    return frequency, channel
