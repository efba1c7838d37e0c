"""Learned standard deviation sigma of a Gaussian policy, for acting and for the losses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.networks.distributions import sampling
from rl_agent.runtime.lazy_torch import torch

__all__ = ["PolicyStd"]

F32 = npt.NDArray[np.float32]


class PolicyStd:
    """Softplus of free parameters plus a lower bound, shared by all states or state-dependent.

    Parameters
    ----------
    size
        Number of action components (A).
    floor
        Constant added to the softplus.
    policies
        Number of policies, each with its own A parameters; row k of the inputs belongs to policy k mod ``policies``.
    of_state
        Whether the network outputs a state-dependent increment to the parameters.

    Attributes
    ----------
    parameters
        Number of free parameters.
    outputs
        Number of network outputs that are added to the parameters, the first ones after the mean.
    """

    def __init__(
        self, size: int, floor: float, policies: int = 1, *, of_state: bool = False
    ) -> None:
        self.size, self.floor, self.policies = size, floor, policies
        self.parameters, self.outputs = policies * size, size if of_state else 0

    def __call__(self, tail: F32, parameters: F32) -> F32:
        """Compute sigma, shape (n, A), or (A,) if it is shared, from the outputs after the mean, shape (n, ...)."""
        free = parameters
        if self.policies > 1:
            free = np.tile(free.reshape(-1, self.size), (len(tail) // self.policies, 1))
        if self.outputs:
            free = free + tail[:, : self.size]
        return sampling.floored_std(free, self.floor)

    def tensor(self, tail: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
        """Compute sigma as a torch graph, always of shape (n, A)."""
        free = parameters.reshape(-1, self.size).repeat(len(tail) // self.policies, 1)
        if self.outputs:
            free = free + tail[:, : self.size]
        return self.floor + torch.nn.functional.softplus(free)

    def slope(self, sigma: F32) -> F32:
        """Compute the derivative of sigma by the parameters: d softplus(x) / dx = 1 - exp(-softplus(x))."""
        return -np.expm1(np.float32(self.floor) - sigma)
