"""Several seeds of one training: finding such runs, their interquartile mean, and its confidence interval.

The interquartile mean leaves out the lowest and the highest quarter, so that one failed or one lucky seed does not
decide; its interval is from the stratified bootstrap (Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of
the Statistical Precipice").
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import bootstrap, trim_mean

from coupling.run.folder import RunFolder

__all__ = ["interquartile_mean", "interval", "name_of", "seeds_of_each"]

_DRAWS = 2000


def interquartile_mean(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the mean without the lowest and the highest quarter; with fewer than four scores, the mean."""
    return trim_mean(scores, 0.25, axis=axis)


def interval(strata: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the 95 % interval of the interquartile mean over all strata by the stratified bootstrap.

    Parameters
    ----------
    strata
        For each task the scores of its seeds, at least two, shape (seeds, ...); seeds are resampled within each task.

    Returns
    -------
    (np.ndarray, np.ndarray)
        Lower and upper end, shape (...). The resampling is the same at every call.
    """

    def statistic(*drawn: np.ndarray, axis: int) -> np.ndarray:
        return interquartile_mean(np.concatenate(drawn, axis=axis), axis=axis)

    found = bootstrap(
        strata,
        statistic,
        axis=0,
        vectorized=True,
        n_resamples=_DRAWS,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)


def seeds_of_each(folders: Sequence[RunFolder]) -> list[list[RunFolder]]:
    """Group runs that differ only in their seed, their name, and where and how fast they ran."""
    groups: dict[str, list[RunFolder]] = {}
    for folder in folders:
        config = folder.config()
        key = config.model_dump_json(
            include={
                "env": True,
                "env_options": True,
                "training_options": True,
                "agent": True,
                "workers": {"agents"},
                "run": {"steps"},
            }
        )
        groups.setdefault(key, []).append(folder)
    return list(groups.values())


def name_of(members: Sequence[RunFolder]) -> str:
    """Return the name of a group of runs: that of a single run, or that of the first run without its seed."""
    first = members[0].path.name
    if len(members) == 1:
        return first
    seed = f"-seed{members[0].config().run.seed}"
    return f"{first.removesuffix(seed)}, {len(members)} seeds"
