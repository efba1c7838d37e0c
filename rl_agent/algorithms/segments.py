"""Code shared by algorithms that learn from segments of episodes: consecutive steps up to a bootstrap.

The policy is a Gaussian with a fixed sigma, or categorical. The trust region of the ACER paper (section 3.3) is defined
in the space of its statistics phi, the mean or the probabilities: the policy's loss is -phi' z with z constant, where z
is the policy gradient g with respect to phi, projected onto the trust region if there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Tensors, near_policy_masks
from rl_agent.config import AgentConfig, SegmentConfig
from rl_agent.networks import Views, make_network, unrolled_outputs
from rl_agent.networks.actor import Actor, categorical_head, gaussian_head
from rl_agent.networks.distributions import densities
from rl_agent.normalization.spaces import Sizes
from rl_agent.replay import targets
from rl_agent.replay.batch import Source
from rl_agent.runtime.lazy_torch import torch

__all__ = [
    "SegmentAlgorithm",
    "Segments",
    "between",
    "compare",
    "grad_kl",
    "grad_log_density",
    "make_actor",
    "retrace",
    "statistics",
    "step_indices",
    "trust_region_step",
]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Segments:
    """n sampled segments of up to T steps, aligned at their ends in a grid (T, n); M of its entries are gathered.

    Attributes
    ----------
    sequences, lengths
        Up to ``network.history`` observations before each segment, its own and the one that followed, aligned at their
        ends, zeros before an episode, shape (H + T + 1, n, S); and how many of them exist, in descending order, (n,).
    action, behaviour_mean, behaviour_std, reward
        Data of the gathered steps, shape (M, ...); the reward is scaled.
    index
        Row-major position of each of the M steps in the grid, shape (M,).
    exists
        1 for steps of a segment, 0 for entries before it begins, shape (T, n).
    nonterminal
        0 where a terminal state follows the segment, else 1, shape (n,).
    gamma
        Current discount factor.
    """

    sequences: F32
    lengths: I64
    action: F32
    behaviour_mean: F32
    behaviour_std: F32
    reward: F32
    index: I64
    exists: F32
    nonterminal: F32
    gamma: float


def make_actor(config: AgentConfig, sizes: Sizes) -> Actor:
    """Build the policy: the mean of a Gaussian with a fixed sigma, or logits."""
    network = make_network(config, sizes.observation, sizes.choices or sizes.action)
    if sizes.choices:
        return Actor(network, 0, categorical_head(sizes.choices))
    std = np.full(sizes.action, config.sigma, np.float32)
    return Actor(network, 0, gaussian_head(sizes.action, lambda tail, loose: std))


def retrace(
    reward: torch.Tensor,
    value: torch.Tensor,
    q: torch.Tensor,
    trace: torch.Tensor,
    last: torch.Tensor,
    gamma: torch.Tensor | float,
) -> torch.Tensor:
    """Compute Q_i = r_{i+1} + gamma [ trace_{i+1} (Q_{i+1} - q_{i+1}) + V_{i+1} ] along segments (Retrace).

    With ``trace`` 1 the result is Q_opc.

    Parameters
    ----------
    reward, value, q, trace
        r_{i+1}, V(s_i), Q(s_i, a_i) and the trace coefficient, shape (T, n).
    last
        Value after the last steps, shape (n,).
    gamma
        Discount factor.

    Returns
    -------
    Tensor
        The targets, shape (T, n).
    """
    found, following = [], last
    for i in range(len(reward) - 1, -1, -1):
        target = reward[i] + gamma * following
        found.append(target)
        following = targets.corrected(value[i], trace[i], target - q[i])
    return torch.stack(found[::-1])


def trust_region_step(g: torch.Tensor, k: torch.Tensor, delta: float) -> torch.Tensor:
    """Solve min_z |g - z|^2 / 2 subject to k'z <= delta over the last axis (eqs. 11, 12)."""
    excess = ((k * g).sum(-1, keepdim=True) - delta).clamp(min=0.0)
    return g - excess / (k * k).sum(-1, keepdim=True).clamp(min=1e-12) * k


def statistics(outputs: torch.Tensor, choices: int) -> torch.Tensor:
    """Convert outputs of the policy to phi: the mean, or the probabilities of ``choices`` actions."""
    return torch.softmax(outputs, -1) if choices else outputs


def grad_log_density(
    phi: torch.Tensor, action: torch.Tensor, sigma: float, choices: int
) -> torch.Tensor:
    """Compute the gradient of log f(a|phi) by phi, shape of phi: (a - m) / sigma^2, or 1 / p_a at component a."""
    if choices:
        return torch.zeros_like(phi).scatter(1, action.long(), 1.0) / phi.clamp(min=1e-6)
    return (action - phi) / sigma**2


def grad_kl(phi: torch.Tensor, average: torch.Tensor, sigma: float, choices: int) -> torch.Tensor:
    """Compute the gradient k of D_KL( f(.|average) || f(.|phi) ) by phi, shape of phi."""
    return -average / phi.clamp(min=1e-6) if choices else (phi - average) / sigma**2


