"""Base class of the networks, and weight initialisation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.runtime.lazy_torch import torch

__all__ = ["Network", "Several", "beside", "fill_glorot", "fill_near_zero"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class Network(ABC):
    """A function from windows of observations to outputs; its weights are stored outside, in a flat vector.

    Windows are time-major and end at the step to evaluate: shape (T, B, S). ``lengths`` is the number of observations
    in each window that exist (the others are zeros before the episode began); rows must be sorted by descending length.
    A critic takes K actions per window, shape (K, B, A), with A = inputs - S; its outputs have K B rows, those of the
    first actions first.

    Attributes
    ----------
    history
        Number of previous steps in a window (0 for a feed-forward network); T = history + 1 for training.
    blocks
        Name and shape of each block of weights, in the order of the flat vector.
    size
        Length of the flat vector.
    state_shape
        Shape of the recurrent state of one agent.
    """

    history: int
    state_shape: tuple[int, ...]

    def __init__(
        self, inputs: int, outputs: int, blocks: list[tuple[str, tuple[int, ...]]]
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.blocks = blocks
        self.size = sum(math.prod(shape) for _, shape in blocks)

    def views(self, flat: Any) -> dict[str, Any]:
        """Split a flat vector of weights or gradients (NumPy array or torch tensor) into blocks."""
        out, offset = {}, 0
        for name, shape in self.blocks:
            end = offset + math.prod(shape)
            out[name] = flat[offset:end].reshape(shape)
            offset = end
        return out

    @abstractmethod
    def initialise(self, rng: np.random.Generator) -> F32:
        """Sample initial weights, shape (size,)."""

    @abstractmethod
    def reference(
        self,
        weights: torch.Tensor | dict[str, torch.Tensor],
        windows: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Compute outputs of shape (B, outputs) as a graph that autograd differentiates.

        ``weights`` is a flat vector or its ``views``; the windows of a critic, (T, B, inputs), contain the actions.
        """

    @abstractmethod
    def tape(self, steps: int, batch: int, actions: int = 0) -> Any:
        """Allocate the arrays that ``forward`` writes and ``backward`` reads.

        They are for windows of shape (steps, batch, S), with ``actions`` actions (K) each.
        """

    @abstractmethod
    def forward(
        self,
        weights: dict[str, F32],
        windows: F32,
        lengths: I64,
        tape: Any,
        actions: F32 | None = None,
    ) -> F32:
        """Compute outputs of shape (B, outputs), or (K B, outputs) with actions; ``weights`` are ``views``."""

    def evaluate(self, weights: dict[str, F32], windows: F32, lengths: I64) -> F32:
        """Compute outputs like ``forward``, for windows in any order, without keeping anything for ``backward``."""
        order = np.argsort(-lengths, kind="stable")
        longest_first = np.ascontiguousarray(windows[:, order])
        outputs = np.empty((len(lengths), self.outputs), np.float32)
        tape = self.tape(len(windows), len(lengths))
        outputs[order] = self.forward(weights, longest_first, lengths[order], tape)
        return outputs

    @abstractmethod
    def backward(
        self,
        weights: dict[str, F32],
        tape: Any,
        lengths: I64,
        d_outputs: F32,
        gradient: dict[str, F32] | None,
        d_actions: F32 | None = None,
    ) -> None:
        """Write the gradient of a loss, given dL/d(outputs); overwrites the tape.

        Parameters
        ----------
        weights, tape, lengths
            As in ``forward``.
        d_outputs
            dL/d(outputs), shape of the outputs.
        gradient
            Written: dL/d(weights), ``views`` of a flat vector; not computed if ``None``.
        d_actions
            Written: dL/d(actions) of a critic, shape (K, B, A); not computed if ``None``.
        """

    @abstractmethod
    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Compute outputs (n, outputs) and next states from observations (n, inputs) and states (n, state_shape)."""

    @abstractmethod
    def reference_step(
        self, weights: dict[str, torch.Tensor], observations: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute ``step`` as a torch graph; ``weights`` are ``views``."""


class Several(Network):
    """Base class of several networks with the same inputs that act as one.

    Subclasses define which rows go to which network, and where its outputs are placed.

    Parameters
    ----------
    name
        Prefix of a network's number in the names of the blocks.
    networks
        The networks, which have no action inputs.
    outputs
        Number of outputs of a row.
    """

    def __init__(self, name: str, networks: Sequence[Network], outputs: int) -> None:
        self.networks, self._name = networks, name
        self.history = networks[0].history
        blocks = [
            (f"{name}{k}/{block}", shape)
            for k, network in enumerate(networks)
            for block, shape in network.blocks
        ]
        super().__init__(networks[0].inputs, outputs, blocks)

    def _own(self, blocks: Any, k: int) -> Any:
        return {name: blocks[f"{self._name}{k}/{name}"] for name, _ in self.networks[k].blocks}

    def initialise(self, rng: np.random.Generator) -> F32:
        """Sample initial weights of each network, shape (size,)."""
        return np.concatenate([network.initialise(rng) for network in self.networks])


def beside(observations: F32, actions: F32) -> F32:
    """Concatenate observations (B, S), repeated K times, with K actions each (K, B, A): shape (K B, S + A)."""
    count, batch, size = actions.shape
    return np.concatenate(
        [np.tile(observations, (count, 1)), actions.reshape(count * batch, size)], axis=1
    )


def fill_glorot(block: F32, rng: np.random.Generator) -> None:
    """Fill the weights of a hidden layer, Glorot-uniform."""
    bound = math.sqrt(6.0 / sum(block.shape))
    block[:] = rng.uniform(-bound, bound, block.shape)


def fill_near_zero(block: F32, fan_in: int, rng: np.random.Generator) -> None:
    """Fill the weights of an output layer, uniform near zero."""
    bound = 0.1 / math.sqrt(fan_in)
    block[:] = rng.uniform(-bound, bound, block.shape)
