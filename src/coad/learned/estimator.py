"""``CoAD``: two networks trained end to end by F̂β, without labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from coad._typing import ArrayLike, BoolArray
from coad.core.background import BackgroundKind
from coad.learned import dismissal, saving
from coad.learned.detector import DetectorMixin
from coad.learned.fitting import fit_model
from coad.learned.objective import Preset
from coad.learned.training.device import Device
from coad.learned.training.progress import Progress
from coad.learned.training.ranks import Distribution
from coad.learned.training.settings import Augment, Schedule
from coad.learned.training.split import Split

__all__ = ["CoAD"]


class CoAD(DetectorMixin, BaseEstimator):  # type: ignore[misc]
    """Find anomalies that two inputs show at the same time, without labels or a contamination parameter.

    Parameters
    ----------
    beta : float or ascending list of floats
        Weight of recall against precision in F̂β: 0 is precision alone, ``inf`` recall alone. A list trains
        shared networks with one head per β; :meth:`at` gives the detector of one.
    alpha : float or "auto"
        The anomaly rate. "auto" estimates it: the largest TP that a head with β = inf finds.
    net : None, "mnist", "milling", "rf", NetSpec, torch module, function making one, skorch net, or a pair of these
        None chooses from the shapes. A pair is (network of s, network of q).
    n_starts : int
        Trainings from independent random weights; the best by validation F̂ is kept, ``starts_`` lists all.
    ensemble : bool
        Keep every start that agrees with the best one and comes close to its F̂, and score by their mean
        logit: more reliable, and slower by their number. Both thresholds are then set to the exact optimum
        of F̂ on the training rows.
    epochs, batch_size, patience, epoch_size : int, optional
        Chosen from the number of rows if not given. ``epoch_size`` is the number of rows of an epoch.
    lr, schedule : float, {"cosine", "constant"}, optional
        Adam's learning rate and its schedule; "cosine" rises for a tenth of the steps, then falls to 0.
    validation, split : float, {"random", "group", "time"}
        The fraction of rows held out for validation, and which: random rows (stretches of rows where
        neighbouring rows are alike), whole groups (rows with the same ``group`` are kept in one split), or
        the latest rows. Where neighbouring rows are alike, rows next to those held out are not used.
    ordered : bool
        Whether the rows are in time order (of ``time``, if given). Slow inputs that have nothing in common drift
        together now and then, so what is found must also exceed what one input shows when it is moved in time.
        Say False for rows in no order, for instance rows sorted by class.
    scale : bool
        Scale each feature or channel to mean 0 and standard deviation 1, per context.
    augment : function (s, q, generator) -> (s, q), optional
        Applied to every training batch of scaled tensors; must keep the shapes.
    preset : {"robust", "paper"}
        The normalised head with the hinge wall, or the paper's loss and plain head.
    lambda_wall, lambda_mag : float, optional
        Weights of the wall and of the magnitude term, see :class:`~coad.CoincidenceLoss`.
    margin : float, optional
        Standard deviations of a chance coincidence that are subtracted from TP (4; paper: 0). The effect
        decreases with the number of rows.
    jitter : float, optional
        Standard deviation of the noise added to scaled training rows, against overfitting (0.2 for flat rows).
    micro_batch : int, optional
        Rows that are in memory at once; the gradient is still that of the whole batch.
    precision, memory_format : {"auto", "float32", "bfloat16"}, {"auto", "default", "channels_last"}
        "auto" measures which is fastest on this machine.
    device : {"cpu", "cuda", "auto"}
        Where the networks are trained; "auto" takes a GPU if torch sees one. Never run on a GPU, so not the default.
        Saving, loading and scoring are the same for all, and scoring is done on the processor.
    significance : float
        The permutation p-value up to which a coincidence counts as found.
    background : {"independent", "auto", "correlated"}
        How chance is counted once the networks are trained, as for :func:`~coad.select_thresholds`: their loss takes
        inputs for independent, so they also learn what is merely correlated. "auto" measures the correlation of the bulk of
        both confidences on the rows of the fit; ``background_`` says what was found, and why. It suits events that are
        less than a tenth of the rows: more of them lie in the bulk and pass for correlation.
    checkpoint, checkpoint_seconds : path, float, optional
        A folder from which an interrupted ``fit`` resumes, and how often it is written.
    context : CoincidenceModes, optional
        Its regimes become the context of every row; fitted first if it is not.
    distributed : bool, "rows" or "starts"
        Train on all processes of torch's process group: each takes a part of every batch (True or "rows"), or some of
        the starts, and all end with the same model. ``fit`` is called in each, with the same rows and settings.
    verbose : bool
        Show a progress bar.
    random_state : int or Generator, optional
        The same integer gives the same model on the same machine with the same number of threads. With another,
        convolutions add up in another order, and confidences differ by about 1e-5 or, after long training, more.

    >>> rng = np.random.default_rng(0)
    >>> s, q = rng.normal(size=(2, 600, 3))
    >>> s[:60] += 3; q[:60] -= 3
    >>> det = CoAD(epochs=60, n_starts=2, random_state=0).fit(s, q)
    >>> det.predict(s, q)[:60].mean() > 0.9, det.predict(s, q)[60:].mean() < 0.05
    (np.True_, np.True_)
    """

    #: Row numbers that were held out for validation.
    validation_rows_: NDArray[np.int64]
    #: A coincidence that looks like a shared regime is not an event, and is reported as suspect.
    expects_regimes = False
    #: The column names of the training rows, if these were tables.
    names_s_: tuple[str, ...] | None = None
    names_q_: tuple[str, ...] | None = None
    #: How the command line reads files for this model (the text of ``layout.json``), if it was made there.
    layout_: str | None = None

    def __init__(
        self,
        beta: float | Sequence[float] = 1.0,
        *,
        alpha: float | Literal["auto"] = "auto",
        net: Any = None,
        n_starts: int = 4,
        ensemble: bool = False,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        schedule: Schedule | None = None,
        patience: int | None = None,
        epoch_size: int | None = None,
        validation: float = 0.2,
        split: Split = "random",
        ordered: bool = True,
        scale: bool = True,
        augment: Augment | None = None,
        preset: Preset = "robust",
        lambda_wall: float | None = None,
        lambda_mag: float = 0.0,
        margin: float | None = None,
        jitter: float | None = None,
        micro_batch: int | None = None,
        precision: Literal["auto", "float32", "bfloat16"] = "auto",
        memory_format: Literal["auto", "default", "channels_last"] = "auto",
        device: Device = "cpu",
        significance: float = 0.01,
        background: BackgroundKind = "independent",
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 10.0,
        context: Any = None,
        distributed: Distribution = False,
        verbose: bool = False,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.beta = beta
        self.alpha = alpha
        self.net = net
        self.n_starts = n_starts
        self.ensemble = ensemble
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.schedule = schedule
        self.patience = patience
        self.epoch_size = epoch_size
        self.validation = validation
        self.split = split
        self.ordered = ordered
        self.scale = scale
        self.augment = augment
        self.preset = preset
        self.lambda_wall = lambda_wall
        self.lambda_mag = lambda_mag
        self.margin = margin
        self.jitter = jitter
        self.micro_batch = micro_batch
        self.precision = precision
        self.memory_format = memory_format
        self.device = device
        self.significance = significance
        self.background = background
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.context = context
        self.distributed = distributed
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        s: Any,
        q: Any = None,
        *,
        context: Any = None,
        group: ArrayLike | None = None,
        time: ArrayLike | None = None,
        gate: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> CoAD:
        """Train on pairs: row i of ``s`` and row i of ``q`` were recorded at the same time.

        Parameters
        ----------
        s, q
            Shape (n, features), (n, channels, time) or (n, channels, height, width); NumPy, torch, pandas or
            Polars. ``numpy.memmap`` of float32 is read batch by batch. Or one :class:`~coad.data.pairs.Pairs`
            as ``s``, whose context, group and time are used too.
        context
            The operating regime of each row. Coincidence is measured, and the inputs are scaled, within each
            regime; regimes that are not in the training rows are scaled with the pooled mean and deviation.
        group
            Run or batch of each row, for ``split="group"``. Groups may be pieces of one slow series: where neighbouring
            rows are alike, groups that follow each other are held out together, with a gap on both sides.
        time
            Time of each row; without it, rows are taken to be in time order.
        gate
            For s and for q, one number in [0, 1] per row that its confidence is multiplied by throughout the fit: with
            0, that input cannot mark the row. :meth:`confidences` are those of the networks alone; multiply them by
            the gates of the rows.

        Returns
        -------
        CoAD
            This model. With ``checkpoint`` set, an interrupted ``fit`` resumes when it is called again.
        """
        with Progress("preparing", verbose=self.verbose):
            fit_model(self, s, q, context=context, group=group, time=time, gate=gate)
        return self

    def dismiss(self, kind: int, s: Any = None, q: Any = None, *, context: Any = None) -> CoAD:
        """Stop flagging events of one kind.

        Parameters
        ----------
        kind
            Its number, from :func:`coad.events.kinds.find_kinds`.
        s, q, context
            With rows given, α and the thresholds are tuned again without the events of that kind, so that
            rarer kinds are found. See :meth:`refit` for networks that are trained without it.

        Returns
        -------
        CoAD
            This model.
        """
        dismissal.dismiss(self, kind, s, q, context)
        return self

    def is_dismissed(self, s: Any, q: Any = None, context: Any = None) -> BoolArray:
        """Which rows are events of a dismissed kind.

        Parameters
        ----------
        s, q, context
            The rows to score.

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        return dismissal.is_dismissed(self, s, q, context)

    def refit(self, s: Any, q: Any = None, *, context: Any = None) -> CoAD:
        """Train a new model with the same settings on the rows that are of no dismissed kind.

        The networks of this model may have learned little but the dismissed kind; new ones can learn others.
        The new model has no dismissed kinds and may flag some of their events: ask :meth:`is_dismissed` of
        this model about them.

        Parameters
        ----------
        s, q, context
            The training rows, those of the dismissed kinds included.

        Returns
        -------
        CoAD
            The new model.
        """
        return dismissal.refit(self, s, q, context)

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder of safetensors and JSON, for :func:`coad.load`.

        Parameters
        ----------
        folder
            A new folder, or one with a saved model, which is replaced once the new one is complete.
        """
        saving.save(self, Path(folder))

    @classmethod
    def from_facts(
        cls, facts: dict[str, Any], tensors: dict[str, Any], nets: Any = None, **classes: Any
    ) -> CoAD:
        """The model that :meth:`save` wrote, from the content of its files; see :func:`coad.load`."""
        return saving.restore(cls(), facts, tensors, nets, **classes)
