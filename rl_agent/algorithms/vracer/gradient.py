"""The analytic gradient of V-RACER; its loss is in ``rl_agent/algorithms/vracer/loss.py``."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Evaluation, mean_of_present
from rl_agent.multi_agent import cooperation
from rl_agent.networks import Pass, UnrolledPass
from rl_agent.networks.distributions import clipped_normal, comparison
from rl_agent.networks.distributions.sampling import BOUND
from rl_agent.networks.distributions.std import PolicyStd
from rl_agent.replay.batch import Batch
from rl_agent.replay.refer import Rules, weigh
from rl_agent.runtime.jit import compiled

__all__ = ["Gradient"]

F32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


class Gradient:
    """Writes dL/dw of a batch into the ``last_gradient`` of an algorithm."""

    def __init__(self, algorithm: Algorithm, passes: Pass | UnrolledPass, std: PolicyStd) -> None:
        self._algorithm, self._pass, self._std = algorithm, passes, std

    def __call__(self, batch: Batch, rules: Rules, weight: F32 | None) -> Evaluation:
        """Write dL/dw of a batch; steps with rho above ``rho_clip`` have no gradient of L_pi."""
        algorithm = self._algorithm
        outputs = self._outputs(batch)
        tail, free = (
            outputs[:, 1 + algorithm.sizes.action :],
            algorithm.weights[algorithm.parts.slices["sigma"]],
        )
        # one row per step, or one for all
        sigma = self._std(tail, free).reshape(-1, algorithm.sizes.action)
        value, kl, rho, far, moved = self._compare(batch, rules, outputs, sigma)
        advantage = self._advantage(batch, value, rho * ~far)
        kept, grad_kl = _kept(batch, rules, far, weight)
        count, size = max(1.0, float(kept.sum())), len(far)
        self._propagate(
            batch,
            outputs,
            sigma,
            advantage,
            rho * moved,
            np.float32(rules.beta / size) * kept,
            np.float32((1.0 - rules.beta) / size) * grad_kl,
        )
        error = batch.v_tbc - outputs[:, 0]
        return Evaluation(
            value=cooperation.mean_of_each(value, algorithm.sizes.agents_per_env)
            if algorithm.config.is_cooperative
            else value.copy(),
            rho=rho,
            kl=kl,
            far=far,
            policy_loss=-float((rho * advantage) @ kept) / count,
            value_loss=0.5 * float(error**2 @ kept) / count,
            mean_rho=mean_of_present(rho, batch.present),
            mean_kl=mean_of_present(kl, batch.present),
            far_fraction=mean_of_present(far, batch.present),
            gradient_norm=math.sqrt(float(algorithm.last_gradient @ algorithm.last_gradient)),
            td_error=None if algorithm.config.sampler == "uniform" else error,
        )

    def _outputs(self, batch: Batch) -> F32:
        windows = self._algorithm.host_weights["network"], batch.windows, batch.lengths
        if isinstance(self._pass, UnrolledPass):
            assert batch.index is not None
            return self._pass.forward(*windows, batch.index, state=batch.states)
        return self._pass.forward(*windows)

    def _compare(
        self, batch: Batch, rules: Rules, outputs: F32, sigma: F32
    ) -> tuple[F32, F32, F32, Flags, Flags]:
        """Return V(s), KL, and rho, far and moved (see ``weigh``); V, KL and rho are 0, 0 and 1 for absent agents."""
        algorithm, value = self._algorithm, outputs[:, 0]
        behaviour = batch.action, batch.behaviour_mean, batch.behaviour_std
        log_rho, kl = comparison.compare(
            outputs[:, 1:], sigma, *behaviour, algorithm.config.is_clipped
        )
        if batch.present is not None:
            log_rho, kl, value = log_rho * batch.present, kl * batch.present, value * batch.present
            if algorithm.config.has_full_dynamics:
                log_rho = cooperation.sum_of_each(log_rho, algorithm.sizes.agents_per_env)
        bounds = np.float32(rules.c_max), np.float32(rules.rho_clip)
        return value, kl, *weigh(log_rho, *bounds)

    def _advantage(self, batch: Batch, value: F32, near: F32) -> F32:
        """Return Q_ret - V(s), minus its mean weighted by ``near`` if it is centered; 0 for absent agents."""
        advantage = batch.q_ret - value
        if self._algorithm.config.center_advantages:
            near = near if batch.present is None else near * batch.present
            advantage -= near @ advantage / max(near.sum(), np.float32(1e-6))
        return advantage if batch.present is None else advantage * batch.present

    def _propagate(
        self,
        batch: Batch,
        outputs: F32,
        sigma: F32,
        advantage: F32,
        rho: F32,
        loss_share: F32,
        kl_share: F32,
    ) -> None:
        """Backpropagate to the weights and write dL/dw; arguments as in ``_output_gradients``."""
        algorithm, std, d_outputs = self._algorithm, self._std, np.empty_like(outputs)
        # every agent's importance weight depends on the actions of all agents
        if batch.present is not None and algorithm.config.has_full_dynamics:
            advantage = cooperation.sum_of_each(advantage, algorithm.sizes.agents_per_env)
        behaviour = batch.action, batch.behaviour_mean, batch.behaviour_std
        d_sigma = _output_gradients(
            outputs,
            sigma,
            *behaviour,
            batch.v_tbc,
            advantage,
            rho,
            loss_share,
            kl_share,
            d_outputs,
            algorithm.config.is_clipped,
        )
        d_free = d_sigma * std.slope(sigma)
        sums = d_free.reshape(-1, std.parameters).sum(axis=0)
        algorithm.last_gradient[algorithm.parts.slices["sigma"]] = sums
        if std.outputs:
            d_outputs[:, 1 + algorithm.sizes.action :] = d_free
        self._pass.backward(d_outputs, algorithm.host_gradient["network"])


def _kept(batch: Batch, rules: Rules, far: Flags, weight: F32 | None) -> tuple[F32, F32]:
    """Return the weights of the losses and of the KL of each step: 1 or 0, times the sampler's weight."""
    kept, grad_kl = (~(far & rules.rule_1)).astype(np.float32), np.ones(len(far), np.float32)
    for factor in (batch.present, weight):
        if factor is not None:
            kept, grad_kl = kept * factor, grad_kl * factor
    return kept, grad_kl


