"""Feed-forward networks."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from rl_agent.networks import kernels
from rl_agent.networks.network import Network, beside, fill_glorot, fill_near_zero
from rl_agent.runtime.lazy_torch import torch

__all__ = ["MLP"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class MLP(Network):
    """Multilayer perceptron with a linear output layer, on the last observations of a window.

    The observations are stacked, the oldest first; those before the beginning of an episode are zero. While acting, the
    state of an agent is its previous observations, so that the stack is the same as in training.

    Parameters
    ----------
    inputs, hidden, outputs
        Widths of the layers; ``inputs`` counts those of the last step, including the actions of a critic.
    activation
        ``softsign``, ``relu`` or ``tanh``.
    history
        Number of observations stacked before the last one.
    actions
        Number of inputs that are a critic's actions, which exist only for the last step.
    """

    def __init__(
        self,
        inputs: int,
        hidden: tuple[int, ...],
        outputs: int,
        activation: Literal["softsign", "relu", "tanh"] = "softsign",
        history: int = 0,
        actions: int = 0,
    ) -> None:
        self.activation, self.history = activation, history
        self._frame = inputs - actions
        self.state_shape = (history * self._frame,)
        self.widths = (self.state_shape[0] + inputs, *hidden, outputs)
        blocks: list[tuple[str, tuple[int, ...]]] = []
        for layer, (fan_in, fan_out) in enumerate(pairwise(self.widths)):
            blocks += [(f"weight{layer}", (fan_in, fan_out)), (f"bias{layer}", (fan_out,))]
        super().__init__(inputs, outputs, blocks)
        self.layers = len(hidden) + 1

    def initialise(self, rng: np.random.Generator) -> F32:
        """Sample initial weights by appendix A, shape (size,)."""
        flat = np.zeros(self.size, np.float32)
        w = self.views(flat)
        for layer in range(self.layers):
            if layer < self.layers - 1:
                fill_glorot(w[f"weight{layer}"], rng)
            else:
                fill_near_zero(w[f"weight{layer}"], self.widths[-2], rng)
        return flat

    def reference(
        self,
        weights: torch.Tensor | dict[str, torch.Tensor],
        windows: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Compute outputs at the last step of each window, shape (B, outputs)."""
        w = weights if isinstance(weights, dict) else self.views(weights)
        h = windows[-1]
        if self.history:
            past = windows[-1 - self.history : -1, :, : self._frame].transpose(0, 1)
            h = torch.cat([past.flatten(1), h], dim=1)
        activate = {
            "softsign": torch.nn.functional.softsign,
            "relu": torch.relu,
            "tanh": torch.tanh,
        }[self.activation]
        for layer in range(self.layers - 1):
            h = activate(torch.addmm(w[f"bias{layer}"], h, w[f"weight{layer}"]))
        return torch.addmm(w[f"bias{self.layers - 1}"], h, w[f"weight{self.layers - 1}"])

    def tape(self, steps: int, batch: int, actions: int = 0) -> dict[str, F32]:
        """Allocate activations and their gradients, layer by layer."""
        rows = batch * max(actions, 1)
        names = {f"h{n + 1}": width for n, width in enumerate(self.widths[1:])}
        names |= {f"d{n + 1}": width for n, width in enumerate(self.widths[1:-1])}
        return {name: np.empty((rows, width), np.float32) for name, width in names.items()}

    def forward(
        self,
        weights: dict[str, F32],
        windows: F32,
        lengths: I64,
        tape: dict[str, F32],
        actions: F32 | None = None,
    ) -> F32:
        """Compute outputs at the last step of each window, shape (B, outputs), or (K B, outputs) with actions."""
        tape["h0"] = self._stacked(windows, actions)
        for layer in range(self.layers):
            y, bias = tape[f"h{layer + 1}"], weights[f"bias{layer}"]
            np.matmul(tape[f"h{layer}"], weights[f"weight{layer}"], out=y)
            if layer == self.layers - 1 or self.activation == "tanh":
                kernels.add_bias(y, bias)
            else:
                (kernels.bias_softsign if self.activation == "softsign" else kernels.bias_relu)(
                    y, bias
                )
            if layer < self.layers - 1 and self.activation == "tanh":
                np.tanh(y, out=y)
        return tape[f"h{self.layers}"]

    def _stacked(self, windows: F32, actions: F32 | None) -> F32:
        """Stack the observations of windows, and the actions; shape (B, inputs), or (K B, inputs) with actions."""
        last = windows[-1] if actions is None else beside(windows[-1], actions)
        if self.history == 0:
            return last
        past = windows[-1 - self.history : -1].transpose(1, 0, 2)
        past = past.reshape(windows.shape[1], *self.state_shape)
        copies = 1 if actions is None else len(actions)
        return np.concatenate([np.tile(past, (copies, 1)), last], axis=1)

    def backward(
        self,
        weights: dict[str, F32],
        tape: dict[str, F32],
        lengths: I64,
        d_outputs: F32,
        gradient: dict[str, F32] | None,
        d_actions: F32 | None = None,
    ) -> None:
        """Write the gradients from dL/d(outputs)."""
        d = d_outputs
        if gradient is not None:
            kernels.column_sums(d, gradient[f"bias{self.layers - 1}"])
        for layer in range(self.layers - 1, -1, -1):
            weight = weights[f"weight{layer}"]
            if gradient is not None:
                np.matmul(tape[f"h{layer}"].T, d, out=gradient[f"weight{layer}"])
            if layer > 0:
                below = np.matmul(d, weight.T, out=tape[f"d{layer}"])
                h = tape[f"h{layer}"]
                bias = (
                    np.empty(self.widths[layer], np.float32)
                    if gradient is None
                    else gradient[f"bias{layer - 1}"]
                )
                if self.activation == "tanh":
                    below *= 1.0 - h * h
                    kernels.column_sums(below, bias)
                else:
                    back = (
                        kernels.softsign_backward
                        if self.activation == "softsign"
                        else kernels.relu_backward
                    )
                    back(below, h, bias)
                d = below
            elif d_actions is not None:
                np.matmul(d, weight[-d_actions.shape[2] :].T, out=d_actions.reshape(len(d), -1))

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Compute outputs and next states for one observation per agent; a state is the previous observations."""
        n, tape = len(observations), self.tape(1, len(observations))
        past = state.reshape(n, self.history, self._frame).transpose(1, 0, 2)
        windows = np.concatenate([past, observations[None]])
        outputs = self.forward(weights, windows, np.ones(0, np.int64), tape)
        following = windows[1:].transpose(1, 0, 2).reshape(n, *self.state_shape)
        return outputs, following if self.history else state

    def reference_step(
        self, weights: dict[str, torch.Tensor], observations: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute ``step`` as a torch graph."""
        past = state.unflatten(1, (self.history, self._frame)) if self.history else None
        if past is None:
            return self.reference(weights, observations[None], observations), state
        windows = torch.cat([past, observations[:, None]], dim=1).transpose(0, 1)
        return self.reference(weights, windows, observations), windows[1:].transpose(0, 1).flatten(
            1
        )
