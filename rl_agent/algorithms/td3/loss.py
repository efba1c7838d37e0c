"""TD3 (Fujimoto et al. 2018): DDPG with two critics, a smoothed target and a delayed policy.

    a~     = clip( m~(s_{t+1}) + clip( N(0, 0.2^2), -0.5, 0.5 ), -1, 1 )                 target smoothing (eq. 14)
    q_t    = r_{t+1} + gamma min_i Q~_i( s_{t+1}, a~ )                                   clipped double Q (eq. 10)
    L_Q    = sum_i ( Q_i(s_t, a_t) - q_t )^2 / 2
    L_m    = - Q_1( s_t, m(s_t) ),   policy and targets updated every second step        delay (algorithm 1)

Defaults (NERS paper, Oh et al. 2021, table B.1): 2 x 256 ReLU, batch 128, alpha 5e-3, gamma 0.99, memory 1e6, Gaussian
exploration 0.1, the first 5000 actions random. If they are not given, gamma, memory size and learning start are fitted
to the run (``config.py``). Remember-and-Forget is applied as in DDPG (``rl_agent/algorithms/ddpg/loss.py``).

Differences from the papers:

1. The learning rate is 3e-4 (that table prints 5e-3, the authors' later code has 3e-4), not annealed.
2. The policy gradient uses the critics before their update, not after.
3. Initialisation, and scaling of states and rewards; differences 1, 4 and 5 of DDPG also apply.

``gradient.py`` has the analytic gradient of the sum of the losses, for the CPU; ``loss`` is the autograd version, used
on a GPU and as the reference in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Tensors, compare_gaussians
from rl_agent.algorithms.ddpg.loss import make_actor
from rl_agent.algorithms.td3 import gradient
from rl_agent.algorithms.td3.config import TD3Config
from rl_agent.networks import Parts, make_network
from rl_agent.normalization.spaces import Sizes
from rl_agent.runtime.lazy_torch import torch

__all__ = ["TD3", "make_actor"]

F32 = npt.NDArray[np.float32]


class TD3(Algorithm):
    """A policy, two critics and their targets; see the module docstring."""

    config: TD3Config

    def __init__(self, config: TD3Config, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        critic = make_network(config, sizes.observation + sizes.action, 1, sizes.action)
        parts = Parts(policy=actor.network, critic_1=critic, critic_2=critic)
        groups = {"policy": ("policy", "policy"), "critic": ("critic_1", "critic_2")}
        super().__init__(config, sizes, actor, parts, groups, rng)
        self.analytic_gradient = gradient.Gradient(self) if config.device == "cpu" else None

    @property
    def _moves_policy(self) -> bool:
        return (self.optimiser.adams["critic"].steps + 1) % self.config.policy_delay == 0

    def rates(self, share: float) -> dict[str, float]:
        """Return the learning rates, without the policy's in steps that do not update it."""
        rates = super().rates(share)
        return rates if self._moves_policy else {"critic": rates["critic"]}

    def target_rate(self) -> float:
        """Return ``tau`` in steps that update the policy, otherwise 0."""
        return self.config.tau if self._moves_policy else 0.0

    def inputs(self, batch: Any, weight: F32 | None) -> dict[str, Any]:
        """Add the noise of the target actions."""
        return super().inputs(batch, weight) | {"noise": self._noise(batch.action.shape)}

    def _noise(self, shape: tuple[int, ...]) -> F32:
        noise = np.float32(self.config.target_noise) * self._rng.standard_normal(shape, np.float32)
        bound = self.config.target_noise_clip
        return noise.clip(-bound, bound)

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute L_Q + L_m of a batch of transitions."""
        windows, lengths, action = inputs["windows"], inputs["lengths"], inputs["action"]
        views, detached = self.parts.views(weights), self.parts.views(weights.detach())
        with torch.no_grad():
            target, after = (
                self.parts.views(inputs["target_weights"]),
                (inputs["next_windows"], inputs["next_lengths"]),
            )
            chosen = (torch.tanh(self.parts("policy", target, *after)) + inputs["noise"]).clamp(
                -1.0, 1.0
            )
            both = (
                self.parts(name, target, *after, chosen)[:, 0] for name in ("critic_1", "critic_2")
            )
            following = torch.minimum(*both)
            q_target = inputs["reward"] + inputs["gamma"] * inputs["nonterminal"] * following
        learns = views if "policy" in self.due else detached
        mean = torch.tanh(self.parts("policy", learns, windows, lengths))
        std = torch.full_like(mean[0], self.config.sigma)
        rho, kl, far, kept = compare_gaussians(inputs, mean, std)

        taken = action.clamp(-1.0, 1.0)
        q_1, q_2 = (
            self.parts(name, views, windows, lengths, taken)[:, 0]
            for name in ("critic_1", "critic_2")
        )
        error = q_target - q_1
        value_loss = 0.5 * inputs["weight"] * (error**2 + (q_target - q_2) ** 2) * kept
        policy_loss = -self.parts("critic_1", detached, windows, lengths, mean)[:, 0] * kept
        loss = value_loss + inputs["beta"] * policy_loss + (1.0 - inputs["beta"]) * kl
        count = kept.sum().clamp(min=1.0)
        results = {"value": q_1, "rho": rho, "kl": kl, "far": far, "td_error": error}
        results |= {
            "policy_loss": policy_loss.sum() / count,
            "value_loss": value_loss.sum() / count,
        }
        return loss.mean() + self.weight_decay(weights, "critic_1", "critic_2"), results
