"""PPO (Schulman et al. 2017), the on-policy baseline of Novati & Koumoutsakos 2019 (appendix A).

A policy network and a value network. Every ``horizon`` environment steps, over all agents, the open episodes are cut
(bootstrapped with V like truncated ones), and with the current networks

    delta_t = r_{t+1} + gamma V(s_{t+1}) - V(s_t)
    A_t     = delta_t + gamma lambda A_{t+1},   then standardised over the horizon            GAE (eqs. 11, 12)
    G_t     = V(s_t) + A_t  (before standardising)

Then ``epochs`` passes in batches sampled without replacement minimise

    L_pi    = - min( rho_t A_t, clip(rho_t, 1 - epsilon, 1 + epsilon) A_t )                   (eq. 7)
    L_V     = ( V(s_t) - G_t )^2 / 2

Defaults (appendix A): gamma 0.995, lambda 0.97, epsilon 0.2, 2048 steps, 10 epochs, batch 64, 2 x 64 units (tanh),
learning rates 1e-4 (policy) and 3e-4 (value), annealed as for the other algorithms. If they are not given, gamma,
lambda, horizon, learning rates and annealing are fitted to the run (``config.py``). Continuous actions are Gaussian
with a sigma shared by all states, as in V-RACER; discrete ones are categorical. No entropy bonus, no value clipping.

Differences from common implementations: rho is relative to the policy that sampled each action, which is an older one
for an action in progress when an iteration began. States are standardised with the statistics of the first horizon,
rewards are divided by their root mean square over all steps so far.

``loss`` is the autograd version, used on a GPU; on a CPU the analytic gradient is used (``gradient.py``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Tensors
from rl_agent.algorithms.on_policy import OnPolicy
from rl_agent.algorithms.ppo import gradient
from rl_agent.algorithms.ppo.config import PPOConfig
from rl_agent.networks import Parts, make_network
from rl_agent.networks.actor import Actor, categorical_head, gaussian_head
from rl_agent.networks.distributions import densities, sampling
from rl_agent.networks.distributions.std import PolicyStd
from rl_agent.normalization.spaces import Sizes
from rl_agent.runtime.lazy_torch import torch

__all__ = ["PPO", "make_actor"]

F32 = npt.NDArray[np.float32]


def make_actor(config: PPOConfig, sizes: Sizes) -> Actor:
    """Build the policy: the mean of a Gaussian with a shared sigma, or logits."""
    network = make_network(config, sizes.observation, sizes.choices or sizes.action)
    if sizes.choices:
        return Actor(network, 0, categorical_head(sizes.choices))
    std = PolicyStd(sizes.action, config.sigma_min)
    return Actor(network, std.parameters, gaussian_head(sizes.action, std))


class PPO(OnPolicy):
    """A policy and a value network; see the module docstring."""

    config: PPOConfig

    def __init__(self, config: PPOConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        loose = actor.size - actor.network.size
        parts = Parts(
            policy=actor.network, sigma=loose, value=make_network(config, sizes.observation, 1)
        )
        groups = {"policy": ("policy", "sigma"), "value": ("value", "value")}
        super().__init__(config, sizes, actor, parts, groups, rng)
        self.weights[parts.slices["sigma"]] = sampling.inverse_softplus(
            config.sigma - config.sigma_min
        )
        self.torch_step.to_device()
        if config.device == "cpu":
            std = None if sizes.choices else PolicyStd(sizes.action, config.sigma_min)
            self.analytic_gradient = gradient.Gradient(self, std, config.clip)

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute L_pi + L_V of a batch."""
        windows, lengths, action = inputs["windows"], inputs["lengths"], inputs["action"]
        views = self.parts.views(weights)
        outputs = self.parts("policy", views, windows, lengths)
        if self.sizes.choices:
            log_pi, log_mu, kl = densities.compare_choices(
                action, inputs["behaviour_mean"], outputs
            )
        else:
            sigma = self.config.sigma_min + torch.nn.functional.softplus(views["sigma"][""])
            behaviour = inputs["behaviour_mean"], inputs["behaviour_std"]
            log_pi, log_mu, kl = densities.compare_normals(action, behaviour, (outputs, sigma))
        rho = densities.importance_weight(log_pi, log_mu)
        clipped = rho.clamp(1.0 - self.config.clip, 1.0 + self.config.clip)
        advantage = inputs["q_ret"]
        policy_loss = -torch.minimum(rho * advantage, clipped * advantage).mean()
        value = self.parts("value", views, windows, lengths)[:, 0]
        error = inputs["v_tbc"] - value
        value_loss = 0.5 * (error**2).mean()
        far = (rho != clipped).to(rho.dtype)  # steps whose gradient may be clipped
        results = {"value": value, "rho": rho, "kl": kl, "far": far}
        return policy_loss + value_loss, results | {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
        }
