"""The networks of the paper, each with two passes that a test holds equal.

``reference`` is a few lines of torch that autograd differentiates; ``forward`` and ``backward`` are the
same network written out over BLAS and the compiled kernels, several times faster. Both read the same
flat float32 vector of weights, so that the optimiser, checkpoints and snapshots handle one array.

Initialisation (appendix A): hidden weights Glorot-uniform, bound sqrt(6 / (fan_in + fan_out)); output
weights uniform in +-0.1 / sqrt(fan_in), so that the outputs start near zero; biases zero, except the
forget gate's (1, so that a cell starts by remembering; the paper is silent).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rl_agent import kernels
from rl_agent.config import AgentConfig

__all__ = ["LSTM", "MLP", "Network", "make_network"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class Network(ABC):
    """A function from windows of observations to outputs, with its weights kept outside in a flat vector.

    Windows are time-major and end at the step of interest: shape (T, B, S). ``lengths`` says how many
    observations of each window exist (the rest are zeros before the episode began); rows must be
    sorted by descending length.

    Attributes
    ----------
    history
        Steps that the network looks back (0 for a feed-forward one); T = history + 1 for training.
    blocks
        Name and shape of every block of weights, in the order of the flat vector.
    size
        Length of the flat vector.
    state_shape
        Shape of the recurrent state of one agent.
    """

    history: int
    state_shape: tuple[int, ...]

    def __init__(self, inputs: int, outputs: int, blocks: list[tuple[str, tuple[int, ...]]]) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.blocks = blocks
        self.size = sum(math.prod(shape) for _, shape in blocks)

    def views(self, flat: Any) -> dict[str, Any]:
        """Views of the blocks in a flat vector of weights or gradients (NumPy array or torch tensor)."""
        out, offset = {}, 0
        for name, shape in self.blocks:
            end = offset + math.prod(shape)
            out[name] = flat[offset:end].reshape(shape)
            offset = end
        return out

    @abstractmethod
    def initialise(self, rng: np.random.Generator) -> F32:
        """Fresh weights, shape (size,)."""

    @abstractmethod
    def reference(self, weights: torch.Tensor, windows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Outputs of shape (B, outputs) as a graph that autograd differentiates."""

    @abstractmethod
    def tape(self, steps: int, batch: int) -> dict[str, F32]:
        """Arrays that ``forward`` fills and ``backward`` reads, for windows of shape (steps, batch, inputs)."""

    @abstractmethod
    def forward(self, weights: dict[str, F32], windows: F32, lengths: I64, tape: dict[str, F32]) -> F32:
        """Outputs of shape (B, outputs); ``weights`` are ``views`` of the flat vector."""

    @abstractmethod
    def backward(self, weights: dict[str, F32], tape: dict[str, F32], d_outputs: F32, gradient: dict[str, F32]) -> None:
        """Write the gradient of a loss with dL/d(outputs) = ``d_outputs`` into ``gradient`` (views); uses up the tape."""

    @abstractmethod
    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Act: outputs (n, outputs) and next states for one observation per agent, shapes (n, inputs), (n, *state_shape)."""


class MLP(Network):
    """Softsign layers and a linear output layer.

    Parameters
    ----------
    inputs, hidden, outputs
        Widths of the layers.
    """

    history = 0
    state_shape = (0,)

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int) -> None:
        self.widths = (inputs, *hidden, outputs)
        blocks: list[tuple[str, tuple[int, ...]]] = []
        for layer, (fan_in, fan_out) in enumerate(pairwise(self.widths)):
            blocks += [(f"weight{layer}", (fan_in, fan_out)), (f"bias{layer}", (fan_out,))]
        super().__init__(inputs, outputs, blocks)
        self.layers = len(hidden) + 1

    def initialise(self, rng: np.random.Generator) -> F32:
        """Fresh weights by appendix A, shape (size,)."""
        flat = np.zeros(self.size, np.float32)
        w = self.views(flat)
        for layer in range(self.layers):
            _fill(w[f"weight{layer}"], rng, is_output=layer == self.layers - 1)
        return flat

    def reference(self, weights: torch.Tensor, windows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Outputs of the last step of each window, shape (B, outputs)."""
        w = self.views(weights)
        h = windows[-1]
        for layer in range(self.layers - 1):
            h = torch.nn.functional.softsign(h @ w[f"weight{layer}"] + w[f"bias{layer}"])
        return h @ w[f"weight{self.layers - 1}"] + w[f"bias{self.layers - 1}"]

    def tape(self, steps: int, batch: int) -> dict[str, F32]:
        """Activations and their gradients, layer by layer."""
        names = {f"h{n + 1}": width for n, width in enumerate(self.widths[1:])}
        names |= {f"d{n + 1}": width for n, width in enumerate(self.widths[1:-1])}
        return {name: np.empty((batch, width), np.float32) for name, width in names.items()}

    def forward(self, weights: dict[str, F32], windows: F32, lengths: I64, tape: dict[str, F32]) -> F32:
        """Outputs of the last step of each window, shape (B, outputs)."""
        tape["h0"] = windows[-1]
        for layer in range(self.layers):
            y = tape[f"h{layer + 1}"]
            np.matmul(tape[f"h{layer}"], weights[f"weight{layer}"], out=y)
            if layer < self.layers - 1:
                kernels.bias_softsign(y, weights[f"bias{layer}"])
            else:
                kernels.add_bias(y, weights[f"bias{layer}"])
        return tape[f"h{self.layers}"]

    def backward(self, weights: dict[str, F32], tape: dict[str, F32], d_outputs: F32, gradient: dict[str, F32]) -> None:
        """Gradient of the weights from dL/d(outputs), shape (B, outputs)."""
        d = d_outputs
        kernels.column_sums(d, gradient[f"bias{self.layers - 1}"])
        for layer in range(self.layers - 1, -1, -1):
            np.matmul(tape[f"h{layer}"].T, d, out=gradient[f"weight{layer}"])
            if layer > 0:
                below = tape[f"d{layer}"]
                np.matmul(d, weights[f"weight{layer}"].T, out=below)
                kernels.softsign_backward(below, tape[f"h{layer}"], gradient[f"bias{layer - 1}"])
                d = below

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Outputs for one observation per agent; the state is empty."""
        return self.forward(weights, observations[None], np.ones(0, np.int64), self.tape(1, len(observations))), state


class LSTM(Network):
    """Stacked LSTM layers and a linear output layer on the last one, at the last step of the window.

    The gates are i, f, o (sigmoid) and g (tanh): ``c' = f c + i g``, ``h = o tanh(c')``. In training the
    state is zero before the window; while acting it is carried along the episode.

    Parameters
    ----------
    inputs, hidden, outputs
        Widths of the layers.
    window
        Steps of history before the step of interest.
    """

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int, window: int) -> None:
        self.hidden = hidden
        self.history = window
        blocks: list[tuple[str, tuple[int, ...]]] = []
        for layer, (fan_in, width) in enumerate(pairwise((inputs, *hidden))):
            blocks += [(f"input{layer}", (fan_in, 4 * width)), (f"recurrent{layer}", (width, 4 * width))]
            blocks += [(f"bias{layer}", (4 * width,))]
        blocks += [("weight", (hidden[-1], outputs)), ("bias", (outputs,))]
        super().__init__(inputs, outputs, blocks)
        self.state_shape = (2 * sum(hidden),)

    def initialise(self, rng: np.random.Generator) -> F32:
        """Fresh weights by appendix A (each gate is its own layer for Glorot's fan-out), shape (size,)."""
        flat = np.zeros(self.size, np.float32)
        w = self.views(flat)
        for layer, width in enumerate(self.hidden):
            for gate in range(4):
                columns = slice(gate * width, (gate + 1) * width)
                _fill(w[f"input{layer}"][:, columns], rng)
                _fill(w[f"recurrent{layer}"][:, columns], rng)
            w[f"bias{layer}"][width : 2 * width] = 1.0
        _fill(w["weight"], rng, is_output=True)
        return flat

    def reference(self, weights: torch.Tensor, windows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Outputs at the last step of each window, shape (B, outputs)."""
        w = self.views(weights)
        steps, batch, _ = windows.shape
        zeros = [windows.new_zeros(batch, width) for width in self.hidden]
        h, c = list(zeros), list(zeros)
        for t in range(steps):
            begun = (lengths >= steps - t).to(windows.dtype)[:, None]
            x = windows[t]
            for layer in range(len(self.hidden)):
                z = x @ w[f"input{layer}"] + h[layer] @ w[f"recurrent{layer}"] + w[f"bias{layer}"]
                i, f, o, g = z.chunk(4, dim=1)
                c[layer] = (f.sigmoid() * c[layer] + i.sigmoid() * g.tanh()) * begun
                h[layer] = o.sigmoid() * c[layer].tanh() * begun
                x = h[layer]
        return h[-1] @ w["weight"] + w["bias"]

    def tape(self, steps: int, batch: int) -> dict[str, F32]:
        """Gates and states of every step and layer, and scratch for the way back."""
        out: dict[str, F32] = {"outputs": np.empty((batch, self.outputs), np.float32)}
        for layer, width in enumerate(self.hidden):
            out[f"gates{layer}"] = np.empty((steps, batch, 4 * width), np.float32)
            for name in ("c", "tanh_c", "h"):
                out[f"{name}{layer}"] = np.zeros((steps + 1, batch, width), np.float32)
            out[f"dh{layer}"] = np.empty((steps, batch, width), np.float32)
            out[f"work{layer}"] = np.empty((batch, 4 * width), np.float32)
        return out

    def forward(self, weights: dict[str, F32], windows: F32, lengths: I64, tape: dict[str, F32]) -> F32:
        """Outputs at the last step of each window, shape (B, outputs)."""
        steps, batch, _ = windows.shape
        active = np.count_nonzero(lengths[None] >= steps - np.arange(steps)[:, None], axis=1)
        tape["windows"], tape["active"] = windows, active
        below = windows
        for layer in range(len(self.hidden)):
            gates = tape[f"gates{layer}"]
            flat = gates.reshape(steps * batch, -1)
            np.matmul(below.reshape(steps * batch, -1), weights[f"input{layer}"], out=flat)
            kernels.add_bias(flat, weights[f"bias{layer}"])
            state = (tape[f"c{layer}"], tape[f"tanh_c{layer}"], tape[f"h{layer}"])
            kernels.scan_forward(active, weights[f"recurrent{layer}"], gates, *state, tape[f"work{layer}"])
            below = tape[f"h{layer}"][1:]
        np.matmul(below[-1], weights["weight"], out=tape["outputs"])
        kernels.add_bias(tape["outputs"], weights["bias"])
        return tape["outputs"]

    def backward(self, weights: dict[str, F32], tape: dict[str, F32], d_outputs: F32, gradient: dict[str, F32]) -> None:
        """Gradient of the weights from dL/d(outputs), shape (B, outputs), through the whole window."""
        top = len(self.hidden) - 1
        steps, batch, _ = tape["windows"].shape
        np.matmul(tape[f"h{top}"][-1].T, d_outputs, out=gradient["weight"])
        kernels.column_sums(d_outputs, gradient["bias"])
        tape[f"dh{top}"][:-1] = 0.0
        np.matmul(d_outputs, weights["weight"].T, out=tape[f"dh{top}"][-1])
        for layer in range(top, -1, -1):
            width = self.hidden[layer]
            gates, h = tape[f"gates{layer}"], tape[f"h{layer}"]
            recurrent_t = np.ascontiguousarray(weights[f"recurrent{layer}"].T)
            dc = np.zeros((batch, width), np.float32)
            work = tape[f"work{layer}"].reshape(-1)[: batch * width].reshape(batch, width)
            state = (tape[f"c{layer}"], tape[f"tanh_c{layer}"])
            kernels.scan_backward(tape["active"], recurrent_t, gates, *state, tape[f"dh{layer}"], dc, work)
            dz = gates.reshape(steps * batch, 4 * width)
            below = tape["windows"] if layer == 0 else tape[f"h{layer - 1}"][1:]
            np.matmul(below.reshape(steps * batch, -1).T, dz, out=gradient[f"input{layer}"])
            # row 0 of h is the zero state before the window: it has no part in the gradient
            np.matmul(h[1:-1].reshape(-1, width).T, dz[batch:], out=gradient[f"recurrent{layer}"])
            kernels.column_sums(dz, gradient[f"bias{layer}"])
            if layer > 0:
                np.matmul(dz, weights[f"input{layer}"].T, out=tape[f"dh{layer - 1}"].reshape(steps * batch, -1))

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Outputs and next states for one observation per agent; a state is (c, h) of every layer."""
        n, offset = len(observations), 0
        x = observations
        following = np.empty_like(state)
        for layer, width in enumerate(self.hidden):
            c, h = state[:, offset : offset + width], state[:, offset + width : offset + 2 * width]
            gates = x @ weights[f"input{layer}"] + weights[f"bias{layer}"] + h @ weights[f"recurrent{layer}"]
            c_next, tanh_c, h_next = (np.empty((n, width), np.float32) for _ in range(3))
            kernels.cell_forward(gates, np.ascontiguousarray(c), c_next, tanh_c, h_next)
            following[:, offset : offset + width] = c_next
            following[:, offset + width : offset + 2 * width] = h_next
            x = h_next
            offset += 2 * width
        return x @ weights["weight"] + weights["bias"], following


def make_network(config: AgentConfig, inputs: int, outputs: int) -> Network:
    """Build the network that ``config.network`` names."""
    if config.network == "mlp":
        return MLP(inputs, config.hidden_sizes, outputs)
    return LSTM(inputs, config.hidden_sizes, outputs, config.window)


def _fill(block: F32, rng: np.random.Generator, *, is_output: bool = False) -> None:
    """Initialise a block of weights of shape (fan_in, fan_out) by appendix A."""
    fan_in, fan_out = block.shape
    bound = 0.1 / math.sqrt(fan_in) if is_output else math.sqrt(6.0 / (fan_in + fan_out))
    block[:] = rng.uniform(-bound, bound, block.shape)
