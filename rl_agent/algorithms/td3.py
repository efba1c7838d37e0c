"""TD3 (Fujimoto et al. 2018): DDPG with two critics, a smoothed target and a delayed policy.

    a~     = clip( m~(s_{t+1}) + clip( N(0, 0.2^2), -0.5, 0.5 ), -1, 1 )                 target smoothing (eq. 14)
    q_t    = r_{t+1} + gamma min_i Q~_i( s_{t+1}, a~ )                                   clipped double Q (eq. 10)
    L_Q    = sum_i ( Q_i(s_t, a_t) - q_t )^2 / 2
    L_m    = - Q_1( s_t, m(s_t) ),   policy and targets move in every second step        delay (algorithm 1)

Defaults (NERS paper, Oh et al. 2021, table B.1; a run's own gamma, memory and start where none are named, see
``rl_agent/defaults.py``): 2 x 256 ReLU, batch 128, alpha 5e-3, gamma 0.99, memory 1e6, Gaussian
exploration 0.1, 5000 first actions at random. Remember-and-forget enters as in DDPG (``rl_agent/algorithms/ddpg.py``).

Done otherwise than in the papers:

1. The learning rate is 3e-4 (that table prints 5e-3, the authors' later code has 3e-4), not annealed.
2. The gradient of the policy is taken at the critics before their step, not after.
3. Initialisation, scaling of states and rewards, and the remarks 1, 4 and 5 of DDPG.

``gradient`` is the sum of the losses differentiated by hand, for the CPU; ``loss`` is the same for autograd, which the
tests hold it to and a GPU runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rl_agent.algorithms.algorithm import Algorithm, Evaluation, Tensors, compare_gaussians
from rl_agent.algorithms.critics import compare_behaviour, evaluate, judge, teach
from rl_agent.algorithms.ddpg import make_actor
from rl_agent.config import AgentConfig
from rl_agent.networks import Parts, make_network
from rl_agent.replay.batch import Transitions
from rl_agent.replay.refer import Rules
from rl_agent.scaling import Sizes

__all__ = ["TD3", "make_actor"]

F32 = npt.NDArray[np.float32]


class TD3(Algorithm):
    """A policy, two critics and their targets; see the module."""

    def __init__(self, config: AgentConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        critic = make_network(config, sizes.observation + sizes.action, 1)
        parts = Parts(policy=actor.network, critic=critic, other=critic)
        stretches = {"policy": ("policy", "policy"), "critic": ("critic", "other")}
        super().__init__(config, sizes, actor, parts, stretches, rng, has_target=True)
        self.is_written_out = config.device == "cpu"
        self._policy, self._held = parts.passes("policy"), parts.passes("critic")
        self._critics = {name: parts.passes(name) for name in ("critic", "other")}

    @property
    def _moves_policy(self) -> bool:
        return (self.adams["critic"].steps + 1) % self.config.policy_delay == 0

    def rates(self, share: float) -> dict[str, float]:
        """Leave the policy out of the steps between."""
        rates = super().rates(share)
        return rates if self._moves_policy else {"critic": rates["critic"]}

    def target_rate(self) -> float:
        """Move the targets together with the policy."""
        return self.config.target_rate if self._moves_policy else 0.0

    def inputs(self, batch: Any, weight: F32 | None) -> dict[str, Any]:
        """Add the noise of the target's actions."""
        return super().inputs(batch, weight) | {"noise": self._noise(batch.action.shape)}

    def _noise(self, shape: tuple[int, ...]) -> F32:
        noise = np.float32(self.config.target_noise) * self._rng.standard_normal(shape, np.float32)
        bound = self.config.target_noise_clip
        return noise.clip(-bound, bound)

    def gradient(self, batch: Transitions, rules: Rules, weight: F32 | None = None) -> Evaluation:
        """Write d(L_Q + L_m)/dw of a batch of transitions; of the policy only where it is due."""
        w, target, size = self.host_weights, self.host_target, np.float32(len(batch.action))
        now, after = (batch.windows, batch.lengths), (batch.next_windows, batch.next_lengths)
        best = np.tanh(self._policy.forward(target["policy"], *after)) + self._noise(batch.action.shape)
        chosen = best.clip(-1.0, 1.0)[None]
        both = [passes.forward(target[name], *after, chosen)[:, 0] for name, passes in self._critics.items()]
        q_target = batch.reward + np.float32(self.config.gamma) * batch.goes_on * np.minimum(*both)
        mean: F32 = np.tanh(self._policy.forward(w["policy"], *now))
        std = np.float32(self.config.sigma)
        near, kept = compare_behaviour(batch, mean, np.full((1, mean.shape[1]), std), rules)

        of_error, taken = kept if weight is None else kept * weight, batch.action.clip(-1.0, 1.0)
        share = of_error / size
        q, other = (teach(self, passes, name, now, taken, q_target, share) for name, passes in self._critics.items())
        if "policy" in self.due:
            judged, of_mean = judge(self, {"critic": self._held}, now, mean, kept * np.float32(-rules.beta) / size)
            of_mean += np.float32(1.0 - rules.beta) / size * (mean - batch.behaviour_mean) / std**2
            self._policy.backward(of_mean * (np.float32(1.0) - mean * mean), self.host_gradient["policy"])
        else:
            judged = self._held.forward(w["critic"], *now, mean[None])[:, 0]
            self.last_gradient[self.parts.places["policy"]] = 0.0
        error = q_target - q
        value_loss = 0.5 * of_error * (error**2 + (q_target - other) ** 2)
        return evaluate(self, near, q, error, kept, -judged * kept, value_loss)

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """L_Q + L_m of a batch of transitions."""
        windows, lengths, action = inputs["windows"], inputs["lengths"], inputs["action"]
        views, held = self.parts.views(weights), self.parts.views(weights.detach())
        with torch.no_grad():
            target, after = self.parts.views(inputs["target_weights"]), (inputs["next_windows"], inputs["next_lengths"])
            chosen = (torch.tanh(self.parts("policy", target, *after)) + inputs["noise"]).clamp(-1.0, 1.0)
            both = (self.parts(name, target, *after, chosen)[:, 0] for name in ("critic", "other"))
            following = torch.minimum(*both)
            q_target = inputs["reward"] + self.config.gamma * inputs["goes_on"] * following
        learns = views if "policy" in self.due else held
        mean = torch.tanh(self.parts("policy", learns, windows, lengths))
        std = torch.full_like(mean[0], self.config.sigma)
        rho, kl, far, kept = compare_gaussians(inputs, mean, std)

        taken = action.clamp(-1.0, 1.0)
        q, other = (self.parts(name, views, windows, lengths, taken)[:, 0] for name in ("critic", "other"))
        error = q_target - q
        value_loss = 0.5 * inputs["weight"] * (error**2 + (q_target - other) ** 2) * kept
        policy_loss = -self.parts("critic", held, windows, lengths, mean)[:, 0] * kept
        loss = value_loss + inputs["beta"] * policy_loss + (1.0 - inputs["beta"]) * kl
        count = kept.sum().clamp(min=1.0)
        results = {"value": q, "rho": rho, "kl": kl, "far": far, "td_error": error}
        results |= {"policy_loss": policy_loss.sum() / count, "value_loss": value_loss.sum() / count}
        return loss.mean() + self.decay(weights, "critic", "other"), results