# many arguments: one for each term of the loss
@compiled(error_model="numpy")
def _output_gradients(
    outputs: F32,
    sigma: F32,
    action: F32,
    mu_mean: F32,
    mu_std: F32,
    v_tbc: F32,
    advantage: F32,
    rho: F32,
    loss_share: F32,
    kl_share: F32,
    d_outputs: F32,
    clipped: bool,
) -> F32:
    """Differentiate the mean loss with respect to V and m (into ``d_outputs``) and sigma (returned, same shape).

    ``sigma`` has one row per step, or one for all, shape (B, A) or (1, A).

    With z = (a - m) / sigma:  d log pi / dm = z / sigma,  d log pi / dsigma = (z^2 - 1) / sigma, and
    d KL / dm = (m - m_mu) / sigma^2,  d KL / dsigma = 1 / sigma - (sigma_mu^2 + (m_mu - m)^2) / sigma^3,
    unless the policies are ``clipped`` (``rl_agent/networks/distributions/clipped_normal.py``).
    ``rho`` is 0 where clipping removes its gradient; the shares are the weights of each step's terms.
    """
    one = np.float32(1.0)
    batch, size = action.shape
    d_sigma = np.zeros(sigma.shape, np.float32)
    for b in range(batch):
        row = b if sigma.shape[0] > 1 else 0
        d_outputs[b, 0] = loss_share[b] * (outputs[b, 0] - v_tbc[b])
        grad_log_pi = -loss_share[b] * rho[b] * advantage[b]
        for j in range(size):
            s, s_mu = sigma[row, j], mu_std[b, j]
            m, m_mu = outputs[b, 1 + j], mu_mean[b, j]
            if clipped:
                grad_m, grad_s, kl_m, kl_s = clipped_normal.slopes(
                    action[b, j], m, s, m_mu, s_mu, -BOUND, BOUND
                )
                d_outputs[b, 1 + j] = np.float32(grad_log_pi * grad_m + kl_share[b] * kl_m)
                d_sigma[row, j] += np.float32(grad_log_pi * grad_s + kl_share[b] * kl_s)
                continue
            z = (action[b, j] - m) / s
            d_outputs[b, 1 + j] = grad_log_pi * z / s + kl_share[b] * (m - m_mu) / (s * s)
            d_sigma[row, j] += (
                grad_log_pi * (z * z - one) / s
                + kl_share[b] * (one - (s_mu * s_mu + (m_mu - m) ** 2) / (s * s)) / s
            )
    return d_sigma
