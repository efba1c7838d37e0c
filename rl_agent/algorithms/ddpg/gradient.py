"""The analytic gradient of DDPG; its loss is in ``rl_agent/algorithms/ddpg/loss.py``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Evaluation
from rl_agent.algorithms.critic_gradients import compare_behaviour, evaluate, fit, least_q
from rl_agent.replay.batch import Transitions
from rl_agent.replay.refer import Rules

__all__ = ["Gradient"]

F32 = npt.NDArray[np.float32]


class Gradient:
    """Writes dL/dw of a batch into the ``last_gradient`` of an algorithm."""

    def __init__(self, of: Algorithm) -> None:
        self._of = of
        # two passes of the critic: with the actions taken, and with those of the policy
        self._passes = [of.parts.passes(name) for name in ("policy", "critic", "critic")]

    def __call__(self, batch: Transitions, rules: Rules, weight: F32 | None) -> Evaluation:
        """Write d(L_Q + L_m)/dw of a batch of transitions."""
        of, (policy, critic, detached) = self._of, self._passes
        w, target, size = of.host_weights, of.host_target, np.float32(len(batch.action))
        now, after = (batch.windows, batch.lengths), (batch.next_windows, batch.next_lengths)
        best = np.tanh(policy.forward(target["policy"], *after))
        following = critic.forward(target["critic"], *after, best[None])[:, 0]
        q_target = batch.reward + np.float32(batch.gamma) * batch.nonterminal * following
        mean: F32 = np.tanh(policy.forward(w["policy"], *now))
        std = np.float32(of.config.sigma)
        near, kept = compare_behaviour(batch, mean, np.full((1, mean.shape[1]), std), rules)

        of_error = kept if weight is None else kept * weight
        q = fit(of, critic, "critic", now, batch.action.clip(-1.0, 1.0), q_target, of_error / size)
        q_of_policy, of_mean = least_q(
            of, {"critic": detached}, now, mean, kept * np.float32(-rules.beta) / size
        )
        of_mean += np.float32(1.0 - rules.beta) / size * (mean - batch.behaviour_mean) / std**2
        policy.backward(of_mean * (np.float32(1.0) - mean * mean), of.host_gradient["policy"])
        error = q_target - q
        return evaluate(of, near, q, error, kept, -q_of_policy * kept, 0.5 * of_error * error**2)
