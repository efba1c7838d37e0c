"""A3C (Mnih et al. 2016) and Trust-A3C, the baselines of the ACER paper, synchronous and batched.

A3C has threads that send gradients asynchronously. Here all agents take steps until ``horizon`` steps are collected,
the open episodes are cut there, and one gradient averages over all of these steps (advantage actor-critic). The segment
of an agent has about ``horizon`` / agents steps (the k of eq. 2). With the current networks, up to its end k:

    G_t  = r_{t+1} + gamma r_{t+2} + ... + gamma^(k-t) V(s_k),  V = 0 after a terminal state
    g    = ( G_t - V(s_t) ) grad_phi log f(a_t|phi)                                                         (eq. 2)
    z    = g;  with a trust region  g - max( 0, (k'g - delta) / |k|^2 ) k                                    (eq. 12)
    L    = - phi' z  +  ( G_t - V(s_t) )^2 / 2,  z and G constant

with phi the mean of a Gaussian of fixed sigma or the probabilities of discrete actions, and k the gradient by phi of
D_KL( f(.|phi_a) || f(.|phi) ) of the average policy, whose weights follow: w_a <- (1 - alpha) w_a + alpha w.

Defaults are those of the ACER paper: sigma 0.3, delta 1, alpha 0.005 (section 6), segments of 20 steps (section 4) of
24 agents; the other settings are those of the other algorithms here. Settings that are not given are fitted to the
length of the run (``config.py``).

Differences from the paper: one synchronous gradient instead of asynchronous threads, Adam instead of a shared RMSProp,
separate networks for policy and value, no entropy bonus. An action still in progress when the episodes are cut belongs
to the next iteration. States and rewards are scaled as in ``rl_agent/algorithms/ppo/loss.py``, using a longer first
horizon if one is set.
"""

from __future__ import annotations

import numpy as np

from rl_agent.algorithms import segments
from rl_agent.algorithms.a3c.config import A3CConfig
from rl_agent.algorithms.algorithm import Tensors, near_policy_masks
from rl_agent.algorithms.on_policy import OnPolicy
from rl_agent.algorithms.segments import make_actor
from rl_agent.config import HasTrustRegion
from rl_agent.networks import Parts, make_network
from rl_agent.normalization.spaces import Sizes
from rl_agent.runtime.lazy_torch import torch

__all__ = ["A3C", "make_actor"]


class A3C(OnPolicy):
    """A policy and a value network, and with a trust region the policy's average; see the module docstring."""

    config: A3CConfig

    def __init__(self, config: A3CConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        parts = Parts(policy=actor.network, value=make_network(config, sizes.observation, 1))
        groups = {name: (name, name) for name in ("policy", "value")}
        super().__init__(config, sizes, actor, parts, groups, rng)

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute L of a batch."""
        windows, lengths, config = inputs["windows"], inputs["lengths"], self.config
        views, choices = self.parts.views(weights), self.sizes.choices
        outputs = self.parts("policy", views, windows, lengths)
        phi = segments.statistics(outputs, choices)
        rho, _, kl = segments.compare(inputs, outputs, config.sigma, choices)
        with torch.no_grad():
            z = inputs["q_ret"][:, None] * segments.grad_log_density(
                phi, inputs["action"], config.sigma, choices
            )
            if isinstance(config, HasTrustRegion):
                target = self.parts.views(inputs["target_weights"])
                average = segments.statistics(
                    self.parts("policy", target, windows, lengths), choices
                )
                k = segments.grad_kl(phi, average, config.sigma, choices)
                z = segments.trust_region_step(z, k, config.trust_region)
        value = self.parts("value", views, windows, lengths)[:, 0]
        losses = {
            "policy_loss": -(phi * z).sum(1).mean(),
            "value_loss": 0.5 * ((inputs["v_tbc"] - value) ** 2).mean(),
        }
        far, _ = near_policy_masks(rho, inputs)
        results = {"value": value, "rho": rho, "kl": kl, "far": far} | losses
        return losses["policy_loss"] + losses["value_loss"], results
