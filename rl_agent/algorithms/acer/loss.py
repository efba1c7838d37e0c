"""ACER (Wang et al. 2017): actor-critic with experience replay on segments of episodes, continuous and discrete.

For a segment s_0, a_0, r_1, ... s_k of at most ``segment`` steps, with rho_i = pi(a_i|s_i) / mu(a_i|s_i), from its end:

    Qret <- r_{i+1} + gamma Qret,  starting from V(s_k) (0 after a terminal state);  the same for Qopc
    g    <- min(c, rho_i) (Qopc - V_i) grad_phi log f(a_i|phi) + bias correction of the clip at c           (eq. 16)
    k    <- grad_phi D_KL( f(.|phi_a) || f(.|phi) ),  phi_a of the average policy network                  (section 3.3)
    z    <- g - max( 0, (k'g - delta) / |k|^2 ) k                                                         (eq. 12)
    Qret <- c_i (Qret - Q_i) + V_i,    Qopc <- (Qopc - Q_i) + V_i

The policy's loss is -phi' z with z constant. Averages: w_a <- (1 - alpha) w_a + alpha w.

Continuous actions (algorithm 3). Networks for the policy's mean phi = m(s) (fixed sigma), V(s) and A(s, a):

    Q~(s, a) = V(s) + A(s, a) - mean_j A(s, u_j),  u_1 ... u_n ~ pi( . | s), n = 5                           (eq. 13)
    c_i      = min( 1, rho_i^(1/d) )
    correction: [1 - c / rho'_i]+ ( Q~(s_i, a'_i) - V_i ) grad_phi log f(a'_i|phi),  a'_i ~ pi( . | s_i)
    L_Q      = ( Qret - Q~(s_i, a_i) )^2 / 2 + ( V_target - V(s_i) )^2 / 2,
    V_target = V_i + min(1, rho_i) ( Qret - Q~_i )                                                         (eq. 14)

Discrete actions (algorithm 2). Networks for phi = pi(.|s) and Q(s, .), or one for both (``shared_network``);
V_i = sum_a pi(a|s_i) Q(s_i, a); c_i = min(1, rho_i); Qret instead of Qopc; and the correction is
sum_a [1 - c / rho_i(a)]+ pi(a|s_i) ( Q(s_i, a) - V_i ) grad_phi log pi(a|s_i).
Calls alternate (algorithm 1): one on-policy call on the segments collected since the last on-policy call, so that each
is used on-policy exactly once, then Poisson(``replay_ratio``) calls on the memory.

Defaults are those of Novati & Koumoutsakos 2019 (appendix A): memory 1e5, 24 episodes per gradient, alpha 0.001, c = 5,
delta = 1, learning rates 1e-4 (V, A, Q) and 1e-5 (policy). Settings that are not given are fitted to the run: fewer
episodes per gradient, one gradient step per four environment steps, learning rates, gamma, memory size, learning start
and annealing (``config.py``).

``without`` leaves out individual components: Retrace (c_i = 0 in Qret and in Qopc), the dueling network (Q~ is the
network itself, and eq. 14 still trains V), the trust region (z = g) and the bias correction.

Differences from the papers:

1. Segments have at most 50 steps (the k of the ACER paper's continuous tasks); ``segment`` 1000 takes whole episodes.
2. The correction has Q(x, a) where algorithm 2 prints Q(x, a_i), which would not correct anything.
3. One gradient for all segments, averaged over their steps, instead of asynchronous threads; no entropy bonus.
   ``env_steps_per_gradient_step`` sets the rate of the calls; an on-policy call with nothing newly collected is
   replaced by a replay call. Continuous actions are learned by replay only, as in section 6 of the ACER paper.
4. An LSTM runs once along a segment, starting from a zero state up to ``window`` steps before it; with ``acting``
   ``window`` it sees the window that ends at each step, as for the other algorithms.

``loss`` is the autograd version, used on a GPU; on a CPU the analytic gradient is used (``gradient.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.acer import gradient
from rl_agent.algorithms.acer.config import ACERConfig
from rl_agent.algorithms.algorithm import Tensors
from rl_agent.algorithms.segments import (
    SegmentAlgorithm,
    Segments,
    between,
    retrace,
    step_indices,
    trust_region_step,
)
from rl_agent.algorithms.segments import make_actor as make_separate_actor
from rl_agent.networks import Parts, Views, has_analytic_gradient, make_network
from rl_agent.networks.actor import Actor, categorical_head
from rl_agent.networks.distributions import densities
from rl_agent.normalization.spaces import Sizes
from rl_agent.runtime.lazy_torch import torch

__all__ = ["ACER", "make_actor"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


def make_actor(config: ACERConfig, sizes: Sizes) -> Actor:
    """Build the policy; a network that it shares with Q has first the logits as outputs, then Q."""
    if not config.shared_network:
        return make_separate_actor(config, sizes)
    network = make_network(config, sizes.observation, 2 * sizes.choices)
    return Actor(network, 0, categorical_head(sizes.choices))


class ACER(SegmentAlgorithm):
    """A policy with its average, and critics; see the module docstring."""

    config: ACERConfig

    def __init__(self, config: ACERConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        state = sizes.observation
        groups = {"policy": ("policy", "policy")}
        if config.shared_network:
            parts = Parts(policy=actor.network)
        elif sizes.choices:
            parts = Parts(policy=actor.network, critic=make_network(config, state, sizes.choices))
            groups["critic"] = ("critic", "critic")
        else:
            hidden = (
                config.hidden_sizes if config.advantage_hidden is None else config.advantage_hidden
            )
            advantage = make_network(
                config.model_copy(update={"hidden": hidden}),
                state + sizes.action,
                1,
                sizes.action,
            )
            parts = Parts(
                policy=actor.network, advantage=advantage, critic=make_network(config, state, 1)
            )
            groups["critic"] = ("advantage", "critic")
        super().__init__(config, sizes, actor, parts, groups, rng)
        if config.device == "cpu" and has_analytic_gradient(self.network):
            self.analytic_gradient = gradient.Gradient(self, config)

    def inputs(self, batch: Segments, weight: F32 | None) -> dict[str, Any]:
        """Add the noise of a' and of u_1 ... u_n."""
        inputs = super().inputs(batch, weight)
        if not self.sizes.choices:
            shape = (1 + self.config.dueling_samples, *batch.action.shape)
            inputs["noise"] = self._rng.standard_normal(shape, np.float32)
        return inputs

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute the loss of the policy and the critics over all steps of the segments."""
        return (
            self._discrete(weights, inputs)
            if self.sizes.choices
            else self._continuous(weights, inputs)
        )

    def _continuous(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        action, config = inputs["action"], self.config
        m = len(action)
        views, (steps, after) = self.parts.views(weights), step_indices(inputs)
        mean = self.along("policy", views, inputs, steps)
        with torch.no_grad():
            target_views = self.parts.views(inputs["target_weights"])
            average = self.along("policy", target_views, inputs, steps)
        std = torch.full_like(mean[0], config.sigma)
        behaviour = inputs["behaviour_mean"], inputs["behaviour_std"]
        # a' first, then u_1 ... u_n
        sampled = mean.detach() + std * inputs["noise"]
        weight_of = lambda a: densities.importance_weight(  # noqa: E731
            densities.gaussian_log_density(a, mean.detach(), std),
            densities.gaussian_log_density(a, *behaviour),
        )
        rho, rho_sampled = weight_of(action), weight_of(sampled[0])

        values = self.along("critic", views, inputs, torch.cat([steps, after]))[:, 0]
        value, last = values[:m], values[m:].detach() * inputs["nonterminal"]
        every = torch.cat([action[None], sampled])
        raw = self.along("advantage", views, inputs, steps, every)[..., 0]
        base = (
            value - raw[2:].mean(0) if "dueling" not in config.without else torch.zeros_like(value)
        )
        q, q_sampled = base + raw[0], (base + raw[1]).detach()

        with torch.no_grad():
            grid, flat = between(inputs)
            trace = (
                rho.clamp(max=1.0)
                if action.shape[1] == 1
                else (rho ** (1.0 / action.shape[1])).clamp(max=1.0)
            )
            corrects = 0.0 if "retrace" in config.without else 1.0
            known = grid(inputs["reward"]), grid(value), grid(q)
            q_ret = flat(retrace(*known, grid(corrects * trace), last, inputs["gamma"]))
            untraced = grid(torch.full_like(trace, corrects))
            q_opc = flat(retrace(*known, untraced, last, inputs["gamma"]))
            g = (
                (rho.clamp(max=config.importance_clip) * (q_opc - value))[:, None]
                * (action - mean)
                / std**2
            )
            if "bias_correction" not in config.without:
                share = (1.0 - config.importance_clip / rho_sampled).clamp(min=0.0)
                g = g + (share * (q_sampled - value))[:, None] * (sampled[0] - mean) / std**2
            z = trust_region_step(g, (mean - average) / std**2, config.divergence_bound)
            target = value + rho.clamp(max=1.0) * (q_ret - q)
        policy_loss = -(mean * z).sum(1)
        error = q_ret - q
        value_loss = 0.5 * (error**2 + (target - value) ** 2)
        kl = densities.gaussian_kl(*behaviour, mean, std)
        return self.averaged(
            policy_loss, value_loss, inputs, {"value": value, "rho": rho, "kl": kl}
        )

    def _discrete(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        action, config = inputs["action"].long(), self.config
        views, (steps, after) = self.parts.views(weights), step_indices(inputs)
        logits, q_all = self._logits_and_q(views, inputs, steps)
        with torch.no_grad():
            target = self.parts.views(inputs["target_weights"])
            average = torch.softmax(self._logits_and_q(target, inputs, steps)[0], -1)
        phi = torch.softmax(logits, -1)
        q = q_all.gather(1, action).squeeze(1)
        with torch.no_grad():
            p = phi.clamp(min=1e-6)
            value = (phi * q_all).sum(1)
            next_logits, next_q = self._logits_and_q(views, inputs, after)
            last = (torch.softmax(next_logits, -1) * next_q).sum(1) * inputs["nonterminal"]
            rho_all = p / inputs["behaviour_mean"].clamp(min=1e-6)
            rho = rho_all.gather(1, action).squeeze(1)
            grid, flat = between(inputs)
            known = grid(inputs["reward"]), grid(value), grid(q)
            most = 0.0 if "retrace" in config.without else 1.0
            q_ret = flat(retrace(*known, grid(rho.clamp(max=most)), last, inputs["gamma"]))
            # grad_phi log f(a|phi) is 1 / phi_a at component a and zero elsewhere
            taken = torch.zeros_like(p).scatter(1, action, 1.0)
            g = taken * (rho.clamp(max=config.importance_clip) * (q_ret - value))[:, None] / p
            if "bias_correction" not in config.without:
                share = (1.0 - config.importance_clip / rho_all).clamp(min=0.0)
                g = g + share * (q_all - value[:, None])
            z = trust_region_step(g, -average / p, config.divergence_bound)
        policy_loss = -(phi * z).sum(1)
        value_loss = 0.5 * (q_ret - q) ** 2
        kl = densities.categorical_kl(inputs["behaviour_mean"], logits)
        return self.averaged(
            policy_loss, value_loss, inputs, {"value": value, "rho": rho, "kl": kl}
        )

    def _logits_and_q(
        self, views: Views, inputs: Tensors, index: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the logits and Q of all actions, (M, K) each, from one network or two."""
        outputs = self.along("policy", views, inputs, index)
        if self.config.shared_network:
            logits, q = outputs.split(self.sizes.choices, -1)
            return logits, q
        return outputs, self.along("critic", views, inputs, index)
