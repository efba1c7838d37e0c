"""The network of DQN and Rainbow, with optional dueling streams, noisy layers and distribution of returns.

Q(s, a)  = V(s) + A(s, a) - (1/K) sum_a' A(s, a')                 dueling (Wang et al. 2016, eq. 9), also of logits
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
"""Bound of standardised states; without it, ReLU activations and the maximum over actions diverge together."""


def squashed_noise(size: int, rng: np.random.Generator) -> F32:
    """Sample f(x) for standard normal x, shape (size,)."""
    sampled = rng.standard_normal(size, np.float32)
    return np.sign(sampled) * np.sqrt(np.abs(sampled))


class QNetwork(TorchNetwork):
    """Outputs logits of the return distribution of each action, or with one atom its Q, shape (B, K atoms).

    Parameters
    ----------
    inputs, history
        Size of an observation, and number of observations before the current one.
    hidden
        Widths of the hidden layers; the last one is the width of each stream.
    choices, atoms
        Number of actions (K), and of atoms of their distributions.
    encoder
        Convolutions before the hidden layers; ``None`` for vector observations.
    is_dueling
        Whether there is a stream for V in addition to that for A.
    sigma
        Initial noise scale of the streams' layers, divided by the square root of their number of inputs; ``None`` for
        no noise.

    Attributes
    ----------
    noise_size
        Length of the block ``noise``, which holds the noise used for acting, and is not learned.
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
        """Sample initial weights, shape (size,); noisy layers as in Fortunato et al., section 3.2."""
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
        """Compute logits, shape (B, K atoms), with the noise in the block ``noise``."""
        w = weights if isinstance(weights, dict) else self.views(weights)
        # the first few states may have small standard deviations, so later states can be tens of them away
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