def compare(
    inputs: Tensors, outputs: torch.Tensor, sigma: float, choices: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compare the policy with the stored behaviour; return rho (held constant), log rho and D_KL(mu || pi), (M,)."""
    action, mu = inputs["action"], inputs["behaviour_mean"]
    if choices:
        log_pi = densities.categorical_log_density(action, outputs)
        log_rho = log_pi - torch.log(mu.gather(-1, action.long()).squeeze(-1).clamp(min=1e-6))
        kl = densities.categorical_kl(mu, outputs)
    else:
        std, behaviour = torch.full_like(outputs[:1], sigma), (mu, inputs["behaviour_std"])
        log_rho = densities.gaussian_log_density(action, outputs, std)
        log_rho = log_rho - densities.gaussian_log_density(action, *behaviour)
        kl = densities.gaussian_kl(*behaviour, outputs, std)
    log_rho = log_rho.detach()
    return densities.importance_weight(log_rho, torch.zeros_like(log_rho)), log_rho, kl


def between(
    inputs: Tensors,
) -> tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]:
    """Return functions that map gathered values, shape (M,), to the grid of ``Segments``, and back."""
    shape, index = inputs["exists"].shape, inputs["index"].long()

    def grid(x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(shape.numel()).index_copy(0, index, x).reshape(shape)

    return grid, lambda y: y.reshape(-1)[index]


def step_indices(inputs: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the row-major positions in ``sequences`` of the M steps, and of the n observations after the last ones."""
    total, n, _ = inputs["sequences"].shape
    before = total - 1 - len(inputs["exists"])
    after = (total - 1) * n + torch.arange(n, device=inputs["index"].device)
    return inputs["index"].long() + before * n, after


class SegmentAlgorithm(Algorithm):
    """Base class of algorithms that gather segments of up to ``segment`` steps and average losses over them."""

    config: SegmentConfig

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_step: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)

    def gather(self, source: Source, indices: I64) -> tuple[I64, Segments]:
        """Gather the segments that end at ``indices``, sorted by descending number of known observations."""
        storage, history, count = source.memory.storage, self.network.history, len(indices)
        longest = self.config.segment
        if self.config.device == "cpu":  # a CUDA graph needs constant shapes
            longest = min(longest, int(storage.position[indices].max()) + 1)
        else:  # one of a few shapes, padded with empty segments
            indices = np.resize(indices, -(-count // self.config.episodes) * self.config.episodes)
        known = np.minimum(storage.steps_before(indices) + 2, history + longest + 1)
        order = np.argsort(-known, kind="stable")
        ends, known = indices[order], known[order]
        back = np.arange(longest - 1, -1, -1)[:, None]
        exists = (storage.position[ends] >= back) & (order < count)
        is_gathered = exists if self.config.device == "cpu" else np.ones_like(exists)
        index = np.flatnonzero(is_gathered)
        indices = (np.where(exists, ends - back, ends) % storage.capacity).reshape(-1)[index]
        rows = storage.rows(ends)
        is_last = storage.position[ends] + 1 == storage.length[rows]
        self._is_step = exists.reshape(-1)[index]
        return indices[self._is_step], Segments(
            sequences=storage.following(ends, history + longest + 1, source.mean, source.per_std),
            lengths=known,
            action=storage.action[indices],
            behaviour_mean=storage.behaviour_mean[indices],
            behaviour_std=storage.behaviour_std[indices],
            reward=storage.reward[indices] * np.float32(1.0 / source.reward_scale),
            index=index,
            exists=exists.astype(np.float32),
            nonterminal=(~(storage.terminated[rows] & is_last)).astype(np.float32),
            gamma=source.gamma,
        )

    def sorted_results(self, results: dict[str, Any]) -> dict[str, Any]:
        """Drop the padding rows."""
        return {
            name: array[self._is_step] if np.ndim(array) else array
            for name, array in results.items()
        }

    def along(
        self,
        name: str,
        views: Views,
        inputs: Tensors,
        index: torch.Tensor,
        actions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute the outputs of the network ``name`` at the positions ``index`` of the segments."""
        return unrolled_outputs(
            self.parts, name, views, inputs["sequences"], inputs["lengths"], index, actions
        )

    def averaged(
        self, policy_loss: torch.Tensor, value_loss: torch.Tensor, inputs: Tensors, results: Tensors
    ) -> tuple[torch.Tensor, Tensors]:
        """Average the losses over the steps that exist."""
        exists = inputs["exists"].reshape(-1)[inputs["index"].long()]
        mean = lambda x: (x * exists).sum() / exists.sum()  # noqa: E731
        far, _ = near_policy_masks(results["rho"], inputs)
        losses = {"policy_loss": mean(policy_loss), "value_loss": mean(value_loss)}
        return losses["policy_loss"] + losses["value_loss"], results | losses | {"far": far}
