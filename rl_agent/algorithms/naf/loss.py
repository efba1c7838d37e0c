"""NAF (Gu et al. 2016) as in Novati & Koumoutsakos 2019, section 2, with Remember-and-Forget.

One network gives V(s), the best action m(s) and a lower-triangular L(s) with a positive (softplus) diagonal:

    Q(s, a) = V(s) - (a - m(s))' L(s) L(s)' (a - m(s))                                                       (eq. 4)
    q_t     = r_{t+1} + gamma V~(s_{t+1}),   as max_a Q~ = V~; no second term after a terminal state         (eq. 2)
    L_Q     = ( Q(s_t, a_t) - q_t )^2 / 2
    L       = beta L_Q [near-policy] + (1 - beta) D_KL( mu_t || pi )                                         (eq. 10)

V~ is that of a target network (rate 0.01). The policy is pi = m + N(0, sigma^2), sigma = 0.2. Defaults (appendix A):
the common network, learning rate 1e-4, batch 256. Settings that are not given are fitted to the run: learning rate,
gamma, memory size, learning start, annealing and initial beta (``config.py``). m is unbounded and the environment
clips the actions, so Q sees the unclipped ones.

``loss`` is L for autograd, used on a GPU; on a CPU the analytic gradient is used (``gradient.py``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.advantages import lower_triangular
from rl_agent.algorithms.algorithm import Algorithm, Tensors, compare_gaussians
from rl_agent.algorithms.naf import gradient
from rl_agent.algorithms.naf.config import NAFConfig
from rl_agent.networks import Parts, make_network
from rl_agent.networks.actor import Actor, Head
from rl_agent.normalization.spaces import Sizes
from rl_agent.runtime.lazy_torch import torch

__all__ = ["NAF", "make_actor", "q_value"]

F32 = npt.NDArray[np.float32]


def make_actor(config: NAFConfig, sizes: Sizes) -> Actor:
    """Build the network with outputs V, m and the entries of L; the policy has a fixed sigma."""
    size = sizes.action
    network = make_network(config, sizes.observation, 1 + size + size * (size + 1) // 2)
    std = np.full(size, config.sigma, np.float32)

    def statistics(outputs: F32, loose: F32) -> tuple[F32, F32, F32]:
        return outputs[:, 0], outputs[:, 1 : 1 + size], std

    return Actor(network, 0, Head(statistics, lambda outputs: outputs[:, 1 : 1 + size]))


def q_value(outputs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Compute Q(s, a) by eq. 4, shape (B,), from the network's outputs and actions (B, A)."""
    size = action.shape[1]
    lower = lower_triangular(outputs[:, 1 + size :], size)
    projected = torch.einsum("nij,ni->nj", lower, action - outputs[:, 1 : 1 + size])
    return outputs[:, 0] - (projected**2).sum(1)


class NAF(Algorithm):
    """The network and its target; see the module docstring."""

    config: NAFConfig

    def __init__(self, config: NAFConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        parts = Parts(network=actor.network)
        super().__init__(config, sizes, actor, parts, {"all": ("network", "network")}, rng)
        self.analytic_gradient = gradient.Gradient(self) if config.device == "cpu" else None

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute L of a batch of transitions."""
        action, beta = inputs["action"], inputs["beta"]
        with torch.no_grad():
            after = inputs["next_windows"], inputs["next_lengths"]
            following = self.parts("network", self.parts.views(inputs["target_weights"]), *after)[
                :, 0
            ]
            q_target = inputs["reward"] + inputs["gamma"] * inputs["nonterminal"] * following
        outputs = self.parts(
            "network", self.parts.views(weights), inputs["windows"], inputs["lengths"]
        )
        mean = outputs[:, 1 : 1 + action.shape[1]]
        std = torch.full_like(mean[0], self.config.sigma)
        rho, kl, far, kept = compare_gaussians(inputs, mean, std)
        error = q_target - q_value(outputs, action)
        value_loss = 0.5 * inputs["weight"] * error**2 * kept
        count = kept.sum().clamp(min=1.0)
        results = {"value": outputs[:, 0], "rho": rho, "kl": kl, "far": far, "td_error": error}
        # the policy has no separate loss: m is the maximum of Q
        results |= {"policy_loss": torch.zeros_like(count), "value_loss": value_loss.sum() / count}
        return (beta * value_loss + (1.0 - beta) * kl).mean(), results
