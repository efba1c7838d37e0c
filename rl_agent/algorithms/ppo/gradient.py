"""The analytic gradient of PPO; its loss is in ``rl_agent/algorithms/ppo/loss.py``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Evaluation
from rl_agent.networks.distributions import comparison
from rl_agent.networks.distributions.densities import LOG_RHO_BOUND
from rl_agent.networks.distributions.std import PolicyStd
from rl_agent.replay.batch import Batch
from rl_agent.replay.refer import Rules

__all__ = ["Gradient"]

F32 = npt.NDArray[np.float32]

Compared: TypeAlias = "tuple[F32, F32, Callable[[F32], None]]"
"""log rho and D_KL(mu || pi), shape (B,), and a function that writes the policy's gradient, given that by log pi."""


class Gradient:
    """Writes dL/dw of a batch into the ``last_gradient`` of an algorithm.

    Parameters
    ----------
    algorithm
        The algorithm, with the networks ``policy`` and ``value`` and the loose parameters ``sigma``.
    std
        Standard deviation of the Gaussian; ``None`` for discrete actions.
    clip
        Clip range epsilon.
    """

    def __init__(self, algorithm: Algorithm, std: PolicyStd | None, clip: float) -> None:
        self._algorithm, self._std, self._clip = algorithm, std, np.float32(clip)
        self._policy, self._value = (
            algorithm.parts.passes("policy"),
            algorithm.parts.passes("value"),
        )

    def __call__(self, batch: Batch, rules: Rules, weight: F32 | None) -> Evaluation:
        """Write d(L_pi + L_V)/dw of a batch; ``rules`` and ``weight`` are not used."""
        algorithm, seen = self._algorithm, (batch.windows, batch.lengths)
        outputs = self._policy.forward(algorithm.host_weights["policy"], *seen)
        value = self._value.forward(algorithm.host_weights["value"], *seen)[:, 0]
        share, one = np.float32(1.0 / len(value)), np.float32(1.0)
        advantage, error = batch.q_ret, batch.v_tbc - value
        compare = self._choices if self._std is None else self._gaussian
        log_rho, kl, write = compare(batch, outputs)
        bound = np.float32(LOG_RHO_BOUND)
        rho = np.exp(log_rho.clip(-bound, bound))
        clipped = rho.clip(one - self._clip, one + self._clip)
        gain = np.minimum(rho * advantage, clipped * advantage)
        # the gradient is zero where the clipped term is the smaller one; d rho = rho d log pi
        moves = (rho * advantage <= gain) & (np.abs(log_rho) <= bound)
        write(-share * advantage * rho * moves)
        self._value.backward(-share * error[:, None], algorithm.host_gradient["value"])
        far = rho != clipped
        return Evaluation(
            value=value.copy(),
            rho=rho,
            kl=kl,
            far=far,
            policy_loss=-float(gain.mean()),
            value_loss=0.5 * float(error @ error) * float(share),
            mean_rho=float(rho.mean()),
            mean_kl=float(kl.mean()),
            far_fraction=float(far.mean()),
            gradient_norm=math.sqrt(float(algorithm.last_gradient @ algorithm.last_gradient)),
        )

    def _gaussian(self, batch: Batch, mean: F32) -> Compared:
        algorithm, std = self._algorithm, self._std
        assert std is not None
        block = algorithm.parts.slices["sigma"]
        sigma: F32 = std(mean[:, :0], algorithm.weights[block])
        behaviour = batch.action, batch.behaviour_mean, batch.behaviour_std
        log_rho, kl = comparison.compare(mean, sigma[None], *behaviour)

        def write(grad_log_pi: F32) -> None:
            z = (batch.action - mean) / sigma
            grad_mean: F32 = (grad_log_pi[:, None] * z / sigma).astype(np.float32, copy=False)
            grad_sigma = (grad_mean * z).sum(0) - grad_log_pi.sum() / sigma
            algorithm.last_gradient[block] = grad_sigma * std.slope(sigma)
            self._policy.backward(grad_mean, algorithm.host_gradient["policy"])

        return log_rho, kl, write

    def _choices(self, batch: Batch, logits: F32) -> Compared:
        algorithm, mu = self._algorithm, batch.behaviour_mean
        each, taken = np.arange(len(logits)), batch.action[:, 0].astype(np.int64)
        log_pi = logits - logits.max(1, keepdims=True)
        log_pi -= np.log(np.exp(log_pi).sum(1, keepdims=True))
        log_mu = np.log(np.maximum(mu, np.float32(1e-30)))
        kl = (mu * (log_mu - log_pi)).sum(1)

        def write(grad_log_pi: F32) -> None:
            slopes: F32 = -grad_log_pi[:, None] * np.exp(log_pi)
            slopes[each, taken] += grad_log_pi
            self._policy.backward(slopes, algorithm.host_gradient["policy"])

        return log_pi[each, taken] - log_mu[each, taken], kl, write
