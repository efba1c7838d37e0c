"""Recurrent networks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rl_agent.networks import kernels
from rl_agent.networks.network import Network, beside, fill_glorot, fill_near_zero
from rl_agent.runtime.lazy_torch import torch

__all__ = ["LSTM", "LastStep", "Tape", "WindowLSTM", "begun_by"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layer:
    """Arrays of a layer for a window, shapes as in ``kernels.scan_forward``; ``dh`` is dL/dh, shape (T, H, B)."""

    x: F32
    gates: F32
    c: F32
    tanh_c: F32
    dh: F32


@dataclass(frozen=True)
class LastStep:
    """Arrays of a layer for a last step that is computed separately for each of K actions; the last axis is K B."""

    x: F32
    gates: F32
    c: F32
    tanh_c: F32


class Tape:
    """Inputs, gates and states of every layer and step; the batch is the last axis.

    Parameters
    ----------
    widths
        Widths of the input and of each layer.
    steps, batch
        Shape of the windows.
    actions
        Number of actions that a critic evaluates per window (K); if positive, the last step is computed separately,
        for K times as many rows.

    Attributes
    ----------
    steps
        Steps of the window, without a separate last step.
    layers, last
        A :class:`Layer` and a :class:`LastStep` for each layer.
    above, last_above
        Arrays that receive the output of each layer: the input of the next layer, or a separate array for the last one.
    nothing
        Empty placeholder for dL/d(input), which is not needed, shape (T, 0, B).
    """

    def __init__(self, widths: tuple[int, ...], steps: int, batch: int, actions: int) -> None:
        self.batch, self.has_actions = batch, actions > 0
        self.steps = t = steps - self.has_actions
        rows, empty = actions * batch, lambda *shape: np.empty(shape, np.float32)
        sizes = [(fan_in + width + 1, width) for fan_in, width in pairwise(widths)]
        self.layers = [
            Layer(
                empty(t + 1, size, batch),
                empty(t, 4, width * batch),
                empty(t + 1, width, batch),
                empty(t, width, batch),
                empty(t, width, batch),
            )
            for size, width in sizes
        ]
        self.last = [
            LastStep(
                empty(size, rows), empty(4 * width, rows), empty(width, rows), empty(width, rows)
            )
            for size, width in sizes
        ]
        for layer, last in zip(self.layers, self.last, strict=True):
            layer.x[:, -1] = last.x[-1] = 1.0
        self.above = [*(layer.x for layer in self.layers[1:]), empty(t, widths[-1], batch)]
        self.last_above = [*(last.x for last in self.last[1:]), empty(widths[-1], rows)]
        self.nothing = empty(t, 0, batch)

    def start(self, state: F32 | None = None) -> None:
        """Set the states before the first step, shape (B, H) as in ``LSTM.step``; zero if they are not given."""
        offset = 0
        for layer in self.layers:
            width = layer.c.shape[1]
            ends = offset + width, offset + 2 * width
            layer.c[0] = 0.0 if state is None else state[:, offset : ends[0]].T
            layer.x[0, -1 - width : -1] = 0.0 if state is None else state[:, ends[0] : ends[1]].T
            offset = ends[1]

    @property
    def top(self) -> F32:
        """Output of the last layer at the last step, shape (H, B), with actions (H, K B)."""
        return self.last_above[-1] if self.has_actions else self.above[-1][-1]


class LSTM(Network):
    """Stacked LSTM layers and a linear output layer, evaluated at the last step of the window.

    The gates are i, f, o (sigmoid) and g (tanh): ``c' = f c + i g``, ``h = o tanh(c')``. In training the
    state is zero before the window; while acting it is carried along the episode. A layer's weight maps
    [input, h, 1] to its four gates. The state after the first ``burn_in`` steps of a window (Kapturowski et al. 2019,
    section 3) is a constant for the gradient.

    Parameters
    ----------
    inputs, hidden, outputs
        Widths of the layers.
    window
        Number of steps before the last step of a window that have a gradient.
    burn_in
        Number of steps before these.
    """

    def __init__(
        self, inputs: int, hidden: tuple[int, ...], outputs: int, window: int, burn_in: int = 0
    ) -> None:
        self.hidden = hidden
        self.burn_in, self.history = burn_in, burn_in + window
        blocks: list[tuple[str, tuple[int, ...]]] = []
        for layer, (fan_in, width) in enumerate(pairwise((inputs, *hidden))):
            blocks.append((f"cell{layer}", (4 * width, fan_in + width + 1)))
        blocks += [("weight", (outputs, hidden[-1])), ("bias", (outputs,))]
        super().__init__(inputs, outputs, blocks)
        self.state_shape = (2 * sum(hidden),)

    def initialise(self, rng: np.random.Generator) -> F32:
        """Sample initial weights by appendix A (input and state of each gate count as separate layers)."""
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
        self,
        weights: torch.Tensor | dict[str, torch.Tensor],
        windows: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Compute outputs at the last step of each window, shape (B, outputs)."""
        w = weights if isinstance(weights, dict) else self.views(weights)
        steps, batch, _ = windows.shape
        h = [windows.new_zeros(batch, width) for width in self.hidden]
        c = list(h)
        for t in range(steps):
            if t == self.burn_in:
                h, c = [x.detach() for x in h], [x.detach() for x in c]
            begun = (lengths >= steps - t).to(windows.dtype)[:, None]
            x = windows[t]
            for layer in range(len(self.hidden)):
                c[layer], h[layer] = _cell(w[f"cell{layer}"], x, c[layer], h[layer])
                c[layer], h[layer] = c[layer] * begun, h[layer] * begun
                x = h[layer]
        return h[-1] @ w["weight"].T + w["bias"]

    def tape(self, steps: int, batch: int, actions: int = 0) -> Tape:
        """Allocate the arrays that ``forward`` writes and ``backward`` reads."""
        return Tape((self.inputs, *self.hidden), steps, batch, actions)

    def forward(
        self,
        weights: dict[str, F32],
        windows: F32,
        lengths: I64,
        tape: Tape,
        actions: F32 | None = None,
    ) -> F32:
        """Compute outputs at the last step of each window, shape (B, outputs), or (K B, outputs) with actions."""
        steps, (total, _, size) = tape.steps, windows.shape
        begun = begun_by(lengths, total)[:steps]
        x = tape.layers[0].x
        x[:-1, :size] = windows[:steps].transpose(0, 2, 1)
        x[:-1, size : self.inputs] = 0.0
        tape.start()
        for number, (layer, above) in enumerate(zip(tape.layers, tape.above, strict=True)):
            kernels.scan_forward(
                begun, weights[f"cell{number}"], layer.x, layer.gates, layer.c, layer.tanh_c, above
            )
        if actions is not None:
            tape.last[0].x[: self.inputs] = beside(windows[-1], actions).T
            self._last_step(weights, tape, len(actions))
        return np.ascontiguousarray((weights["weight"] @ tape.top).T) + weights["bias"]

    def _last_step(self, weights: dict[str, F32], tape: Tape, actions: int) -> None:
        """Compute the last step for every action, from the states before it."""
        for number, (before, last, above) in enumerate(
            zip(tape.layers, tape.last, tape.last_above, strict=True)
        ):
            width = self.hidden[number]
            last.x[-1 - width : -1] = np.tile(before.x[-1, -1 - width : -1], actions)
            last.c[...] = np.tile(before.c[-1], actions)
            np.matmul(weights[f"cell{number}"], last.x, out=last.gates)
            h, after = np.empty_like(last.c), np.empty_like(last.c)
            flat = (array.reshape(-1) for array in (last.c, after, last.tanh_c, h))
            kernels.cell_forward(last.gates.reshape(4, -1), *flat)
            above[:width] = h

    def backward(
        self,
        weights: dict[str, F32],
        tape: Tape,
        lengths: I64,
        d_outputs: F32,
        gradient: dict[str, F32] | None,
        d_actions: F32 | None = None,
    ) -> None:
        """Write the gradients; that of the weights is backpropagated through the window after its burn-in."""
        if gradient is not None:
            np.matmul(d_outputs.T, tape.top.T, out=gradient["weight"])
            kernels.column_sums(d_outputs, gradient["bias"])
            for number in range(len(self.hidden)):
                gradient[f"cell{number}"][...] = 0.0
        d_top = weights["weight"].T @ d_outputs.T
        dc = [np.zeros((width, tape.batch), np.float32) for width in self.hidden]
        dh = [np.zeros((width, tape.batch), np.float32) for width in self.hidden]
        if tape.has_actions:
            self._last_step_backward(weights, tape, d_top, dh, dc, gradient, d_actions)
        else:
            dh[-1] = d_top
        if gradient is None or tape.steps == 0:
            return
        begun = begun_by(lengths, tape.steps + tape.has_actions)[: tape.steps]
        tape.layers[-1].dh[...] = 0.0
        for number in range(len(self.hidden) - 1, -1, -1):
            tape.layers[number].dh[-1] += dh[number]
            no_dc_each = np.empty((0, *dc[number].shape), np.float32)
            self.scan_back(number, weights, tape, begun, dc[number], no_dc_each, gradient)

    def scan_back(
        self,
        number: int,
        weights: dict[str, F32],
        tape: Tape,
        begun: I64,
        dc: F32,
        dc_each: F32,
        gradient: dict[str, F32],
    ) -> None:
        """Backpropagate through the steps of a layer after the burn-in; arguments as in ``kernels.scan_backward``."""
        layer, cell, first = tape.layers[number], f"cell{number}", self.burn_in
        below = tape.layers[number - 1].dh if number > 0 else tape.nothing
        kernels.scan_backward(
            begun[first:],
            np.ascontiguousarray(weights[cell].T),
            layer.x[first:],
            layer.gates[first:],
            layer.c[first:],
            layer.tanh_c[first:],
            layer.dh[first:],
            dc,
            dc_each[first:],
            gradient[cell],
            below[first:],
        )

    def _last_step_backward(
        self,
        weights: dict[str, F32],
        tape: Tape,
        d_top: F32,
        dh: list[F32],
        dc: list[F32],
        gradient: dict[str, F32] | None,
        d_actions: F32 | None,
    ) -> None:
        """Backpropagate through ``_last_step``; write the gradients of the states before it to ``dh`` and ``dc``."""
        d = d_top
        for number in range(len(self.hidden) - 1, -1, -1):
            width, last = self.hidden[number], tape.last[number]
            through = np.zeros_like(d)
            flat = (
                array.reshape(-1)
                for array in (last.c, last.tanh_c, np.ascontiguousarray(d), through)
            )
            kernels.cell_backward(last.gates.reshape(4, -1), *flat)
            if gradient is not None:
                np.matmul(last.gates, last.x.T, out=gradient[f"cell{number}"])
            dx = weights[f"cell{number}"][:, :-1].T @ last.gates
            dh[number][...] = dx[-width:].reshape(width, -1, tape.batch).sum(1)
            dc[number][...] = through.reshape(width, -1, tape.batch).sum(1)
            d = dx[:-width]
        if d_actions is not None:
            count, batch, size = d_actions.shape
            d_actions[...] = d[-size:].reshape(size, count, batch).transpose(1, 2, 0)

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Compute outputs and next states for one observation per agent; a state concatenates (c, h) of all layers."""
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
            kernels.cell_forward(
                gates.reshape(4, -1), flat, flat, tanh_c.reshape(-1), h_next.reshape(-1)
            )
            following[:, offset : offset + width] = c.T
            following[:, offset + width : offset + 2 * width] = h_next.T
            x = h_next.T
            offset += 2 * width
        return np.ascontiguousarray((weights["weight"] @ x.T).T) + weights["bias"], following

    def reference_step(
        self, weights: dict[str, torch.Tensor], observations: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute ``step`` as a torch graph."""
        x, offset, following = observations, 0, []
        for layer, width in enumerate(self.hidden):
            c = state[:, offset : offset + width]
            h = state[:, offset + width : offset + 2 * width]
            c, x = _cell(weights[f"cell{layer}"], x, c, h)
            following += [c, x]
            offset += 2 * width
        return x @ weights["weight"].T + weights["bias"], torch.cat(following, dim=1)


