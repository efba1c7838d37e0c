"""Convolutional networks for images, in torch: forward and backward use autograd, on CPU or GPU.

An image is a flattened observation of C x H x W non-negative numbers. The window of a step is its stack of frames, so
that the memory stores each frame once. Frames before the beginning of an episode are zero.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_agent.networks.network import Network, fill_glorot, fill_near_zero
from rl_agent.runtime.lazy_torch import torch

__all__ = ["Conv", "Encoder", "TorchNetwork"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Weights: TypeAlias = "dict[str, torch.Tensor]"
Blocks = list[tuple[str, tuple[int, ...]]]


class Encoder:
    """Convolutions with ReLU over a stack of frames.

    Parameters
    ----------
    picture
        Channels, height and width of one frame.
    frames
        Number of frames in a stack.
    convolutions
        Channels, filter size and stride of each layer.

    Attributes
    ----------
    blocks
        Names and shapes of the weights.
    outputs
        Number of output features per stack.
    """

    def __init__(
        self,
        picture: tuple[int, int, int],
        frames: int,
        convolutions: Sequence[tuple[int, int, int]],
    ) -> None:
        self._picture, self._strides = picture, [stride for _, _, stride in convolutions]
        channels, height, width = picture[0] * frames, *picture[1:]
        self.blocks: Blocks = []
        for layer, (wide, side, stride) in enumerate(convolutions):
            self.blocks += [
                (f"filter{layer}", (wide, channels, side, side)),
                (f"shift{layer}", (wide,)),
            ]
            channels, height, width = (
                wide,
                (height - side) // stride + 1,
                (width - side) // stride + 1,
            )
            if height < 1 or width < 1:
                raise ValueError(
                    f"convolutions = {list(map(list, convolutions))} reduce an image of {picture[1]} x {picture[2]} "
                    "to nothing; use fewer or smaller ones"
                )
        self.outputs = channels * height * width

    def initialise(self, weights: dict[str, F32], rng: np.random.Generator) -> None:
        """Sample initial filters, Glorot-uniform."""
        for name, shape in self.blocks:
            if name.startswith("filter"):
                bound = math.sqrt(6.0 / ((shape[0] + shape[1]) * shape[2] * shape[3]))
                weights[name][:] = rng.uniform(-bound, bound, shape)

    def __call__(self, weights: Weights, windows: torch.Tensor) -> torch.Tensor:
        """Encode windows (T, B, C H W) to features (B, outputs)."""
        x = windows.transpose(0, 1).reshape(windows.shape[1], -1, *self._picture[1:])
        for layer, stride in enumerate(self._strides):
            x = torch.relu(
                torch.conv2d(x, weights[f"filter{layer}"], weights[f"shift{layer}"], stride=stride)
            )
        return x.flatten(1)


class TorchNetwork(Network):
    """A network that is defined by ``reference`` alone and differentiated by autograd.

    The state of an agent is its last ``history`` observations, the newest last.
    """

    def __init__(self, inputs: int, outputs: int, blocks: Blocks, history: int) -> None:
        super().__init__(inputs, outputs, blocks)
        self.history = history
        self.state_shape = (history * inputs,)

    @abstractmethod
    def reference(
        self, weights: torch.Tensor | Weights, windows: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Compute outputs of shape (B, outputs) as a graph that autograd differentiates."""

    def tape(self, steps: int, batch: int, actions: int = 0) -> dict[str, Any]:
        """Return an empty dictionary, in which ``forward`` stores the graph.

        Raises
        ------
        ValueError
            If there are actions.
        """
        if actions:
            raise ValueError("network = conv reads images only, without actions; use mlp")
        return {}

    def forward(
        self,
        weights: dict[str, F32],
        windows: F32,
        lengths: I64,
        tape: dict[str, Any],
        actions: F32 | None = None,
    ) -> F32:
        """Compute outputs of shape (B, outputs), and store the graph on the tape."""
        tape["leaves"] = {
            name: torch.from_numpy(block).requires_grad_() for name, block in weights.items()
        }
        with torch.enable_grad():
            tape["outputs"] = self.reference(
                tape["leaves"], torch.from_numpy(windows), torch.from_numpy(lengths)
            )
        outputs: F32 = tape["outputs"].detach().numpy()
        return outputs

    def backward(
        self,
        weights: dict[str, F32],
        tape: dict[str, Any],
        lengths: I64,
        d_outputs: F32,
        gradient: dict[str, F32] | None,
        d_actions: F32 | None = None,
    ) -> None:
        """Write the gradients from dL/d(outputs)."""
        if gradient is None:
            return
        leaves: Weights = tape["leaves"]
        found = torch.autograd.grad(
            tape["outputs"], list(leaves.values()), torch.from_numpy(d_outputs), allow_unused=True
        )
        for name, slope in zip(leaves, found, strict=True):
            gradient[name][:] = 0.0 if slope is None else slope.numpy()

    def step(self, weights: dict[str, F32], observations: F32, state: F32) -> tuple[F32, F32]:
        """Compute outputs and next states for one observation per agent."""
        known = {name: torch.from_numpy(block) for name, block in weights.items()}
        given = (torch.from_numpy(np.asarray(a, np.float32)) for a in (observations, state))
        with torch.no_grad():
            outputs, following = self.reference_step(known, *given)
        return outputs.numpy(), following.numpy()

    def reference_step(
        self, weights: Weights, observations: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute ``step`` as a torch graph."""
        past = state.unflatten(1, (self.history, self.inputs))
        seen = torch.cat([past, observations[:, None]], dim=1)
        windows = seen.transpose(0, 1).contiguous()
        return self.reference(weights, windows, observations), seen[:, 1:].flatten(1)


class Conv(TorchNetwork):
    """Convolutions, hidden layers with ReLU and a linear output layer.

    Parameters
    ----------
    encoder
        The convolutions.
    inputs
        Size of a flattened frame.
    history
        Number of frames before the current one.
    hidden, outputs
        Widths of the layers.
    """

    def __init__(
        self, encoder: Encoder, inputs: int, history: int, hidden: tuple[int, ...], outputs: int
    ) -> None:
        self.encoder = encoder
        self._widths = (encoder.outputs, *hidden, outputs)
        blocks = list(encoder.blocks)
        for layer in range(len(hidden) + 1):
            blocks += [
                (f"weight{layer}", (self._widths[layer], self._widths[layer + 1])),
                (f"bias{layer}", (self._widths[layer + 1],)),
            ]
        super().__init__(inputs, outputs, blocks, history)

    def initialise(self, rng: np.random.Generator) -> F32:
        """Sample initial weights, shape (size,)."""
        flat = np.zeros(self.size, np.float32)
        w, last = self.views(flat), len(self._widths) - 2
        self.encoder.initialise(w, rng)
        for layer in range(last):
            fill_glorot(w[f"weight{layer}"], rng)
        fill_near_zero(w[f"weight{last}"], self._widths[-2], rng)
        return flat

    def reference(
        self, weights: torch.Tensor | Weights, windows: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Compute outputs at the last frame of each window, shape (B, outputs)."""
        w = weights if isinstance(weights, dict) else self.views(weights)
        h, last = self.encoder(w, windows), len(self._widths) - 2
        for layer in range(last):
            h = torch.relu(torch.addmm(w[f"bias{layer}"], h, w[f"weight{layer}"]))
        return torch.addmm(w[f"bias{last}"], h, w[f"weight{last}"])
