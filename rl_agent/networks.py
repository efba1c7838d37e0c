"""The networks of the paper, each with two passes that a test holds equal.

``reference`` is a few lines of torch that autograd differentiates; ``forward`` and ``backward`` are the
same network written out over BLAS and the compiled kernels, several times faster. Both read the same
flat float32 vector of weights, so that the optimiser, checkpoints and snapshots handle one array.

A critic reads actions beside the observations: its ``inputs`` are S + A, and it may be given several actions for each
window. They stand beside the last observation of the window, zeros beside the earlier ones, so that an LSTM reads the
window up to its last step once for all of them.

Initialisation (appendix A): hidden weights Glorot-uniform, bound sqrt(6 / (fan_in + fan_out)); output
weights uniform in +-0.1 / sqrt(fan_in), so that the outputs start near zero; biases zero, except the
forget gate's (1, so that a cell starts by remembering; the paper is silent).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from rl_agent import kernels
from rl_agent.config import AgentConfig

__all__ = ["LSTM", "MLP", "Network", "WindowLSTM", "make_network"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class Network(ABC):
    """A function from windows of observations to outputs, with its weights kept outside in a flat vector.

    Windows are time-major and end at the step of interest: shape (T, B, S). ``lengths`` says how many
    observations of each window exist (the rest are zeros before the episode began); rows must be
    sorted by descending length. A critic gets K actions for every window, shape (K, B, A), with A = inputs - S; its
    outputs have K B rows, those of the first actions first.

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
        """Split into blocks a flat vector of weights or gradients (NumPy array or torch tensor)."""
        out, offset = {}, 0
        for name, shape in self.blocks:
            end = offset + math.prod(shape)
            out[name] = flat[offset:end].reshape(shape)
            offset = end
        return out

    @abstractmethod
    def initialise(self, rng: np.random.Generator) -> F32:
        """Draw fresh weights, shape (size,)."""

    @abstractmethod
    def reference(
        self, weights: torch.Tensor | dict[str, torch.Tensor], windows: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Compute outputs of shape (B, outputs) as a graph that autograd differentiates.

        ``weights`` are flat, or the views of a flat vector; a critic's windows (T, B, inputs) hold the actions.
        """

    @abstractmethod
    def tape(self, steps: int, batch: int, actions: int = 0) -> dict[str, F32]:
        """Allocate what ``forward`` fills and ``backward`` reads, for windows (steps, batch, S) and K actions each."""

    @abstractmethod
    def forward(
        self, weights: dict[str, F32], windows: F32, lengths: I64, tape: dict[str, F32], actions: F32 | None = None
    ) -> F32:
        """Compute outputs of shape (B, outputs), a critic's (K B, outputs); ``weights`` are ``views``."""

    @abstractmethod
    def backward(
        self,
        weights: dict[str, F32],
        tape: dict[str, F32],
        lengths: I64,
        d_outputs: F32,
        gradient: dict[str, F32] | None,
        d_actions: F32 | None = None,
    ) -> None:
        """Write the gradient of a loss with dL/d(outputs) ``d_outputs``; uses up the tape.

        Parameters
        ----------
        weights, tape, lengths
            As in ``forward``.
        d_outputs
            Shape of the outputs.
        gradient
            Written: dL/d(weights), ``views`` of a flat vector. Left out where it is ``None``.
        d_actions
            Written: dL/d(actions) of a critic, shape (K, B, A). Left out where it is ``None``.
        """

    @abstractmethod
    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Act: outputs (n, outputs) and next states for observations (n, inputs), states (n, state_shape)."""


class MLP(Network):
    """Hidden layers of one activation and a linear output layer.

    Parameters
    ----------
    inputs, hidden, outputs
        Widths of the layers.
    activation
        ``softsign``, ``relu`` or ``tanh``.
    """

    history = 0
    state_shape = (0,)

    def __init__(
        self,
        inputs: int,
        hidden: tuple[int, ...],
        outputs: int,
        activation: Literal["softsign", "relu", "tanh"] = "softsign",
    ) -> None:
        self.activation = activation
        self.widths = (inputs, *hidden, outputs)
        blocks: list[tuple[str, tuple[int, ...]]] = []
        for layer, (fan_in, fan_out) in enumerate(pairwise(self.widths)):
            blocks += [(f"weight{layer}", (fan_in, fan_out)), (f"bias{layer}", (fan_out,))]
        super().__init__(inputs, outputs, blocks)
        self.layers = len(hidden) + 1

    def initialise(self, rng: np.random.Generator) -> F32:
        """Draw fresh weights by appendix A, shape (size,)."""
        flat = np.zeros(self.size, np.float32)
        w = self.views(flat)
        for layer in range(self.layers):
            if layer < self.layers - 1:
                _glorot(w[f"weight{layer}"], rng)
            else:
                _near_zero(w[f"weight{layer}"], self.widths[-2], rng)
        return flat

    def reference(
        self, weights: torch.Tensor | dict[str, torch.Tensor], windows: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Compute outputs at the last step of each window, shape (B, outputs)."""
        w = weights if isinstance(weights, dict) else self.views(weights)
        h = windows[-1]
        activate = {"softsign": torch.nn.functional.softsign, "relu": torch.relu, "tanh": torch.tanh}[self.activation]
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
        self, weights: dict[str, F32], windows: F32, lengths: I64, tape: dict[str, F32], actions: F32 | None = None
    ) -> F32:
        """Compute outputs at the last step of each window, shape (B, outputs), a critic's (K B, outputs)."""
        tape["h0"] = windows[-1] if actions is None else _beside(windows[-1], actions)
        for layer in range(self.layers):
            y, bias = tape[f"h{layer + 1}"], weights[f"bias{layer}"]
            np.matmul(tape[f"h{layer}"], weights[f"weight{layer}"], out=y)
            if layer == self.layers - 1 or self.activation == "tanh":
                kernels.add_bias(y, bias)
            else:
                (kernels.bias_softsign if self.activation == "softsign" else kernels.bias_relu)(y, bias)
            if layer < self.layers - 1 and self.activation == "tanh":
                np.tanh(y, out=y)
        return tape[f"h{self.layers}"]

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
                bias = np.empty(self.widths[layer], np.float32) if gradient is None else gradient[f"bias{layer - 1}"]
                if self.activation == "tanh":
                    below *= 1.0 - h * h
                    kernels.column_sums(below, bias)
                else:
                    back = kernels.softsign_backward if self.activation == "softsign" else kernels.relu_backward
                    back(below, h, bias)
                d = below
            elif d_actions is not None:
                np.matmul(d, weight[-d_actions.shape[2] :].T, out=d_actions.reshape(len(d), -1))

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Act for one observation per agent; the state is empty."""
        return self.forward(weights, observations[None], np.ones(0, np.int64), self.tape(1, len(observations))), state


class LSTM(Network):
    """Stacked LSTM layers and a linear output layer on the last one, at the last step of the window.

    The gates are i, f, o (sigmoid) and g (tanh): ``c' = f c + i g``, ``h = o tanh(c')``. In training the
    state is zero before the window; while acting it is carried along the episode. A layer's weight maps
    [input, h, 1] to its four gates.

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
            blocks.append((f"cell{layer}", (4 * width, fan_in + width + 1)))
        blocks += [("weight", (outputs, hidden[-1])), ("bias", (outputs,))]
        super().__init__(inputs, outputs, blocks)
        self.state_shape = (2 * sum(hidden),)

    def initialise(self, rng: np.random.Generator) -> F32:
        """Draw fresh weights by appendix A (input and state of each gate count as layers of their own)."""
        flat = np.zeros(self.size, np.float32)
        w = self.views(flat)
        for layer, (fan_in, width) in enumerate(pairwise((self.inputs, *self.hidden))):
            for gate in range(4):
                rows = w[f"cell{layer}"][gate * width : (gate + 1) * width]
                _glorot(rows[:, :fan_in], rng)
                _glorot(rows[:, fan_in:-1], rng)
            w[f"cell{layer}"][width : 2 * width, -1] = 1.0
        _near_zero(w["weight"], self.hidden[-1], rng)
        return flat

    def reference(
        self, weights: torch.Tensor | dict[str, torch.Tensor], windows: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Compute outputs at the last step of each window, shape (B, outputs)."""
        w = weights if isinstance(weights, dict) else self.views(weights)
        steps, batch, _ = windows.shape
        h = [windows.new_zeros(batch, width) for width in self.hidden]
        c = list(h)
        one = windows.new_ones(batch, 1)
        for t in range(steps):
            begun = (lengths >= steps - t).to(windows.dtype)[:, None]
            x = windows[t]
            for layer in range(len(self.hidden)):
                z = torch.cat([x, h[layer], one], dim=1) @ w[f"cell{layer}"].T
                i, f, o, g = z.chunk(4, dim=1)
                c[layer] = (f.sigmoid() * c[layer] + i.sigmoid() * g.tanh()) * begun
                h[layer] = o.sigmoid() * c[layer].tanh() * begun
                x = h[layer]
        return h[-1] @ w["weight"].T + w["bias"]

    def tape(self, steps: int, batch: int, actions: int = 0) -> dict[str, F32]:
        """Allocate inputs, gates and states of every step and layer; batches run along the last axis.

        With actions the last step is apart (``last_...``), for K times as many rows.
        """
        out: dict[str, F32] = {}
        steps, rows = steps - (actions > 0), actions * batch
        for layer, (fan_in, width) in enumerate(pairwise((self.inputs, *self.hidden))):
            out[f"x{layer}"] = np.empty((steps + 1, fan_in + width + 1, batch), np.float32)
            out[f"gates{layer}"] = np.empty((steps, 4, width * batch), np.float32)
            out[f"c{layer}"] = np.empty((steps + 1, width, batch), np.float32)
            out[f"tanh_c{layer}"] = np.empty((steps, width, batch), np.float32)
            out[f"dh{layer}"] = np.empty((steps, width, batch), np.float32)
            out[f"last_x{layer}"] = np.empty((fan_in + width + 1, rows), np.float32)
            out[f"last_gates{layer}"] = np.empty((4 * width, rows), np.float32)
            out[f"last_c{layer}"] = np.empty((width, rows), np.float32)
            out[f"last_tanh_c{layer}"] = np.empty((width, rows), np.float32)
            out[f"x{layer}"][:, -1] = out[f"last_x{layer}"][-1] = 1.0
        out[f"x{len(self.hidden)}"] = np.empty((steps, self.hidden[-1], batch), np.float32)
        out[f"last_x{len(self.hidden)}"] = np.empty((self.hidden[-1], rows), np.float32)
        out["nothing"] = np.empty((steps, 0, batch), np.float32)
        return out

    def forward(
        self, weights: dict[str, F32], windows: F32, lengths: I64, tape: dict[str, F32], actions: F32 | None = None
    ) -> F32:
        """Compute outputs at the last step of each window, shape (B, outputs), a critic's (K B, outputs)."""
        steps, (total, _, size) = len(tape["nothing"]), windows.shape
        begun = _begun(lengths, total)[:steps]
        tape["x0"][:-1, :size] = windows[:steps].transpose(0, 2, 1)
        tape["x0"][:-1, size : self.inputs] = 0.0
        for layer in range(len(self.hidden)):
            kernels.scan_forward(
                begun,
                weights[f"cell{layer}"],
                tape[f"x{layer}"],
                tape[f"gates{layer}"],
                tape[f"c{layer}"],
                tape[f"tanh_c{layer}"],
                tape[f"x{layer + 1}"],
            )
        if actions is None:
            top = tape[f"x{len(self.hidden)}"][-1]
        else:
            tape["last_x0"][: self.inputs] = _beside(windows[-1], actions).T
            top = self._last_step(weights, tape, len(actions))
        return np.ascontiguousarray((weights["weight"] @ top).T) + weights["bias"]

    def _last_step(self, weights: dict[str, F32], tape: dict[str, F32], actions: int) -> F32:
        """Go on from the states before the last step with every action; the output of the last layer, (H, K B)."""
        for layer, width in enumerate(self.hidden):
            x, gates, c = tape[f"last_x{layer}"], tape[f"last_gates{layer}"], tape[f"last_c{layer}"]
            x[-1 - width : -1] = np.tile(tape[f"x{layer}"][-1, -1 - width : -1], actions)
            c[...] = np.tile(tape[f"c{layer}"][-1], actions)
            np.matmul(weights[f"cell{layer}"], x, out=gates)
            h, after = np.empty_like(c), np.empty_like(c)
            kernels.cell_forward(
                gates.reshape(4, -1),
                c.reshape(-1),
                after.reshape(-1),
                tape[f"last_tanh_c{layer}"].reshape(-1),
                h.reshape(-1),
            )
            tape[f"last_x{layer + 1}"][:width] = h
        return tape[f"last_x{len(self.hidden)}"]

    def backward(
        self,
        weights: dict[str, F32],
        tape: dict[str, F32],
        lengths: I64,
        d_outputs: F32,
        gradient: dict[str, F32] | None,
        d_actions: F32 | None = None,
    ) -> None:
        """Write the gradients, that of the weights through the whole window."""
        layers, (steps, _, batch) = len(self.hidden), tape["nothing"].shape
        has_actions = tape["last_x0"].shape[1] > 0
        top = tape[f"last_x{layers}"] if has_actions else tape[f"x{layers}"][-1]
        if gradient is not None:
            np.matmul(d_outputs.T, top.T, out=gradient["weight"])
            kernels.column_sums(d_outputs, gradient["bias"])
            for layer in range(layers):
                gradient[f"cell{layer}"][...] = 0.0
        d_top = weights["weight"].T @ d_outputs.T
        dc = [np.zeros((width, batch), np.float32) for width in self.hidden]
        dh = [np.zeros((width, batch), np.float32) for width in self.hidden]
        if has_actions:
            self._last_step_backward(weights, tape, d_top, dh, dc, gradient, d_actions)
        else:
            dh[-1] = d_top
        if gradient is None:
            return
        begun = _begun(lengths, steps + has_actions)[:steps]
        tape[f"dh{layers - 1}"][...] = 0.0
        for layer in range(layers - 1, -1, -1):
            tape[f"dh{layer}"][-1] += dh[layer]
            kernels.scan_backward(
                begun,
                np.ascontiguousarray(weights[f"cell{layer}"].T),
                tape[f"x{layer}"],
                tape[f"gates{layer}"],
                tape[f"c{layer}"],
                tape[f"tanh_c{layer}"],
                tape[f"dh{layer}"],
                dc[layer],
                gradient[f"cell{layer}"],
                tape[f"dh{layer - 1}"] if layer > 0 else tape["nothing"],
            )

    def _last_step_backward(
        self,
        weights: dict[str, F32],
        tape: dict[str, F32],
        d_top: F32,
        dh: list[F32],
        dc: list[F32],
        gradient: dict[str, F32] | None,
        d_actions: F32 | None,
    ) -> None:
        """Reverse ``_last_step``; ``dh`` and ``dc`` receive the gradients of the states before it, (H, B) each."""
        d = d_top
        for layer in range(len(self.hidden) - 1, -1, -1):
            width, x, gates = self.hidden[layer], tape[f"last_x{layer}"], tape[f"last_gates{layer}"]
            through = np.zeros_like(d)
            kernels.cell_backward(
                gates.reshape(4, -1),
                tape[f"last_c{layer}"].reshape(-1),
                tape[f"last_tanh_c{layer}"].reshape(-1),
                np.ascontiguousarray(d).reshape(-1),
                through.reshape(-1),
            )
            if gradient is not None:
                np.matmul(gates, x.T, out=gradient[f"cell{layer}"])
            dx = weights[f"cell{layer}"][:, :-1].T @ gates
            dh[layer][...] = dx[-width:].reshape(width, -1, dh[layer].shape[1]).sum(1)
            dc[layer][...] = through.reshape(width, -1, dc[layer].shape[1]).sum(1)
            d = dx[:-width]
        if d_actions is not None:
            count, batch, size = d_actions.shape
            d_actions[...] = d[-size:].reshape(size, count, batch).transpose(1, 2, 0)

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Act for one observation per agent; a state is (c, h) of every layer, one after the other."""
        n, offset = len(observations), 0
        x = observations
        following = np.empty_like(state)
        one = np.ones((n, 1), np.float32)
        for layer, width in enumerate(self.hidden):
            c = np.ascontiguousarray(state[:, offset : offset + width].T)
            h = state[:, offset + width : offset + 2 * width]
            gates = weights[f"cell{layer}"] @ np.concatenate([x, h, one], axis=1).T
            tanh_c, h_next = np.empty_like(c), np.empty_like(c)
            flat = c.reshape(-1)
            kernels.cell_forward(gates.reshape(4, -1), flat, flat, tanh_c.reshape(-1), h_next.reshape(-1))
            following[:, offset : offset + width] = c.T
            following[:, offset + width : offset + 2 * width] = h_next.T
            x = h_next.T
            offset += 2 * width
        return np.ascontiguousarray((weights["weight"] @ x.T).T) + weights["bias"], following


class WindowLSTM(LSTM):
    """An LSTM that acts on the same windows that it is trained on.

    The state of an agent is its last ``window`` observations, the newest last, and how many of the episode it has seen;
    nothing older has any influence, so a policy that has not changed gives importance weights of exactly 1.
    """

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int, window: int) -> None:
        super().__init__(inputs, hidden, outputs, window)
        self.state_shape = (window * inputs + 1,)

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Act for one observation per agent, after the observations in its state."""
        n = len(observations)
        past = state[:, :-1].reshape(n, self.history, self.inputs)
        seen = np.concatenate([past, observations[:, None]], axis=1)
        lengths = np.minimum(state[:, -1].astype(np.int64), self.history) + 1
        order = np.argsort(-lengths, kind="stable")
        windows = np.ascontiguousarray(seen[order].transpose(1, 0, 2))
        outputs = np.empty((n, self.outputs), np.float32)
        outputs[order] = self.forward(weights, windows, lengths[order], self.tape(len(windows), n))
        following = np.concatenate([seen[:, 1:].reshape(n, -1), state[:, -1:] + 1], axis=1)
        return outputs, following


def make_network(config: AgentConfig, inputs: int, outputs: int) -> Network:
    """Build the network that ``config.network`` names."""
    if config.network == "mlp":
        return MLP(inputs, config.hidden_sizes, outputs, config.activation)
    kind = WindowLSTM if config.acting == "window" else LSTM
    return kind(inputs, config.hidden_sizes, outputs, config.window)


def _beside(observations: F32, actions: F32) -> F32:
    """Observations (B, S), again for each of K actions (K, B, A), and the actions: shape (K B, S + A)."""
    count, batch, size = actions.shape
    return np.concatenate([np.tile(observations, (count, 1)), actions.reshape(count * batch, size)], axis=1)


def _begun(lengths: I64, steps: int) -> I64:
    """Count the windows that have begun by each of ``steps`` steps; windows are aligned at the end."""
    return np.count_nonzero(lengths[None] >= steps - np.arange(steps)[:, None], axis=1)


def _glorot(block: F32, rng: np.random.Generator) -> None:
    bound = math.sqrt(6.0 / sum(block.shape))
    block[:] = rng.uniform(-bound, bound, block.shape)


def _near_zero(block: F32, fan_in: int, rng: np.random.Generator) -> None:
    bound = 0.1 / math.sqrt(fan_in)
    block[:] = rng.uniform(-bound, bound, block.shape)
