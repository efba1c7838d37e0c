"""The analytic gradient of TD3; its loss is in ``rl_agent/algorithms/td3/loss.py``."""

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
        self._of, self._policy, self._held = (
            of,
            of.parts.passes("policy"),
            of.parts.passes("critic_1"),
        )
        self._critics = {name: of.parts.passes(name) for name in ("critic_1", "critic_2")}

    def __call__(self, batch: Transitions, rules: Rules, weight: F32 | None) -> Evaluation:
        """Write d(L_Q + L_m)/dw of a batch of transitions; the policy's part is zero unless it is due."""
        of, noise = self._of, self._of.inputs(batch, weight)["noise"]
        w, target, size = of.host_weights, of.host_target, np.float32(len(batch.action))
        now, after = (batch.windows, batch.lengths), (batch.next_windows, batch.next_lengths)
        best = np.tanh(self._policy.forward(target["policy"], *after)) + noise
        chosen = best.clip(-1.0, 1.0)[None]
        both = [
            passes.forward(target[name], *after, chosen)[:, 0]
            for name, passes in self._critics.items()
        ]
        q_target = batch.reward + np.float32(batch.gamma) * batch.nonterminal * np.minimum(*both)
        mean: F32 = np.tanh(self._policy.forward(w["policy"], *now))
        std = np.float32(of.config.sigma)
        near, kept = compare_behaviour(batch, mean, np.full((1, mean.shape[1]), std), rules)

        of_error, taken = kept if weight is None else kept * weight, batch.action.clip(-1.0, 1.0)
        share = of_error / size
        q_1, q_2 = (
            fit(of, passes, name, now, taken, q_target, share)
            for name, passes in self._critics.items()
        )
        if "policy" in of.due:
            q_of_policy, of_mean = least_q(
                of, {"critic_1": self._held}, now, mean, kept * np.float32(-rules.beta) / size
            )
            of_mean += np.float32(1.0 - rules.beta) / size * (mean - batch.behaviour_mean) / std**2
            self._policy.backward(
                of_mean * (np.float32(1.0) - mean * mean), of.host_gradient["policy"]
            )
        else:
            q_of_policy = self._held.forward(w["critic_1"], *now, mean[None])[:, 0]
            of.last_gradient[of.parts.slices["policy"]] = 0.0
        error = q_target - q_1
        value_loss = 0.5 * of_error * (error**2 + (q_target - q_2) ** 2)
        return evaluate(of, near, q_1, error, kept, -q_of_policy * kept, value_loss)
