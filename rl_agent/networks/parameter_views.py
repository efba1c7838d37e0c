"""The networks of an algorithm in one flat vector, as functions that autograd can differentiate.

In single precision on a CPU the explicit passes of a network are used, as one node of the graph per network. Otherwise
(on a GPU, and in the double precision of the tests) ``reference`` is used.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rl_agent.networks.network import Network
from rl_agent.networks.passes import Pass
from rl_agent.runtime.lazy_torch import torch

__all__ = ["Arrays", "Parts", "Views"]

F32 = npt.NDArray[np.float32]

Views: TypeAlias = "dict[str, dict[str, torch.Tensor]]"
"""Blocks of weights by the names of network and block."""

Arrays = dict[str, dict[str, F32]]
"""Blocks of weights as NumPy arrays."""


class Parts:
    """Several networks and loose parameters, consecutive in a flat vector.

    Parameters
    ----------
    **parts
        A network or a number of loose parameters for each name.

    Attributes
    ----------
    slices
        Slice of each part in the flat vector.
    size
        Length of the flat vector.
    """

    def __init__(self, **parts: Network | int) -> None:
        self.parts = parts
        self.slices: dict[str, slice] = {}
        self.size = 0
        for name, part in parts.items():
            end = self.size + (part if isinstance(part, int) else part.size)
            self.slices[name] = slice(self.size, end)
            self.size = end
        self._blocks: list[tuple[str, str, tuple[int, ...]]] = []
        for name, part in parts.items():
            blocks = [("", (part,))] if isinstance(part, int) else part.blocks
            self._blocks += [(name, block, shape) for block, shape in blocks]
        self._sizes = [math.prod(shape) for _, _, shape in self._blocks]

    def initialise(self, rng: np.random.Generator) -> F32:
        """Sample initial weights of the networks; loose parameters are zero."""
        return np.concatenate(
            [
                np.zeros(part, np.float32) if isinstance(part, int) else part.initialise(rng)
                for part in self.parts.values()
            ]
        )

    def views(self, weights: torch.Tensor) -> Views:
        """Split a flat vector into the blocks of every network, and the loose parameters (under the name ``""``).

        One split is one node of the graph; a slice per block would sum one full-size gradient per block.
        """
        out: Views = {name: {} for name in self.parts}
        pieces = torch.split(weights, self._sizes)
        for (name, block, shape), piece in zip(self._blocks, pieces, strict=True):
            out[name][block] = piece.view(shape)
        return out

    def arrays(self, weights: F32) -> Arrays:
        """Split a flat NumPy array like ``views``; the blocks are views of it."""
        return {
            name: {"": weights[span]}
            if isinstance(part := self.parts[name], int)
            else part.views(weights[span])
            for name, span in self.slices.items()
        }

    def passes(self, name: str) -> Pass:
        """Create the explicit passes of a network."""
        network = self.parts[name]
        assert isinstance(network, Network)
        return Pass(network)

    def __call__(
        self,
        name: str,
        views: Views,
        windows: torch.Tensor,
        lengths: torch.Tensor,
        actions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute the outputs of a network.

        Parameters
        ----------
        name
            Name of the network.
        views
            Blocks of the weights of all parts.
        windows, lengths
            Windows (T, B, S) with ``lengths`` observations each, in any order.
        actions
            Actions that a critic evaluates, shape (B, A), or several per window, shape (K, B, A).

        Returns
        -------
        Tensor
            Outputs, shape (B, outputs), or (K, B, outputs) for several actions.
        """
        network = self.parts[name]
        assert isinstance(network, Network)
        if actions is not None and actions.ndim == 2:
            return self(name, views, windows, lengths, actions[None])[0]
        if windows.device.type == "cpu" and windows.dtype == torch.float32:
            blocks = [views[name][block] for block, _ in network.blocks]
            from rl_agent.networks.autograd_function import AnalyticGradient

            outputs: torch.Tensor = AnalyticGradient.apply(
                network, windows, lengths, actions, *blocks
            )
            return outputs if actions is None else outputs.view(*actions.shape[:2], -1)
        if actions is None:
            return network.reference(views[name], windows, lengths)
        seen = [_with_action(windows, action) for action in actions]
        return torch.stack([network.reference(views[name], both, lengths) for both in seen])


def _with_action(windows: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Append actions (B, A) to the last observations of windows, and zeros to the earlier ones, for a critic."""
    beside = torch.zeros(
        *windows.shape[:2], action.shape[-1], dtype=windows.dtype, device=windows.device
    )
    return torch.cat([windows, torch.cat([beside[:-1], action[None]])], dim=-1)
