"""The analytic gradient of DDPG; its loss is in ``rl_agent/algorithms/ddpg/loss.py``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Evaluation
from rl_agent.algorithms.critic_gradients import (
    compare_behaviour,
    evaluate,
    min_q,
    write_critic_gradient,
)
from rl_agent.replay.batch import Transitions
from rl_agent.replay.refer import Rules

__all__ = ["Gradient"]

F32 = npt.NDArray[np.float32]


class Gradient:
    """Writes dL/dw of a batch into the ``last_gradient`` of an algorithm."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        # two passes of the critic: with the actions taken, and with those of the policy
        self._passes = [algorithm.parts.passes(name) for name in ("policy", "critic", "critic")]

    def __call__(self, batch: Transitions, rules: Rules, weight: F32 | None) -> Evaluation:
        """Write d(L_Q + L_m)/dw of a batch of transitions."""
        algorithm, (policy, critic, detached) = self._algorithm, self._passes
        w, target, size = (
            algorithm.host_weights,
            algorithm.host_target,
            np.float32(len(batch.action)),
        )
        now, after = (batch.windows, batch.lengths), (batch.next_windows, batch.next_lengths)
        best = np.tanh(policy.forward(target["policy"], *after))
        following = critic.forward(target["critic"], *after, best[None])[:, 0]
        q_target = batch.reward + np.float32(batch.gamma) * batch.nonterminal * following
        mean: F32 = np.tanh(policy.forward(w["policy"], *now))
        std = np.float32(algorithm.config.sigma)
        near, kept = compare_behaviour(batch, mean, np.full((1, mean.shape[1]), std), rules)

        error_weight = kept if weight is None else kept * weight
        q = write_critic_gradient(
            algorithm,
            critic,
            "critic",
            now,
            batch.action.clip(-1.0, 1.0),
            q_target,
            error_weight / size,
        )
        q_of_policy, grad_mean = min_q(
            algorithm, {"critic": detached}, now, mean, kept * np.float32(-rules.beta) / size
        )
        grad_mean += np.float32(1.0 - rules.beta) / size * (mean - batch.behaviour_mean) / std**2
        policy.backward(
            grad_mean * (np.float32(1.0) - mean * mean), algorithm.host_gradient["policy"]
        )
        error = q_target - q
        return evaluate(
            algorithm, near, q, error, kept, -q_of_policy * kept, 0.5 * error_weight * error**2
        )
