"""TIS and Trust-TIS, the replay baselines of the ACER paper (Wang et al. 2017, appendix E.2; Wawrzynski 2009).

A3C on replayed segments of episodes, weighted by the product of importance weights up to the end of the segment.
For a segment s_0, a_0, r_1, ... s_k of at most ``segment`` steps, with rho_i = pi(a_i|s_i) / mu(a_i|s_i):

    G_t  = r_{t+1} + gamma r_{t+2} + ... + gamma^(k-t) V(s_k),  V = 0 after a terminal state
    w_t  = min( c, rho_t rho_{t+1} ... rho_{k-1} )
    g    = w_t ( G_t - V(s_t) ) grad_phi log f(a_t|phi)
    z    = g;  with a trust region  g - max( 0, (k'g - delta) / |k|^2 ) k                                    (eq. 12)
    L    = - phi' z  +  w_t ( G_t - V(s_t) )^2 / 2,  z, w and G constant

with phi the mean of a Gaussian of fixed sigma or the probabilities of discrete actions, and k the gradient by phi of
D_KL( f(.|phi_a) || f(.|phi) ) of the average policy, whose weights follow: w_a <- (1 - alpha) w_a + alpha w.

Defaults are those of the ACER paper (section 6): c 5, segments of 50 steps, sigma 0.3, delta 1, alpha 0.005. The memory
size, the learning start and 24 segments per gradient are those of ACER here. Settings that are not given are fitted to
the run (``config.py``).

Differences from the paper: returns and products run to the end of the segment, as in A3C, whereas the appendix has k
steps after each step; one gradient for all segments, averaged over their steps, instead of asynchronous threads;
separate networks for policy and value; no entropy bonus. An LSTM runs along the segments
(``rl_agent/networks/unroll.py``).
"""

from __future__ import annotations

import numpy as np

from rl_agent.algorithms import segments
from rl_agent.algorithms.algorithm import Tensors
from rl_agent.algorithms.segments import make_actor
from rl_agent.algorithms.tis.config import TISConfig
from rl_agent.config import HasTrustRegion
from rl_agent.networks import Parts, make_network
from rl_agent.networks.distributions.densities import LOG_RHO_BOUND
from rl_agent.normalization.spaces import Sizes
from rl_agent.runtime.lazy_torch import torch

__all__ = ["TIS", "make_actor"]


class TIS(segments.SegmentAlgorithm):
    """A policy and a value network, and with a trust region the policy's average; see the module docstring."""

    config: TISConfig

    def __init__(self, config: TISConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        parts = Parts(policy=actor.network, value=make_network(config, sizes.observation, 1))
        groups = {name: (name, name) for name in ("policy", "value")}
        super().__init__(config, sizes, actor, parts, groups, rng)

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute L over all steps of the segments."""
        config, choices, m = self.config, self.sizes.choices, len(inputs["action"])
        views, (steps, after) = self.parts.views(weights), segments.step_indices(inputs)
        outputs = self.along("policy", views, inputs, steps)
        phi = segments.statistics(outputs, choices)
        rho, log_rho, kl = segments.compare(inputs, outputs, config.sigma, choices)
        values = self.along("value", views, inputs, torch.cat([steps, after]))[:, 0]
        value = values[:m]
        with torch.no_grad():
            grid, flat = segments.between(inputs)
            reward = grid(inputs["reward"])
            nothing, one = torch.zeros_like(reward), torch.ones_like(reward)
            returns = flat(
                segments.retrace(
                    reward,
                    nothing,
                    nothing,
                    one,
                    values[m:] * inputs["nonterminal"],
                    inputs["gamma"],
                )
            )
            log_weight = flat(grid(log_rho).flip(0).cumsum(0).flip(0)).clamp(
                -LOG_RHO_BOUND, LOG_RHO_BOUND
            )
            weight = log_weight.exp().clamp(max=config.importance_clip)
            slope = segments.grad_log_density(phi, inputs["action"], config.sigma, choices)
            z = (weight * (returns - value))[:, None] * slope
            if isinstance(config, HasTrustRegion):
                target = self.parts.views(inputs["target_weights"])
                average = segments.statistics(self.along("policy", target, inputs, steps), choices)
                k = segments.grad_kl(phi, average, config.sigma, choices)
                z = segments.trust_region_step(z, k, config.trust_region)
        value_loss = 0.5 * weight * (returns - value) ** 2
        return self.averaged(
            -(phi * z).sum(1), value_loss, inputs, {"value": value, "rho": rho, "kl": kl}
        )
