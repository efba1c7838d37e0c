"""The learned standard deviation sigma of a Gaussian policy, to act by and for a loss."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.networks.distributions import sampling
from rl_agent.runtime.lazy_torch import torch

__all__ = ["PolicyStd"]

F32 = npt.NDArray[np.float32]


class PolicyStd:
    """A softplus of free parameters above a floor, shared by all states or with a share of each.

    Parameters
    ----------
    size
        Components of an action (A).
    floor
        What is added to the softplus.
    policies
        Number of policies, each with A parameters of its own; row k of whatever comes is of policy k mod ``policies``.
    of_state
        Whether the network gives what is added to the parameters in a state.

    Attributes
    ----------
    parameters
        Number of free parameters.
    outputs
        Number of outputs of the network that are added to them, the first ones behind the mean.
    """

    def __init__(
        self, size: int, floor: float, policies: int = 1, *, of_state: bool = False
    ) -> None:
        self.size, self.floor, self.policies = size, floor, policies
        self.parameters, self.outputs = policies * size, size if of_state else 0

    def __call__(self, tail: F32, parameters: F32) -> F32:
        """Compute sigma from outputs behind the mean, shape (n, ...): shape (n, A), or (A,) if it is one for all."""
        free = parameters
        if self.policies > 1:
            free = np.tile(free.reshape(-1, self.size), (len(tail) // self.policies, 1))
        if self.outputs:
            free = free + tail[:, : self.size]
        return sampling.floored_std(free, self.floor)

    def tensor(self, tail: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
        """Compute the same as a graph, always of shape (n, A)."""
        free = parameters.reshape(-1, self.size).repeat(len(tail) // self.policies, 1)
        if self.outputs:
            free = free + tail[:, : self.size]
        return self.floor + torch.nn.functional.softplus(free)

    def slope(self, sigma: F32) -> F32:
        """Slope of sigma by the parameters: d softplus(x) / dx = 1 - exp(-softplus(x))."""
        return -np.expm1(np.float32(self.floor) - sigma)
