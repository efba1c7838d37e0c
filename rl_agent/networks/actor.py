"""The acting part of an algorithm: a network, and the interpretation of its outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rl_agent.networks import Network
from rl_agent.networks.distributions import sampling
from rl_agent.runtime.lazy_torch import torch

__all__ = ["Acting", "Actor", "Head", "categorical_head", "gaussian_head"]

F32 = npt.NDArray[np.float32]


class Head(NamedTuple):
    """Interpretation of the outputs of a policy network.

    Attributes
    ----------
    statistics
        Maps the network's outputs (n, O) and the loose parameters to V (n,) and the statistics of the policy.
    mode
        Maps the outputs to the mean of a Gaussian policy (n, A), or to scores of discrete actions (n, K), the largest
        for the most likely action, as a torch graph.
    """

    statistics: Callable[[F32, F32], tuple[F32, F32, F32]]
    mode: Callable[[torch.Tensor], torch.Tensor]


def gaussian_head(size: int, std: Callable[[F32, F32], F32], *, has_value: bool = False) -> Head:
    """Create the head of a Gaussian policy whose mean is an output.

    Parameters
    ----------
    size
        Number of action components (A).
    std
        Maps the outputs after the mean, shape (n, ...), and the loose parameters to the standard deviation.
    has_value
        Whether the first output is V(s).
    """
    first = int(has_value)

    def statistics(outputs: F32, loose: F32) -> tuple[F32, F32, F32]:
        mean, tail = outputs[:, first : first + size], outputs[:, first + size :]
        return _value(outputs, has_value), mean, std(tail, loose)

    return Head(statistics, lambda outputs: outputs[:, first : first + size])


def categorical_head(
    choices: int, *, has_value: bool = False, has_temperature: bool = False
) -> Head:
    """Create the head of a policy of discrete actions whose logits are outputs.

    The logits are minus the energies of a Boltzmann distribution (Weber et al. 2022, appendix A).

    Parameters
    ----------
    choices
        Number of actions (K).
    has_value
        Whether the first output is V(s).
    has_temperature
        Whether the output after the logits is (before a softplus) the inverse temperature that multiplies them;
        otherwise it is 1.
    """
    first = int(has_value)

    def statistics(outputs: F32, loose: F32) -> tuple[F32, F32, F32]:
        logits, tail = outputs[:, first : first + choices], outputs[:, first + choices :]
        if has_temperature:
            logits = (logits * sampling.softplus(tail)).astype(np.float32)
        nothing = np.zeros((len(outputs), 0), np.float32)
        return _value(outputs, has_value), sampling.softmax(logits), nothing

    return Head(statistics, lambda outputs: outputs[:, first : first + choices])


def _value(outputs: F32, has_value: bool) -> F32:
    return outputs[:, 0] if has_value else np.zeros(len(outputs), np.float32)


class Acting(NamedTuple):
    """Output of an actor for n observations.

    Attributes
    ----------
    value
        V(s), shape (n,); zero if the acting network has no value output.
    mean, std
        Statistics of the policy: for a Gaussian, shapes (n, A) and (n, A) or (A,); for discrete actions the
        probabilities, shape (n, K), and an empty array, shape (n, 0).
    state
        The next recurrent states.
    """

    value: F32
    mean: F32
    std: F32
    state: F32


class Actor:
    """A policy as a function of weights and observations.

    Parameters
    ----------
    network
        The policy network; its weights come first in the algorithm's flat vector.
    loose
        Number of further parameters of the policy that follow them (such as those of a shared sigma).
    head
        Interpretation of the outputs.
    noise
        Number of weights, the last ones of the network, that hold the noise used for acting while learning.
    explores
        Whether the loose parameters only add exploration, none of it if they are zero.

    Attributes
    ----------
    size
        Number of weights of the policy, the first ones in the flat vector.
    """

    def __init__(
        self,
        network: Network,
        loose: int,
        head: Head,
        noise: int = 0,
        *,
        explores: bool = False,
    ) -> None:
        self.network, self.head = network, head
        self._explores = explores
        self._noise = slice(network.size - noise, network.size)
        self.size = network.size + loose

    def at_rest(self, weights: F32) -> F32:
        """Return a copy of the policy's weights with the noise set to zero."""
        still = weights[: self.size].copy()
        still[self._noise] = 0.0
        return still

    def without_exploration(self, weights: F32) -> F32:
        """Return the policy's weights (from ``at_rest``) for deterministic actions."""
        if not self._explores:
            return weights
        still = weights.copy()
        still[self.network.size :] = 0.0
        return still

    def reference_mode(
        self, weights: torch.Tensor, observations: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the policy's mode (see :class:`Head`) and the next states as a torch graph."""
        views = self.network.views(weights[: self.network.size])
        outputs, following = self.network.reference_step(views, observations, state)
        return self.head.mode(outputs), following

    def bind(self, weights: F32) -> Callable[[F32, F32], Acting]:
        """Return a function of observations (n, S) and states that acts with ``weights``, a view of them."""
        views = self.network.views(weights[: self.network.size])
        loose = weights[self.network.size : self.size]

        def act(observations: F32, state: F32) -> Acting:
            outputs, following = self.network.step(views, observations, state)
            return Acting(*self.head.statistics(outputs, loose), following)

        return act
