"""The analytic gradient of TD3; its loss is in ``rl_agent/algorithms/td3/loss.py``."""

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
        self._algorithm, self._policy, self._held = (
            algorithm,
            algorithm.parts.passes("policy"),
            algorithm.parts.passes("critic_1"),
        )
        self._critics = {name: algorithm.parts.passes(name) for name in ("critic_1", "critic_2")}

    def __call__(self, batch: Transitions, rules: Rules, weight: F32 | None) -> Evaluation:
        """Write d(L_Q + L_m)/dw of a batch of transitions; the policy's part is zero unless it is due."""
        algorithm, noise = self._algorithm, self._algorithm.inputs(batch, weight)["noise"]
        w, target, size = (
            algorithm.host_weights,
            algorithm.host_target,
            np.float32(len(batch.action)),
        )
        now, after = (batch.windows, batch.lengths), (batch.next_windows, batch.next_lengths)
        best = np.tanh(self._policy.forward(target["policy"], *after)) + noise
        chosen = best.clip(-1.0, 1.0)[None]
        both = [
            passes.forward(target[name], *after, chosen)[:, 0]
            for name, passes in self._critics.items()
        ]
        q_target = batch.reward + np.float32(batch.gamma) * batch.nonterminal * np.minimum(*both)
        mean: F32 = np.tanh(self._policy.forward(w["policy"], *now))
        std = np.float32(algorithm.config.sigma)
        near, kept = compare_behaviour(batch, mean, np.full((1, mean.shape[1]), std), rules)

        error_weight, taken = (
            kept if weight is None else kept * weight,
            batch.action.clip(-1.0, 1.0),
        )
        share = error_weight / size
        q_1, q_2 = (
            write_critic_gradient(algorithm, passes, name, now, taken, q_target, share)
            for name, passes in self._critics.items()
        )
        if "policy" in algorithm.due:
            q_of_policy, grad_mean = min_q(
                algorithm,
                {"critic_1": self._held},
                now,
                mean,
                kept * np.float32(-rules.beta) / size,
            )
            grad_mean += (
                np.float32(1.0 - rules.beta) / size * (mean - batch.behaviour_mean) / std**2
            )
            self._policy.backward(
                grad_mean * (np.float32(1.0) - mean * mean), algorithm.host_gradient["policy"]
            )
        else:
            q_of_policy = self._held.forward(w["critic_1"], *now, mean[None])[:, 0]
            algorithm.last_gradient[algorithm.parts.slices["policy"]] = 0.0
        error = q_target - q_1
        value_loss = 0.5 * error_weight * (error**2 + (q_target - q_2) ** 2)
        return evaluate(algorithm, near, q_1, error, kept, -q_of_policy * kept, value_loss)
