"""The analytic gradient of SAC; its losses are in ``rl_agent/algorithms/sac/loss.py``."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Evaluation
from rl_agent.algorithms.critic_gradients import (
    Windows,
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

    def __init__(
        self, algorithm: Algorithm, target_entropy: float, log_std_bounds: tuple[float, float]
    ) -> None:
        self._algorithm, self._target_entropy, self._log_std_bounds = (
            algorithm,
            target_entropy,
            log_std_bounds,
        )
        self._policy = algorithm.parts.passes("policy")
        self._critics, self._held = (
            {name: algorithm.parts.passes(name) for name in ("critic_1", "critic_2")}
            for _ in range(2)
        )

    def __call__(self, batch: Transitions, rules: Rules, weight: F32 | None) -> Evaluation:
        """Write d(L_Q + L_pi + L_T)/dw of a batch of transitions.

        With u = m + sigma n and the noise n held constant, log pi depends on u through the slope of tanh, and on
        sigma: d log pi/du = 2 tanh(u), d log pi/dsigma = -1/sigma.
        """
        algorithm, inputs = self._algorithm, self._algorithm.inputs(batch, weight)
        w, target, size = (
            algorithm.host_weights,
            algorithm.host_target,
            np.float32(len(batch.action)),
        )
        now, after = (batch.windows, batch.lengths), (batch.next_windows, batch.next_lengths)
        log_temperature, noise, next_noise = (
            w["temperature"][""],
            inputs["noise"],
            inputs["next_noise"],
        )
        temperature = np.exp(log_temperature)
        sampled, log_pi, _, _ = self._sample(after, next_noise)
        both = [
            one.forward(target[name], *after, sampled[None])[:, 0]
            for name, one in self._critics.items()
        ]
        soft = np.minimum(*both) - temperature * log_pi
        q_target = batch.reward + np.float32(batch.gamma) * batch.nonterminal * soft
        sampled, log_pi, mean, log_std = self._sample(now, noise)
        bounded = log_std.clip(*self._log_std_bounds)
        std = np.exp(bounded)
        near, kept = compare_behaviour(batch, mean, std, rules)

        error_weight, taken = kept if weight is None else kept * weight, np.tanh(batch.action)
        share = error_weight / size
        q_1, q_2 = (
            write_critic_gradient(algorithm, one, name, now, taken, q_target, share)
            for name, one in self._critics.items()
        )
        share = kept * np.float32(rules.beta) / size
        q_of_policy, grad_sampled = min_q(algorithm, self._held, now, sampled, -share)
        grad_log_pi, grad_kl = (temperature * share)[:, None], np.float32(1.0 - rules.beta) / size
        grad_raw = grad_sampled * (1.0 - sampled**2) + 2.0 * grad_log_pi * sampled
        apart = mean - batch.behaviour_mean
        grad_mean = grad_raw + grad_kl * apart / std**2
        grad_std = (
            grad_raw * noise
            - grad_log_pi / std
            + grad_kl * (1.0 - (batch.behaviour_std**2 + apart**2) / std**2) / std
        )
        grad_outputs = np.concatenate([grad_mean, grad_std * std * (bounded == log_std)], axis=1)
        self._policy.backward(grad_outputs, algorithm.host_gradient["policy"])
        algorithm.host_gradient["temperature"][""][:] = -(log_pi.mean() + self._target_entropy)
        error = q_target - q_1
        policy_loss, value_loss = (
            temperature * log_pi - q_of_policy,
            error**2 + (q_target - q_2) ** 2,
        )
        return evaluate(
            algorithm, near, q_1, error, kept, policy_loss * kept, 0.5 * error_weight * value_loss
        )

    def _sample(self, windows: Windows, noise: F32) -> tuple[F32, F32, F32, F32]:
        """Sample actions; return them after the tanh, log pi, the mean and the log sigma before clipping."""
        outputs = self._policy.forward(self._algorithm.host_weights["policy"], *windows)
        mean, log_std = np.split(outputs, 2, axis=1)
        log_std = log_std + np.float32(math.log(self._algorithm.config.sigma))
        bounded = log_std.clip(*self._log_std_bounds)
        raw = mean + np.exp(bounded) * noise
        log_slope = 2.0 * (math.log(2.0) - raw - np.logaddexp(np.float32(0.0), -2.0 * raw))
        log_pi = -0.5 * noise**2 - bounded - np.float32(0.5 * math.log(2.0 * math.pi)) - log_slope
        return np.tanh(raw), log_pi.sum(1), mean, log_std
