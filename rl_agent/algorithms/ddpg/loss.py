"""DDPG (Lillicrap et al. 2016) as in Novati & Koumoutsakos 2019, section 2 and algorithm 4, with Remember-and-Forget.

A policy network m(s), a critic Q(s, a), and target networks m~, Q~ that follow both:

    q_t    = r_{t+1} + gamma Q~( s_{t+1}, m~(s_{t+1}) ),   no second term after a terminal state        (algorithm 4)
    L_Q    = ( Q(s_t, a_t) - q_t )^2 / 2 [near-policy]  + l/2 |w_Q|^2                                    (eq. 2)
    L_DPG  = - Q( s_t, m(s_t) ),  Q's weights held constant                                              (eq. 3)
    L_m    = beta L_DPG [near-policy] + (1 - beta) D_KL( mu_t || pi )                                    (eq. 10)
    w~     <- (1 - alpha) w~ + alpha w                                                                   (alpha 0.01)

The policy is pi = m + N(0, sigma^2), sigma = 0.2, with m = tanh of the network; rho and D_KL are of these Gaussians.
Defaults (appendix A): 2 x 128 softsign, learning rates 1e-4 (critic) and 1e-5 (policy), l = 1e-4, batch 128.
With ``replay`` ``none`` exploration is an Ornstein-Uhlenbeck process (sigma 0.2, theta 0.15) and nothing is annealed.
Settings that are not given are fitted to the run: learning rates (the policy's is 0.3 of the critic's), gamma, memory
size, learning start, annealing and initial beta (``config.py``).

Differences from the paper, and details that it leaves open:

1. The critic sees actions clipped to [-1, 1], as the environment clips them; rho uses the unclipped ones.
2. Both networks are updated in the same step, with gradients taken before it.
3. beta weights only the policy's loss, as in algorithm 4; the critic's loss has no penalty to balance.
4. A critic with an LSTM sees the past observations without the past actions (``rl_agent/networks/parameter_views.py``).
5. The weights of a prioritised sampler multiply the critic's loss; the policy's gradient is not weighted.

``loss`` is L_Q + L_m for autograd, used on a GPU; on a CPU the analytic gradient is used (``gradient.py``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Tensors, compare_gaussians
from rl_agent.algorithms.ddpg import gradient
from rl_agent.algorithms.ddpg.config import DDPGConfig
from rl_agent.config import ActorCritic
from rl_agent.networks import Parts, make_network
from rl_agent.networks.actor import Actor, Head
from rl_agent.normalization.spaces import Sizes
from rl_agent.runtime.lazy_torch import torch

__all__ = ["DDPG", "make_actor"]

F32 = npt.NDArray[np.float32]


def make_actor(config: ActorCritic, sizes: Sizes) -> Actor:
    """Build the policy: the mean is tanh of the network, sigma is fixed."""
    network = make_network(config, sizes.observation, sizes.action)
    std = np.full(sizes.action, config.sigma, np.float32)

    def statistics(outputs: F32, loose: F32) -> tuple[F32, F32, F32]:
        return np.zeros(len(outputs), np.float32), np.tanh(outputs), std

    return Actor(network, 0, Head(statistics, lambda outputs: torch.tanh(outputs)))


class DDPG(Algorithm):
    """A policy, a critic and their targets; see the module docstring."""

    config: DDPGConfig

    def __init__(self, config: DDPGConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        parts = Parts(
            policy=actor.network,
            critic=make_network(config, sizes.observation + sizes.action, 1, sizes.action),
        )
        groups = {"policy": ("policy", "policy"), "critic": ("critic", "critic")}
        super().__init__(config, sizes, actor, parts, groups, rng)
        self.analytic_gradient = gradient.Gradient(self) if config.device == "cpu" else None

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute L_Q + L_m of a batch of transitions."""
        windows, lengths, action = inputs["windows"], inputs["lengths"], inputs["action"]
        views, detached = self.parts.views(weights), self.parts.views(weights.detach())
        with torch.no_grad():
            target = self.parts.views(inputs["target_weights"])
            after = inputs["next_windows"], inputs["next_lengths"]
            best = torch.tanh(self.parts("policy", target, *after))
            following = self.parts("critic", target, *after, best)[:, 0]
            q_target = inputs["reward"] + inputs["gamma"] * inputs["nonterminal"] * following
        mean = torch.tanh(self.parts("policy", views, windows, lengths))
        std = torch.full_like(mean[0], self.config.sigma)
        rho, kl, far, kept = compare_gaussians(inputs, mean, std)

        q = self.parts("critic", views, windows, lengths, action.clamp(-1.0, 1.0))[:, 0]
        error = q_target - q
        value_loss = 0.5 * inputs["weight"] * error**2 * kept
        policy_loss = -self.parts("critic", detached, windows, lengths, mean)[:, 0] * kept
        loss = value_loss + inputs["beta"] * policy_loss + (1.0 - inputs["beta"]) * kl
        count = kept.sum().clamp(min=1.0)
        results = {"value": q, "rho": rho, "kl": kl, "far": far, "td_error": error}
        results |= {
            "policy_loss": policy_loss.sum() / count,
            "value_loss": value_loss.sum() / count,
        }
        return loss.mean() + self.weight_decay(weights, "critic"), results
