"""Networks with the same inputs and separate weights, with the interface of one network."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.networks.network import Network, Several
from rl_agent.runtime.lazy_torch import torch

__all__ = ["Parallel"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class Parallel(Several):
    """Networks whose outputs are concatenated.

    Parameters
    ----------
    *networks
        Networks with the same inputs and history, without action inputs.
    """

    def __init__(self, *networks: Network) -> None:
        self._columns = [slice(*ends) for ends in pairwise(_ends(net.outputs for net in networks))]
        sizes = [net.state_shape[0] for net in networks]
        self._states = [slice(*ends) for ends in pairwise(_ends(sizes))]
        self.state_shape = (sum(sizes),)
        super().__init__("part", networks, sum(net.outputs for net in networks))

    def reference(
        self,
        weights: torch.Tensor | dict[str, torch.Tensor],
        windows: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Compute outputs of shape (B, outputs)."""
        blocks = weights if isinstance(weights, dict) else self.views(weights)
        outputs = [
            network.reference(self._own(blocks, k), windows, lengths)
            for k, network in enumerate(self.networks)
        ]
        return torch.cat(outputs, dim=1)

    def tape(self, steps: int, batch: int, actions: int = 0) -> list[Any]:
        """Allocate the tape of each network."""
        return [network.tape(steps, batch, actions) for network in self.networks]

    def forward(
        self,
        weights: dict[str, F32],
        windows: F32,
        lengths: I64,
        tape: list[Any],
        actions: F32 | None = None,
    ) -> F32:
        """Compute outputs of shape (B, outputs)."""
        outputs = [
            network.forward(self._own(weights, k), windows, lengths, tape[k], actions)
            for k, network in enumerate(self.networks)
        ]
        return np.concatenate(outputs, axis=1)

    def backward(
        self,
        weights: dict[str, F32],
        tape: list[Any],
        lengths: I64,
        d_outputs: F32,
        gradient: dict[str, F32] | None,
        d_actions: F32 | None = None,
    ) -> None:
        """Write the gradient of each network."""
        for k, (network, columns) in enumerate(zip(self.networks, self._columns, strict=True)):
            of = None if gradient is None else self._own(gradient, k)
            d = np.ascontiguousarray(d_outputs[:, columns])
            network.backward(self._own(weights, k), tape[k], lengths, d, of, d_actions)

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Compute outputs and next states of all networks."""
        outputs = np.empty((len(observations), self.outputs), np.float32)
        following = np.empty_like(state)
        for k, (network, columns) in enumerate(zip(self.networks, self._columns, strict=True)):
            own, block = self._own(weights, k), self._states[k]
            outputs[:, columns], following[:, block] = network.step(
                own, observations, np.ascontiguousarray(state[:, block])
            )
        return outputs, following

    def reference_step(
        self, weights: dict[str, torch.Tensor], observations: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute ``step`` as a torch graph."""
        outputs, following = zip(
            *(
                network.reference_step(self._own(weights, k), observations, state[:, block])
                for k, (network, block) in enumerate(zip(self.networks, self._states, strict=True))
            ),
            strict=True,
        )
        return torch.cat(outputs, dim=1), torch.cat(following, dim=1)


def _ends(sizes: Any) -> list[int]:
    """Return the start of each block of these sizes, and the end of the last one."""
    return [0, *accumulate(sizes)]
