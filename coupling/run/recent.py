"""Results of a run's latest episodes, which the progress line, the status and the live page show."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Ended", "Recent", "RecentEpisodes"]

_LEAST_SPAN = 1000  # environment steps
_MOST = 100  # ended episodes


class Ended(NamedTuple):
    """Result of an episode that ended.

    Attributes
    ----------
    step
        Environment steps of the run, over all agents, at its end.
    episode_return, length
        Sum of its rewards, and its number of actions.
    """

    step: int
    episode_return: float
    length: int


class Recent(NamedTuple):
    """Results of the latest episodes.

    Attributes
    ----------
    mean_return, mean_length
        Means over these episodes.
    ended, under_way
        Number of them that ended, and that are still running.
    age
        Environment steps since the end of the first of the ended ones.
    """

    mean_return: float
    mean_length: float
    ended: int
    under_way: int
    age: int


class RecentEpisodes:
    """The latest episodes of a run.

    They are those that ended within one twentieth of the run's steps before the last end, at most a hundred. A running
    episode counts, with its return so far, once it is longer than their mean length: otherwise, the first episodes that
    a policy survives would not be seen before they end.

    Parameters
    ----------
    steps
        Environment steps of the run.
    """

    def __init__(self, steps: int) -> None:
        self._span = max(_LEAST_SPAN, steps // 20)
        self._ended: deque[Ended] = deque(maxlen=_MOST)

    def add(self, episode: Ended) -> None:
        """Add an episode that ended after all those added before."""
        self._ended.append(episode)
        while self._ended[0].step < episode.step - self._span:
            self._ended.popleft()

    def summary(self, step: int, under_way: Sequence[tuple[float, int]]) -> Recent | None:
        """Return the results of the latest episodes; None before the first one has ended.

        Parameters
        ----------
        step
            Environment steps so far.
        under_way
            Return and length so far of the running episodes.
        """
        if not self._ended:
            return None
        mean_length = np.mean([episode.length for episode in self._ended])
        longer = [running for running in under_way if running[1] > mean_length]
        counted = [episode[1:] for episode in self._ended] + longer
        means = np.mean(counted, axis=0)
        age = step - self._ended[0].step
        return Recent(float(means[0]), float(means[1]), len(self._ended), len(longer), age)