class WindowLSTM(LSTM):
    """An LSTM that acts on the same windows on which it is trained.

    The state of an agent is its last ``history`` observations, the newest last, and the number of observations in the
    episode so far. Older observations have no influence, so an unchanged policy has importance weights of exactly 1.
    """

    def __init__(
        self, inputs: int, hidden: tuple[int, ...], outputs: int, window: int, burn_in: int = 0
    ) -> None:
        super().__init__(inputs, hidden, outputs, window, burn_in)
        self.state_shape = (self.history * inputs + 1,)

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Compute outputs and next states for one observation per agent."""
        n = len(observations)
        past = state[:, :-1].reshape(n, self.history, self.inputs)
        seen = np.concatenate([past, observations[:, None]], axis=1)
        lengths = np.minimum(state[:, -1].astype(np.int64), self.history) + 1
        outputs = self.evaluate(weights, seen.transpose(1, 0, 2), lengths)
        newest = seen[:, 1:].reshape(n, self.history * self.inputs)
        following = np.concatenate([newest, state[:, -1:] + 1], axis=1)
        return outputs, following

    def reference_step(
        self, weights: dict[str, torch.Tensor], observations: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute ``step`` as a torch graph."""
        past = state[:, :-1].unflatten(1, (self.history, self.inputs))
        seen = torch.cat([past, observations[:, None]], dim=1)
        lengths = state[:, -1].clamp(max=self.history) + 1
        outputs = self.reference(weights, seen.transpose(0, 1), lengths)
        return outputs, torch.cat([seen[:, 1:].flatten(1), state[:, -1:] + 1], dim=1)


def _cell(
    weight: torch.Tensor, x: torch.Tensor, c: torch.Tensor, h: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the next c and h of a layer, shape (B, H), from its input and its c and h."""
    z = torch.cat([x, h, torch.ones_like(h[:, :1])], dim=1) @ weight.T
    i, f, o, g = z.chunk(4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return c, o.sigmoid() * c.tanh()


def begun_by(lengths: I64, steps: int) -> I64:
    """Count the windows that have begun by each of ``steps`` steps; windows are aligned at their ends."""
    return np.count_nonzero(lengths[None] >= steps - np.arange(steps)[:, None], axis=1)
