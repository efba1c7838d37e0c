"""SAC (Haarnoja et al. 2018): soft actor-critic with two critics and automatic temperature tuning.

The policy is a = tanh(u), u ~ N( m(s), sigma(s)^2 ); log pi includes the slope of tanh (appendix C):

    q_t     = r_{t+1} + gamma [ min_i Q~_i(s_{t+1}, a') - T log pi(a'|s_{t+1}) ],   a' ~ pi( . | s_{t+1})       (eq. 3)
    L_Q     = sum_i ( Q_i(s_t, a_t) - q_t )^2 / 2                                                             (eq. 5)
    L_pi    = T log pi(a|s_t) - min_i Q_i(s_t, a),   a ~ pi( . | s_t) reparameterised                         (eq. 7)
    L_T     = - log T ( log pi(a|s_t) + H ),   log pi held constant,   H = - number of action components       (eq. 18)

T is the temperature (alpha in the papers; tuned as in Haarnoja et al. 2018b, eq. 18, but log T multiplies the bracket,
as in the authors' code). Defaults (NERS paper, table B.1): 2 x 256 ReLU, batch 128, learning rate 3e-4, tau 5e-3,
gamma 0.99, memory 1e6, the first 5000 actions random. If they are not given, gamma, memory size and learning start are
fitted to the run (``config.py``).

Remember-and-Forget, if used: rho and D_KL are those of the Gaussians of u, which tanh leaves unchanged; the loss has
L_Q and beta L_pi of near-policy steps, and (1 - beta) D_KL.

Differences from the papers:

1. All networks are updated in the same step, with gradients taken before it.
2. log sigma is clipped to [-5, 2]; sigma starts at ``config.sigma``.
3. Actions of the agents (not those in the losses) are truncated at three standard deviations, as in all algorithms
   here.
4. Initialisation, and scaling of states and rewards: T is therefore in units of scaled rewards.
5. Differences 4 and 5 of DDPG also apply.

``loss`` is the sum of the losses for autograd, used on a GPU; on a CPU the analytic gradient is used (``gradient.py``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Tensors, compare_gaussians
from rl_agent.algorithms.sac import gradient
from rl_agent.algorithms.sac.config import SACConfig
from rl_agent.networks import Parts, Views, make_network
from rl_agent.networks.actor import Actor, Head
from rl_agent.networks.distributions import densities
from rl_agent.normalization.spaces import Sizes
from rl_agent.runtime.lazy_torch import torch

__all__ = ["SAC", "make_actor"]

F32 = npt.NDArray[np.float32]

LOG_STD_BOUNDS = (-5.0, 2.0)


def make_actor(config: SACConfig, sizes: Sizes) -> Actor:
    """Build the policy: mean and log sigma (relative to ``config.sigma``) of the action before the tanh."""
    network, first = (
        make_network(config, sizes.observation, 2 * sizes.action),
        math.log(config.sigma),
    )

    def statistics(outputs: F32, loose: F32) -> tuple[F32, F32, F32]:
        mean, log_std = np.split(outputs, 2, axis=1)
        std = np.exp(np.clip(log_std + np.float32(first), *LOG_STD_BOUNDS))
        return np.zeros(len(outputs), np.float32), mean, std

    return Actor(network, 0, Head(statistics, lambda outputs: outputs[:, : sizes.action]))


class SAC(Algorithm):
    """A stochastic policy, two critics with targets, and a temperature; see the module docstring."""

    config: SACConfig

    def __init__(self, config: SACConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        critic = make_network(config, sizes.observation + sizes.action, 1, sizes.action)
        parts = Parts(policy=actor.network, critic_1=critic, critic_2=critic, temperature=1)
        groups = {
            "policy": ("policy", "policy"),
            "critic": ("critic_1", "critic_2"),
            "temperature": ("temperature", "temperature"),
        }
        super().__init__(config, sizes, actor, parts, groups, rng)
        self.weights[self.parts.slices["temperature"]] = math.log(config.temperature)
        self.torch_step.to_device()
        self._target_entropy = (
            -float(sizes.action) if config.target_entropy is None else config.target_entropy
        )
        if config.device == "cpu":
            self.analytic_gradient = gradient.Gradient(self, self._target_entropy, LOG_STD_BOUNDS)

    def inputs(self, batch: Any, weight: F32 | None) -> dict[str, Any]:
        """Add the noise of the current and the next actions."""
        noise, next_noise = (
            self._rng.standard_normal(batch.action.shape, np.float32) for _ in range(2)
        )
        return super().inputs(batch, weight) | {"noise": noise, "next_noise": next_noise}

    def statistics(self) -> dict[str, float]:
        """Return the temperature T as ``temperature``."""
        self.torch_step.to_host()
        return {"temperature": float(np.exp(self.host_weights["temperature"][""][0]))}

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute L_Q + L_pi + L_T of a batch of transitions."""
        windows, lengths, action = inputs["windows"], inputs["lengths"], inputs["action"]
        views, detached = self.parts.views(weights), self.parts.views(weights.detach())
        target = self.parts.views(inputs["target_weights"])
        log_temperature = views["temperature"][""]
        temperature = log_temperature.detach().exp()
        with torch.no_grad():
            after, after_lengths = inputs["next_windows"], inputs["next_lengths"]
            raw, log_pi, _, _ = self._sample(detached, after, after_lengths, inputs["next_noise"])
            soft = self._lesser_q(target, after, after_lengths, raw) - temperature * log_pi
            q_target = inputs["reward"] + inputs["gamma"] * inputs["nonterminal"] * soft
        raw, log_pi, mean, std = self._sample(views, windows, lengths, inputs["noise"])
        rho, kl, far, kept = compare_gaussians(inputs, mean, std)

        taken = torch.tanh(action)
        q_1, q_2 = (
            self.parts(name, views, windows, lengths, taken)[:, 0]
            for name in ("critic_1", "critic_2")
        )
        error = q_target - q_1
        value_loss = 0.5 * inputs["weight"] * (error**2 + (q_target - q_2) ** 2) * kept
        policy_loss = (
            temperature * log_pi - self._lesser_q(detached, windows, lengths, raw)
        ) * kept
        entropy_loss = -(log_temperature * (log_pi.detach() + self._target_entropy))
        loss = (
            value_loss + inputs["beta"] * policy_loss + (1.0 - inputs["beta"]) * kl + entropy_loss
        )
        count = kept.sum().clamp(min=1.0)
        results = {"value": q_1, "rho": rho, "kl": kl, "far": far, "td_error": error}
        results |= {
            "policy_loss": policy_loss.sum() / count,
            "value_loss": value_loss.sum() / count,
        }
        return loss.mean() + self.weight_decay(weights, "critic_1", "critic_2"), results

    def _sample(
        self, views: Views, windows: torch.Tensor, lengths: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Sample actions before the tanh; return them, log pi of the squashed actions, mean and std."""
        mean, log_std = self.parts("policy", views, windows, lengths).chunk(2, dim=1)
        std = (log_std + math.log(self.config.sigma)).clamp(*LOG_STD_BOUNDS).exp()
        raw = mean + std * noise
        return raw, densities.squashed_log_density(raw, mean, std), mean, std

    def _lesser_q(
        self, views: Views, windows: torch.Tensor, lengths: torch.Tensor, raw: torch.Tensor
    ) -> torch.Tensor:
        sampled = torch.tanh(raw)
        return torch.minimum(
            *(
                self.parts(name, views, windows, lengths, sampled)[:, 0]
                for name in ("critic_1", "critic_2")
            )
        )
