"""Evaluation of networks at the consecutive steps of segments of episodes.

A recurrent network that carries its state runs once along a segment, after up to ``history`` earlier steps; other
networks see at every step the window that ends there. A critic with an LSTM reads the segment without actions, and
branches off at every step with each action to evaluate, as at the end of a window (``rl_agent/networks/lstm.py``).

Like the networks, this is implemented twice: for autograd (``unrolled_outputs``), and with explicit passes
(``UnrolledPass``); a test checks that they agree.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from rl_agent.networks import kernels
from rl_agent.networks.lstm import LSTM, LastStep, Tape, WindowLSTM, begun_by
from rl_agent.networks.mlp import MLP
from rl_agent.networks.network import Network, beside
from rl_agent.networks.parameter_views import Parts, Views
from rl_agent.networks.passes import Pass
from rl_agent.runtime.lazy_torch import torch

__all__ = ["UnrolledPass", "has_analytic_gradient", "last_outputs", "unrolled_outputs"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


def unrolled_outputs(
    parts: Parts,
    name: str,
    views: Views,
    sequences: torch.Tensor,
    lengths: torch.Tensor,
    index: torch.Tensor,
    actions: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute the outputs of a network at M steps of segments.

    Parameters
    ----------
    parts, name, views
        As in ``Parts.__call__``.
    sequences, lengths
        Observations (T, n, S) aligned at their ends, zeros before the episode, and how many of each sequence exist.
    index
        Row-major positions of the M steps in (T, n); each has at least ``network.history`` rows before it.
    actions
        Actions that a critic evaluates at each step, shape (M, A), or several per step, shape (K, M, A).
    state
        States of a network that carries its state before the sequences, shape (n, H) as in ``LSTM.step``, zero where a
        sequence begins later; ``None``: zero.

    Returns
    -------
    Tensor
        Outputs, shape (M, outputs), or (K, M, outputs) for several actions.
    """
    network = parts.parts[name]
    if _runs_on(network):
        if actions is not None and actions.ndim == 2:
            return unrolled_outputs(
                parts, name, views, sequences, lengths, index, actions[None], state
            )[0]
        return _run(network, views[name], sequences, lengths, index, actions, state)
    assert isinstance(network, Network)
    assert state is None
    steps, n, _ = sequences.shape
    back = torch.arange(-network.history, 1, device=index.device)[:, None] * n
    windows = sequences.reshape(steps * n, -1)[index + back]
    known = lengths[index % n] - (steps - 1 - torch.div(index, n, rounding_mode="floor"))
    return parts(name, views, windows, known.clamp(max=network.history + 1), actions)


def has_analytic_gradient(network: Network) -> bool:
    """Return whether ``UnrolledPass`` supports a network: an MLP, or an LSTM that carries its state."""
    return isinstance(network, MLP) or _runs_on(network)


def _runs_on(network: Any) -> TypeGuard[LSTM]:
    return isinstance(network, LSTM) and not isinstance(network, WindowLSTM)


def _run(
    network: LSTM,
    weights: dict[str, torch.Tensor],
    sequences: torch.Tensor,
    lengths: torch.Tensor,
    index: torch.Tensor,
    actions: torch.Tensor | None,
    state: torch.Tensor | None,
) -> torch.Tensor:
    """Run an LSTM along sequences once; arguments as in ``unrolled_outputs``, ``actions`` with three axes."""
    steps, n, size = sequences.shape
    state = sequences.new_zeros(n, *network.state_shape) if state is None else state
    pieces = state.split([width for width in network.hidden for _ in range(2)], dim=1)
    c, h = list(pieces[::2]), list(pieces[1::2])
    unknown = sequences.new_zeros(n, network.inputs - size)
    befores, tops = [], []
    for t in range(steps):
        if t == network.burn_in:
            h, c = [x.detach() for x in h], [x.detach() for x in c]
        befores.append([*h, *c])
        begun = (lengths >= steps - t).to(sequences.dtype)[:, None]
        h, c = _cells(network, weights, torch.cat([sequences[t], unknown], dim=1), h, c)
        h, c = [x * begun for x in h], [x * begun for x in c]
        tops.append(h[-1])
    if actions is None:
        top = torch.cat(tops)[index]
    else:
        before = [torch.cat(every)[index] for every in zip(*befores, strict=True)]
        before = [x.expand(len(actions), *x.shape) for x in before]
        seen = sequences.reshape(steps * n, size)[index].expand(len(actions), -1, -1)
        layers = len(network.hidden)
        h, _ = _cells(
            network, weights, torch.cat([seen, actions], dim=-1), before[:layers], before[layers:]
        )
        top = h[-1]
    return top @ weights["weight"].T + weights["bias"]


