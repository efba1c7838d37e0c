"""Recurrent networks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from rl_agent.networks import kernels
from rl_agent.networks.network import Network, beside, fill_glorot, fill_near_zero

__all__ = ["LSTM", "WindowLSTM"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


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
                fill_glorot(rows[:, :fan_in], rng)
                fill_glorot(rows[:, fan_in:-1], rng)
            w[f"cell{layer}"][width : 2 * width, -1] = 1.0
        fill_near_zero(w["weight"], self.hidden[-1], rng)
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
            tape["last_x0"][: self.inputs] = beside(windows[-1], actions).T
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
        if gradient is None or steps == 0:
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


def _begun(lengths: I64, steps: int) -> I64:
    """Count the windows that have begun by each of ``steps`` steps; windows are aligned at the end."""
    return np.count_nonzero(lengths[None] >= steps - np.arange(steps)[:, None], axis=1)
