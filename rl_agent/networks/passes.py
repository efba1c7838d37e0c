"""Explicit forward and backward passes of a network over successive batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.networks.network import Network

__all__ = ["Pass"]

F32 = npt.NDArray[np.float32]


class Pass:
    """Forward and backward pass of a network on the host, with a tape that is reused between batches.

    Parameters
    ----------
    network
        The network; its weights are passed with every batch.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._shape = (0, 0, 0)
        self._tape: Any = None

    def forward(
        self,
        weights: dict[str, F32],
        windows: F32,
        lengths: npt.NDArray[np.int64],
        actions: F32 | None = None,
    ) -> F32:
        """Compute the outputs (``Network.forward``)."""
        shape = len(windows), windows.shape[1], 0 if actions is None else len(actions)
        if shape != self._shape:
            self._tape, self._shape = self.network.tape(*shape), shape
        self._weights, self._lengths = weights, lengths
        return self.network.forward(weights, windows, lengths, self._tape, actions)

    def backward(
        self, d_outputs: F32, gradient: dict[str, F32] | None, d_actions: F32 | None = None
    ) -> None:
        """Write the gradients of the last ``forward`` (``Network.backward``)."""
        self.network.backward(
            self._weights, self._tape, self._lengths, d_outputs, gradient, d_actions
        )