def _cells(
    network: LSTM,
    weights: dict[str, torch.Tensor],
    x: torch.Tensor,
    h: list[torch.Tensor],
    c: list[torch.Tensor],
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Advance all layers by one step."""
    h, c = list(h), list(c)
    one = x.new_ones(*x.shape[:-1], 1)
    for layer in range(len(network.hidden)):
        gates = torch.cat([x, h[layer], one], dim=-1) @ weights[f"cell{layer}"].T
        i, f, o, g = gates.chunk(4, dim=-1)
        c[layer] = f.sigmoid() * c[layer] + i.sigmoid() * g.tanh()
        h[layer] = o.sigmoid() * c[layer].tanh()
        x = h[layer]
    return h, c


class UnrolledPass:
    """Explicit passes of a network at steps of segments; see ``unrolled_outputs``.

    Parameters
    ----------
    network
        An MLP, or an LSTM that carries its state; its weights are passed with every batch.
    """

    def __init__(self, network: Network) -> None:
        assert has_analytic_gradient(network)
        self.network = network
        self._plain, self._aside = Pass(network), Pass(network)

    @property
    def _lstm(self) -> LSTM:
        assert isinstance(self.network, LSTM)
        return self.network

    def forward(
        self,
        weights: dict[str, F32],
        sequences: F32,
        lengths: I64,
        index: I64,
        actions: F32 | None = None,
        state: F32 | None = None,
    ) -> F32:
        """Compute the outputs at the steps of ``index``, shape (M, outputs), or (K M, outputs) with actions.

        The sequences must be sorted by descending ``lengths``; ``state`` as in ``unrolled_outputs``.
        """
        self._weights, self._index = weights, index
        steps, n, size = sequences.shape
        if not isinstance(self.network, LSTM):
            return self._evaluate(self._plain, sequences, index, actions)
        self._begun = begun_by(lengths, steps)
        self._tape = tape = Tape((self.network.inputs, *self.network.hidden), steps, n, 0)
        x = tape.layers[0].x
        x[:-1, :size] = sequences.transpose(0, 2, 1)
        x[:-1, size : self.network.inputs] = 0.0
        tape.start(state)
        for number, (layer, above) in enumerate(zip(tape.layers, tape.above, strict=True)):
            cell = weights[f"cell{number}"]
            kernels.scan_forward(
                self._begun, cell, layer.x, layer.gates, layer.c, layer.tanh_c, above
            )
        self._branches: list[LastStep] = []
        if actions is None:
            self._top = _columns(tape.above[-1], index)
        else:
            self._top, self._branches = self._branch(sequences, index, actions)
        return self._outputs(self._top)

    def forward_aside(self, sequences: F32, index: I64, actions: F32) -> F32:
        """Evaluate actions at other steps of the segments of the last ``forward``, without affecting ``backward``."""
        if not isinstance(self.network, LSTM):
            return self._evaluate(self._aside, sequences, index, actions)
        return self._outputs(self._branch(sequences, index, actions)[0])

    def _evaluate(self, one: Pass, sequences: F32, index: I64, actions: F32 | None) -> F32:
        """Compute the outputs of an MLP."""
        steps, n, size = sequences.shape
        rows = sequences.reshape(1, steps * n, size)
        if self.network.history:
            rows = rows[0, index + n * np.arange(-self.network.history, 1)[:, None]]
        elif len(index) < steps * n:
            rows = rows[:, index]
        return one.forward(self._weights, rows, np.ones(len(index), np.int64), actions)

    def _outputs(self, top: F32) -> F32:
        return np.ascontiguousarray((self._weights["weight"] @ top).T) + self._weights["bias"]

    def _branch(self, sequences: F32, index: I64, actions: F32) -> tuple[F32, list[LastStep]]:
        """Compute each step with every action from the states before it; return the output of the last layer."""
        count, branches = len(actions), []
        below = np.ascontiguousarray(
            beside(sequences.reshape(-1, sequences.shape[2])[index], actions).T
        )
        for number, layer in enumerate(self._tape.layers):
            width, rows = self._lstm.hidden[number], below.shape[1]
            h = np.tile(_columns(layer.x[:, -1 - width : -1], index), count)
            c = np.tile(_columns(layer.c, index), count)
            x = np.concatenate([below, h, np.ones((1, rows), np.float32)])
            gates, tanh_c, after = (
                self._weights[f"cell{number}"] @ x,
                np.empty_like(c),
                np.empty_like(c),
            )
            below = np.empty_like(c)
            kernels.cell_forward(
                gates.reshape(4, -1), *(a.reshape(-1) for a in (c, after, tanh_c, below))
            )
            branches.append(LastStep(x, gates, c, tanh_c))
        return below, branches

    def backward(self, d_outputs: F32, gradient: dict[str, F32]) -> None:
        """Write the gradient by the weights of a loss with dL/d(outputs) ``d_outputs``; overwrites the tape."""
        if not isinstance(self.network, LSTM):
            self._plain.backward(d_outputs, gradient)
            return
        np.matmul(d_outputs.T, self._top.T, out=gradient["weight"])
        kernels.column_sums(d_outputs, gradient["bias"])
        layers, steps = self._tape.layers, self._tape.steps
        d_top = self._weights["weight"].T @ d_outputs.T
        if self._branches:
            dh, dc_each = self._branch_backward(d_top, gradient)
        else:
            dh = [np.zeros_like(layer.dh) for layer in layers]
            _scatter(d_top, self._index, dh[-1])
            dc_each = [np.empty((0, *layer.dh.shape[1:]), np.float32) for layer in layers]
            for number in range(len(layers)):
                gradient[f"cell{number}"][...] = 0.0
        begun, first = self._begun[:steps], self._lstm.burn_in
        for number in range(len(layers) - 1, -1, -1):
            layer = layers[number]
            if number == len(layers) - 1:
                layer.dh[...] = dh[number]
            else:
                layer.dh[first:] += dh[number][first:]
            dc = np.zeros(layer.dh.shape[1:], np.float32)
            self._lstm.scan_back(
                number, self._weights, self._tape, begun, dc, dc_each[number], gradient
            )

    def _branch_backward(self, d: F32, gradient: dict[str, F32]) -> tuple[list[F32], list[F32]]:
        """Backpropagate through ``_branch``; return dL/dh and dL/dc of each layer, shape (T, H, n) each."""
        n = self._tape.batch
        dh, dc_each = ([np.zeros_like(layer.dh) for layer in self._tape.layers] for _ in range(2))
        has_state = self._index >= n  # the state before the first step is zero
        before = self._index[has_state] - n
        for number in range(len(self._branches) - 1, -1, -1):
            branch, width = self._branches[number], self._lstm.hidden[number]
            through = np.zeros_like(branch.c)
            flat = (
                a.reshape(-1) for a in (branch.c, branch.tanh_c, np.ascontiguousarray(d), through)
            )
            kernels.cell_backward(branch.gates.reshape(4, -1), *flat)
            np.matmul(branch.gates, branch.x.T, out=gradient[f"cell{number}"])
            dx = self._weights[f"cell{number}"][:, :-1].T @ branch.gates
            for of, out in ((dx[-width:], dh[number]), (through, dc_each[number])):
                _scatter(of.reshape(width, -1, len(self._index)).sum(1)[:, has_state], before, out)
            d = dx[:-width]
        return dh, dc_each


def last_outputs(
    network: Network, weights: dict[str, F32], windows: F32, lengths: I64, state: F32
) -> F32:
    """Compute the outputs at the last steps of windows in any order, from the states before their first steps."""
    order = np.argsort(-lengths, kind="stable")
    steps, n, _ = windows.shape
    index = np.arange((steps - 1) * n, steps * n)
    outputs = np.empty((n, network.outputs), np.float32)
    outputs[order] = UnrolledPass(network).forward(
        weights, np.ascontiguousarray(windows[:, order]), lengths[order], index, state=state[order]
    )
    return outputs


def _columns(array: F32, index: I64) -> F32:
    """Gather the columns of an array (T, H, n) at the steps ``index``: shape (H, M)."""
    n = array.shape[2]
    return np.ascontiguousarray(array[index // n, :, index % n].T)


def _scatter(columns: F32, index: I64, out: F32) -> None:
    """Write columns to ``out``, the inverse of ``_columns``; the other columns are unchanged."""
    n = out.shape[2]
    out[index // n, :, index % n] = columns.T
