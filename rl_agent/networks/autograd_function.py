"""The explicit passes of a network as one node of the autograd graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rl_agent.networks.network import Network
from rl_agent.networks.passes import Pass

__all__ = ["AnalyticGradient"]

F32 = npt.NDArray[np.float32]


class AnalyticGradient(torch.autograd.Function):
    """A network's ``forward`` and ``backward`` as one node of the autograd graph."""

    @staticmethod
    def forward(
        ctx: Any,
        network: Network,
        windows: torch.Tensor,
        lengths: torch.Tensor,
        actions: torch.Tensor | None,
        *blocks: torch.Tensor,
    ) -> torch.Tensor:
        """Compute the outputs (``Parts.__call__``)."""
        weights = {
            name: block.detach().numpy()
            for (name, _), block in zip(network.blocks, blocks, strict=True)
        }
        seen, chosen = windows.numpy(), None if actions is None else actions.detach().numpy()
        long = lengths.numpy().astype(np.int64)
        order = None if (np.diff(long) <= 0).all() else np.argsort(-long, kind="stable")
        if order is not None:
            seen, long = np.ascontiguousarray(seen[:, order]), long[order]
            chosen = None if chosen is None else chosen[:, order]
        passes = Pass(network)
        outputs = passes.forward(weights, seen, long, chosen)
        ctx.all = passes, order, None if chosen is None else chosen.shape
        return torch.from_numpy(_put_back(outputs, order))

    @staticmethod
    def backward(ctx: Any, *d: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Write the gradients of the last ``forward``."""
        passes, order, shape = ctx.all
        blocks = passes.network.blocks
        moves_weights = any(ctx.needs_input_grad[4:])
        gradient = (
            {name: np.empty(size, np.float32) for name, size in blocks} if moves_weights else None
        )
        d_actions = np.empty(shape, np.float32) if ctx.needs_input_grad[3] else None
        passes.backward(_take(d[0].numpy(), order), gradient, d_actions)
        of_actions = None
        if d_actions is not None:
            of_actions = torch.from_numpy(
                _put_back(d_actions.reshape(-1, shape[2]), order).reshape(shape)
            )
        of_weights = (
            [torch.from_numpy(block) for block in gradient.values()]
            if gradient
            else [None] * len(blocks)
        )
        return None, None, None, of_actions, *of_weights


def _take(rows: F32, order: npt.NDArray[np.int64] | None) -> F32:
    """Sort K blocks of B rows each by ``order``."""
    if order is None:
        return np.ascontiguousarray(rows)
    return np.ascontiguousarray(rows.reshape(-1, len(order), rows.shape[1])[:, order]).reshape(
        rows.shape
    )


def _put_back(rows: F32, order: npt.NDArray[np.int64] | None) -> F32:
    """Reverse ``_take``."""
    if order is None:
        return rows
    out = np.empty_like(rows)
    out.reshape(-1, len(order), rows.shape[1])[:, order] = rows.reshape(
        -1, len(order), rows.shape[1]
    )
    return out
