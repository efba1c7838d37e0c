"""The network of DQN and Rainbow: two streams, noise on the weights, a distribution of returns, each where asked for.

Q(s, a)  = V(s) + A(s, a) - (1/K) sum_a' A(s, a')                 duelling (Wang et al. 2016, eq. 9), of logits too
y        = ( mu_w + sigma_w e_w ) x + mu_b + sigma_b e_b,   e_w = f(e_in) f(e_out)',   e_b = f(e_out)
f(x)     = sgn(x) sqrt|x|                                         noisy layers (Fortunato et al. 2018, eqs. 9 to 11)
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rl_agent.networks.conv import Blocks, Encoder, TorchNetwork, Weights
from rl_agent.networks.network import fill_glorot, fill_near_zero
from rl_agent.runtime.lazy_torch import torch

__all__ = ["QNetwork", "squashed_noise"]

F32 = npt.NDArray[np.float32]

FARTHEST = 10.0
"""Bound of standardised states; without one, ReLU and the maximum over actions run away together."""


def squashed_noise(size: int, rng: np.random.Generator) -> F32:
    """Sample f of normal numbers, shape (size,)."""
    sampled = rng.standard_normal(size, np.float32)
    return np.sign(sampled) * np.sqrt(np.abs(sampled))


class QNetwork(TorchNetwork):
    """Logits of the distribution of returns of each action, or with one atom its Q, shape (B, K atoms).

    Parameters
    ----------
    inputs, history
        Numbers in an observation, and observations before the present one.
    hidden
        Widths; the last of them is that of each stream.
    choices, atoms
        Actions, and atoms of their distributions.
    encoder
        Convolutions beneath; ``None`` reads vectors.
    is_dueling
        Whether there is a stream for V beside that for A.
    sigma
        Noise of the layers of the streams at first, over the root of what comes in; ``None`` for no noise.

    Attributes
    ----------
    noise_size
        Length of the block ``noise``, which holds the noise that is acted with, and is not learned.
    """

    def __init__(
        self,
        inputs: int,
        history: int,
        hidden: tuple[int, ...],
        choices: int,
        atoms: int,
        *,
        encoder: Encoder | None,
        is_dueling: bool,
        sigma: float | None,
    ) -> None:
        self._encoder, self._choices, self._atoms, self._sigma = encoder, choices, atoms, sigma
        first = (history + 1) * inputs if encoder is None else encoder.outputs
        self._shared = list(zip((first, *hidden[:-2]), hidden[:-1], strict=False))
        below = hidden[-2] if len(hidden) > 1 else first
        self._layers: dict[str, tuple[int, int]] = {}
        for stream, wide in (("value", atoms), ("advantage", choices * atoms)):
            if stream == "advantage" or is_dueling:
                self._layers |= {
                    f"{stream}0": (below, hidden[-1]),
                    f"{stream}1": (hidden[-1], wide),
                }
        blocks: Blocks = [] if encoder is None else list(encoder.blocks)
        for layer, shape in enumerate(self._shared):
            blocks += [(f"weight{layer}", shape), (f"bias{layer}", shape[1:])]
        for name, shape in self._layers.items():
            for of in ("mean", "sigma")[: 1 if sigma is None else 2]:
                blocks += [(f"{name}/{of}", shape), (f"{name}/{of}_bias", shape[1:])]
        self.noise_size = 0 if sigma is None else sum(map(sum, self._layers.values()))
        if self.noise_size:
            blocks.append(("noise", (self.noise_size,)))
        super().__init__(inputs, choices * atoms, blocks, history)

    def initialise(self, rng: np.random.Generator) -> F32:
        """Sample fresh weights, shape (size,); noisy layers as Fortunato et al. do, section 3.2."""
        flat = np.zeros(self.size, np.float32)
        w = self.views(flat)
        if self._encoder is not None:
            self._encoder.initialise(w, rng)
        for layer in range(len(self._shared)):
            fill_glorot(w[f"weight{layer}"], rng)
        for name, (fan_in, _) in self._layers.items():
            if self._sigma is not None:
                bound = 1.0 / math.sqrt(fan_in)
                for block in (w[f"{name}/mean"], w[f"{name}/mean_bias"]):
                    block[:] = rng.uniform(-bound, bound, block.shape)
                w[f"{name}/sigma"][:] = w[f"{name}/sigma_bias"][:] = self._sigma * bound
            elif name.endswith("0"):
                fill_glorot(w[f"{name}/mean"], rng)
            else:
                fill_near_zero(w[f"{name}/mean"], fan_in, rng)
        return flat

    def reference(
        self, weights: torch.Tensor | Weights, windows: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Compute logits, shape (B, K atoms), with the noise that stands in the weights."""
        w = weights if isinstance(weights, dict) else self.views(weights)
        # states of a first few steps have small deviations, and what comes later may be tens of them away
        h = (
            windows.clamp(-FARTHEST, FARTHEST).transpose(0, 1).flatten(1)
            if self._encoder is None
            else self._encoder(w, windows)
        )
        for layer in range(len(self._shared)):
            h = torch.relu(torch.addmm(w[f"bias{layer}"], h, w[f"weight{layer}"]))
        noise = (
            torch.split(w["noise"], [wide for shape in self._layers.values() for wide in shape])
            if self._sigma
            else ()
        )
        of_layer = dict(zip(self._layers, zip(noise[::2], noise[1::2], strict=True), strict=False))

        def linear(name: str, x: torch.Tensor) -> torch.Tensor:
            weight, bias = w[f"{name}/mean"], w[f"{name}/mean_bias"]
            if name in of_layer:
                coming, going = of_layer[name]
                weight = weight + w[f"{name}/sigma"] * torch.outer(coming, going)
                bias = bias + w[f"{name}/sigma_bias"] * going
            return torch.addmm(bias, x, weight)

        advantage = linear("advantage1", torch.relu(linear("advantage0", h)))
        if "value0" not in self._layers:
            return advantage
        each = advantage.view(-1, self._choices, self._atoms)
        value = linear("value1", torch.relu(linear("value0", h)))[:, None]
        return (value + each - each.mean(1, keepdim=True)).flatten(1)
