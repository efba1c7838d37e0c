"""A separate network for each agent of an environment, with the interface of one network."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.networks.network import Network, Several
from rl_agent.runtime.lazy_torch import torch

__all__ = ["PerAgent"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class PerAgent(Several):
    """N networks of one kind: row k of the inputs goes through network k mod N.

    The rows must be those of whole environments, with the agents of an environment adjacent
    (``rl_agent/multi_agent/cooperation.py``).

    Parameters
    ----------
    kind
        Architecture of each network; it has no action inputs.
    count
        Number of networks (N).
    """

    def __init__(self, kind: Network, count: int) -> None:
        self.kind, self.count = kind, count
        self.state_shape = kind.state_shape
        super().__init__("agent", [kind] * count, kind.outputs)

    def reference(
        self,
        weights: torch.Tensor | dict[str, torch.Tensor],
        windows: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Compute outputs of shape (B, outputs)."""
        blocks = weights if isinstance(weights, dict) else self.views(weights)
        outputs = [
            self.kind.reference(
                self._own(blocks, k), windows[:, k :: self.count], lengths[k :: self.count]
            )
            for k in range(self.count)
        ]
        return torch.stack(outputs, dim=1).reshape(-1, self.outputs)

    def tape(self, steps: int, batch: int, actions: int = 0) -> list[Any]:
        """Allocate the tape of each network."""
        return [self.kind.tape(steps, batch // self.count, actions) for _ in range(self.count)]

    def forward(
        self,
        weights: dict[str, F32],
        windows: F32,
        lengths: I64,
        tape: Any,
        actions: F32 | None = None,
    ) -> F32:
        """Compute outputs of shape (B, outputs)."""
        outputs = np.empty((windows.shape[1], self.outputs), np.float32)
        for k, own in enumerate(tape):
            seen = np.ascontiguousarray(windows[:, k :: self.count])
            outputs[k :: self.count] = self.kind.forward(
                self._own(weights, k), seen, lengths[k :: self.count], own, actions
            )
        return outputs

    def backward(
        self,
        weights: dict[str, F32],
        tape: Any,
        lengths: I64,
        d_outputs: F32,
        gradient: dict[str, F32] | None,
        d_actions: F32 | None = None,
    ) -> None:
        """Write the gradient of each network."""
        for k, own in enumerate(tape):
            d = np.ascontiguousarray(d_outputs[k :: self.count])
            of = None if gradient is None else self._own(gradient, k)
            self.kind.backward(
                self._own(weights, k), own, lengths[k :: self.count], d, of, d_actions
            )

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Compute outputs and next states, each network for its own rows."""
        outputs = np.empty((len(observations), self.outputs), np.float32)
        following = np.empty_like(state)
        for k in range(self.count):
            block = slice(k, None, self.count)
            outputs[block], following[block] = self.kind.step(
                self._own(weights, k),
                np.ascontiguousarray(observations[block]),
                np.ascontiguousarray(state[block]),
            )
        return outputs, following

    def reference_step(
        self, weights: dict[str, torch.Tensor], observations: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute ``step`` as a torch graph."""
        observed, states = (x.unflatten(0, (-1, self.count)) for x in (observations, state))
        pairs = [
            self.kind.reference_step(self._own(weights, k), observed[:, k], states[:, k])
            for k in range(self.count)
        ]
        outputs, following = zip(*pairs, strict=True)
        return torch.stack(outputs, dim=1).flatten(0, 1), torch.stack(following, dim=1).flatten(
            0, 1
        )
