"""The analytic gradient of ACER; its losses are in ``rl_agent/algorithms/acer/loss.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.acer.config import ACERConfig
from rl_agent.algorithms.algorithm import Algorithm, Evaluation, evaluation_of
from rl_agent.networks import Network, UnrolledPass
from rl_agent.networks.distributions import comparison
from rl_agent.networks.distributions.densities import LOG_RHO_BOUND
from rl_agent.networks.distributions.sampling import softmax
from rl_agent.replay import targets
from rl_agent.replay.refer import Rules, is_near_policy, weigh
from rl_agent.runtime.jit import compiled

__all__ = ["Gradient"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

LEAST_P = np.float32(1e-6)
"""Lower bound of probabilities in a denominator."""


class Gradient:
    """Writes dL/dw of a batch into the ``last_gradient`` of an algorithm.

    Parameters
    ----------
    algorithm
        The algorithm, with the networks ``policy``, ``critic`` unless it shares that of the policy, and for continuous
        actions ``advantage``.
    config
        Settings of the algorithm.
    """

    def __init__(self, algorithm: Algorithm, config: ACERConfig) -> None:
        self._algorithm, self._config = algorithm, config
        self._passes: dict[str, UnrolledPass] = {}
        for name, part in algorithm.parts.parts.items():
            assert isinstance(part, Network)
            self._passes[name] = UnrolledPass(part)

    def __call__(self, batch: Any, rules: Rules, weight: F32 | None) -> Evaluation:
        """Write dL/dw of a batch of ``Segments`` without padding: every entry of ``index`` is a step."""
        total, n, _ = batch.sequences.shape
        after = (total - 1) * n + np.arange(n)
        steps = batch.index + (total - 1 - len(batch.exists)) * n
        rows = np.full(batch.exists.size, -1)
        rows[batch.index] = np.arange(len(batch.index))
        differentiate = self._discrete if self._algorithm.sizes.choices else self._continuous
        near, value, losses = differentiate(batch, rules, steps, after, rows.reshape(-1, n))
        norm = np.asarray(np.linalg.norm(self._algorithm.last_gradient))
        policy_loss, value_loss = (np.asarray(loss / len(steps)) for loss in losses)
        results = {
            "value": value,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "gradient_norm": norm,
        }
        return evaluation_of(near | results)

    def _forward(
        self,
        name: str,
        batch: Any,
        index: I64,
        actions: F32 | None = None,
        *,
        average: bool = False,
    ) -> F32:
        weights = self._algorithm.host_target if average else self._algorithm.host_weights
        return self._passes[name].forward(
            weights[name], batch.sequences, batch.lengths, index, actions
        )

    def _backward(self, name: str, slope: F32) -> None:
        self._passes[name].backward(slope, self._algorithm.host_gradient[name])

    # long because it follows algorithm 3 step by step: values, Retrace, policy gradient, trust region, backward passes
    def _continuous(
        self, batch: Any, rules: Rules, steps: I64, after: I64, rows: I64
    ) -> tuple[dict[str, npt.NDArray[Any]], F32, tuple[float, float]]:
        """Run the backward passes of policy, value and advantage; return rho, kl and far, V and both losses."""
        config, action, m = self._config, batch.action, len(batch.action)
        noise = self._algorithm.inputs(batch, None)["noise"]
        average = self._forward("policy", batch, steps, average=True).copy()
        mean = self._forward("policy", batch, steps)
        std = np.full((1, action.shape[1]), config.sigma, np.float32)
        behaviour = batch.behaviour_mean, batch.behaviour_std
        log_rho, kl = comparison.compare(mean, std, action, *behaviour)
        rho, far, _ = weigh(log_rho, np.float32(rules.c_max), np.float32(np.inf))
        sampled = mean + std * noise
        log_rho_sampled, _ = comparison.compare(mean, std, sampled[0], *behaviour)
        rho_sampled = np.exp(log_rho_sampled.clip(-LOG_RHO_BOUND, LOG_RHO_BOUND))

        advantages = self._forward(
            "advantage", batch, steps, np.concatenate([action[None], sampled[1:]])
        ).reshape(-1, m)
        advantage_sampled = np.zeros(m, np.float32)  # left at zero where unused
        is_cut = np.flatnonzero(rho_sampled > config.importance_clip)
        if len(is_cut) > 0:
            aside = self._passes["advantage"].forward_aside(
                batch.sequences, steps[is_cut], sampled[:1, is_cut]
            )
            advantage_sampled[is_cut] = aside[:, 0]
        values = self._forward("critic", batch, np.concatenate([steps, after]))[:, 0]
        value = values[:m].copy()
        is_dueling, corrects = "dueling" not in config.without, "retrace" not in config.without
        base = value - advantages[1:].mean(0) if is_dueling else np.zeros_like(value)
        q, q_sampled = base + advantages[0], base + advantage_sampled
        trace = np.minimum(rho if action.shape[1] == 1 else rho ** (1.0 / action.shape[1]), 1.0)
        known = (
            batch.reward,
            value,
            q,
            trace.astype(np.float32) * np.float32(corrects),
            values[m:] * batch.nonterminal,
            rows,
        )
        q_ret = targets.retrace(*known, np.float32(batch.gamma), False)
        q_opc = targets.retrace(*known, np.float32(batch.gamma), corrects)

        cut, bound = np.float32(config.importance_clip), np.float32(config.divergence_bound)
        g = (np.minimum(rho, cut) * (q_opc - value))[:, None] * (action - mean)
        if "bias_correction" not in config.without:
            g += (np.maximum(1.0 - cut / rho_sampled, 0.0) * (q_sampled - value))[:, None] * (
                sampled[0] - mean
            )
        g /= std**2
        z = _project(g, (mean - average) / std**2, bound)
        error, share = q_ret - q, np.float32(1.0 / m)
        value_error = np.minimum(rho, 1.0) * error
        losses = -float((mean * z).sum()), 0.5 * float((error**2 + value_error**2).sum())
        self._backward("policy", -share * z)
        grad_value = np.zeros_like(values)
        grad_value[:m] = -share * (error * is_dueling + value_error)
        self._backward("critic", grad_value[:, None])
        grad_advantages = np.empty_like(advantages)
        grad_advantages[0] = -share * error
        grad_advantages[1:] = share / np.float32(len(advantages) - 1) * error * is_dueling
        self._backward("advantage", grad_advantages.reshape(-1, 1))
        return {"rho": rho, "kl": kl, "far": far}, value, losses

    def _discrete(
        self, batch: Any, rules: Rules, steps: I64, after: I64, rows: I64
    ) -> tuple[dict[str, npt.NDArray[Any]], F32, tuple[float, float]]:
        """Run the backward passes of policy and critic; return rho, kl and far, V and both losses."""
        config, m, mu = self._config, len(batch.action), batch.behaviour_mean
        both, taken = np.concatenate([steps, after]), batch.action[:, 0].astype(np.int64)
        each = np.arange(m)
        choices, is_shared = self._algorithm.sizes.choices, config.shared_network
        average = softmax(self._forward("policy", batch, steps, average=True)[:, :choices])
        outputs = self._forward("policy", batch, both)
        logits = outputs[:, :choices]
        every_q = outputs[:, choices:] if is_shared else self._forward("critic", batch, both)
        every_phi = softmax(logits)
        every_value = (every_phi * every_q).sum(1)
        phi, q_all, value = every_phi[:m], every_q[:m], every_value[:m]
        p, q = np.maximum(phi, LEAST_P), q_all[each, taken]
        rho_all = p / np.maximum(mu, LEAST_P)
        rho = rho_all[each, taken]
        c_max = np.float32(rules.c_max)
        far = ~is_near_policy(rho, 1.0 / c_max, c_max)
        last = every_value[m:] * batch.nonterminal
        q_ret = targets.retrace(
            batch.reward,
            value,
            q,
            np.minimum(rho, np.float32("retrace" not in self._config.without)),
            last,
            rows,
            np.float32(batch.gamma),
            False,
        )

        cut = np.float32(config.importance_clip)
        g = np.maximum(1.0 - cut / rho_all, 0.0) * (q_all - value[:, None])
        g *= np.float32("bias_correction" not in config.without)
        g[each, taken] += np.minimum(rho, cut) * (q_ret - value) / p[each, taken]
        z = _project(g, -average / p, np.float32(config.divergence_bound))
        error, share = q_ret - q, np.float32(1.0 / m)
        log_phi = logits[:m] - logits[:m].max(1, keepdims=True)
        log_phi -= np.log(np.exp(log_phi).sum(1, keepdims=True))
        kl = (mu * (np.log(np.maximum(mu, np.float32(1e-30))) - log_phi)).sum(1)
        losses = -float((phi * z).sum()), 0.5 * float((error**2).sum())
        grad_logits, grad_q = np.zeros_like(logits), np.zeros_like(every_q)
        grad_logits[:m] = -share * phi * (z - (phi * z).sum(1, keepdims=True))
        grad_q[each, taken] = -share * error
        if is_shared:
            self._backward("policy", np.concatenate([grad_logits, grad_q], axis=1))
        else:
            self._backward("policy", grad_logits)
            self._backward("critic", grad_q)
        return {"rho": rho, "kl": kl, "far": far}, value, losses


@compiled(error_model="numpy")
def _project(g: F32, k: F32, delta: np.float32) -> F32:
    """Solve the quadratic programs of ``rl_agent.algorithms.segments.trust_region_step``, shape (M, A)."""
    z = g.copy()
    for b in range(g.shape[0]):
        along, norm = -delta, np.float32(1e-12)
        for j in range(g.shape[1]):
            along += k[b, j] * g[b, j]
            norm += k[b, j] * k[b, j]
        if along > np.float32(0.0):
            for j in range(g.shape[1]):
                z[b, j] -= along / norm * k[b, j]
    return z
