"""What a run's latest episodes came to: the return that the progress line, the status and the live page show."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Ended", "Recent", "RecentEpisodes"]

_LEAST_SPAN = 1000  # environment steps
_MOST = 100  # episodes that ended


class Ended(NamedTuple):
    """An episode that ended.

    Attributes
    ----------
    step
        Environment steps of the run, over all agents, when it did.
    episode_return, length
        Sum of its rewards, and its number of actions.
    """

    step: int
    episode_return: float
    length: int


class Recent(NamedTuple):
    """What the latest episodes came to.

    Attributes
    ----------
    mean_return, mean_length
        Means over them.
    ended, under_way
        How many of them ended, and how many are under way.
    age
        Environment steps since the first of those that ended did.
    """

    mean_return: float
    mean_length: float
    ended: int
    under_way: int
    age: int


class RecentEpisodes:
    """The latest episodes of a run.

    Those that ended in the twentieth of the run's steps before the last end count, a hundred at most. An episode under
    way counts, with its return so far, once it is longer than their mean: episodes that a policy survives for the first
    time would otherwise not be seen before they end.

    Parameters
    ----------
    steps
        Environment steps of the run.
    """

    def __init__(self, steps: int) -> None:
        self._span = max(_LEAST_SPAN, steps // 20)
        self._ended: deque[Ended] = deque(maxlen=_MOST)

    def add(self, episode: Ended) -> None:
        """Note an episode that ended after all that were noted before."""
        self._ended.append(episode)
        while self._ended[0].step < episode.step - self._span:
            self._ended.popleft()

    def summary(self, step: int, under_way: Sequence[tuple[float, int]]) -> Recent | None:
        """Return what the latest episodes came to; None before the first end.

        Parameters
        ----------
        step
            Environment steps so far.
        under_way
            Return and length so far of the episodes that are under way.
        """
        if not self._ended:
            return None
        mean_length = np.mean([episode.length for episode in self._ended])
        longer = [running for running in under_way if running[1] > mean_length]
        counted = [episode[1:] for episode in self._ended] + longer
        means = np.mean(counted, axis=0)
        age = step - self._ended[0].step
        return Recent(float(means[0]), float(means[1]), len(self._ended), len(longer), age)
