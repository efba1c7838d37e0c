"""The gradient of V-RACER by hand; its loss is in ``rl_agent/algorithms/vracer.py``."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rl_agent import clipped_normal, gaussians
from rl_agent.algorithms.algorithm import Algorithm, Evaluation
from rl_agent.compiling import compiled
from rl_agent.deviation import Deviation
from rl_agent.distributions import BOUND
from rl_agent.replay import worlds
from rl_agent.replay.batch import Batch
from rl_agent.replay.refer import Rules

__all__ = ["Gradient"]

F32 = npt.NDArray[np.float32]


class Gradient:
    """Writes dL/dw of a batch into the ``last_gradient`` of an algorithm."""

    def __init__(self, of: Algorithm, deviation: Deviation) -> None:
        self._of, self._pass, self._deviation = of, of.parts.passes("network"), deviation

    def __call__(self, batch: Batch, rules: Rules, weight: F32 | None) -> Evaluation:
        """Write dL/dw of a batch, which has no weights; steps above ``rho_clip`` have no gradient of L_pi."""
        of = self._of
        outputs = self._pass.forward(of.host_weights["network"], batch.windows, batch.lengths)
        size, place = len(outputs), of.parts.places["sigma"]
        actions, deviation = of.sizes.action, self._deviation
        # a row for each step, or one for all
        sigma = deviation(outputs[:, 1 + actions :], of.weights[place]).reshape(-1, actions)
        d_outputs = np.empty_like(outputs)
        behaviour = (batch.action, batch.behaviour_mean, batch.behaviour_std)
        clipped = of.config.is_clipped
        bounds = np.float32(rules.c_max), np.float32(rules.rho_clip)
        log_rho, kl = gaussians.compare(outputs[:, 1:], sigma, *behaviour, clipped)
        value = outputs[:, 0]
        if batch.present is not None:
            log_rho, kl, value = log_rho * batch.present, kl * batch.present, value * batch.present
            if of.config.has_full_dynamics:
                log_rho = worlds.sum_of_each(log_rho, of.sizes.world)
        rho, far, moved = gaussians.weigh(log_rho, *bounds)
        advantage = batch.q_ret - value
        if of.config.center_advantages:
            near = rho * ~far if batch.present is None else rho * ~far * batch.present
            advantage -= near @ advantage / max(near.sum(), np.float32(1e-6))
        loss_share = np.where(far & rules.rule_1, 0.0, rules.beta / size).astype(np.float32)
        kl_share = np.full(size, (1.0 - rules.beta) / size, np.float32)
        gain = advantage
        if batch.present is not None:
            loss_share, kl_share, gain = (
                loss_share * batch.present,
                kl_share * batch.present,
                gain * batch.present,
            )
            # the weight of every agent moves with the action of each
            if of.config.has_full_dynamics:
                gain = worlds.sum_of_each(gain, of.sizes.world)
        d_sigma = _output_gradients(
            outputs,
            sigma,
            *behaviour,
            batch.v_tbc,
            gain,
            rho * moved,
            loss_share,
            kl_share,
            d_outputs,
            clipped,
        )
        d_free = d_sigma * deviation.slope(sigma)
        of.last_gradient[place] = d_free.reshape(-1, deviation.parameters).sum(axis=0)
        if deviation.outputs:
            d_outputs[:, 1 + actions :] = d_free
        self._pass.backward(d_outputs, of.host_gradient["network"])
        kept = (loss_share > 0) if rules.rule_1 else np.ones(size, np.bool_)
        if batch.present is not None:
            kept = kept & (batch.present > 0)
        count = max(1, int(kept.sum()))
        return Evaluation(
            value=worlds.mean_of_each(value, of.sizes.world)
            if of.config.is_cooperative
            else value.copy(),
            rho=rho,
            kl=kl,
            far=far,
            policy_loss=-float((rho * advantage)[kept].sum()) / count,
            value_loss=0.5 * float(((outputs[:, 0] - batch.v_tbc)[kept] ** 2).sum()) / count,
            mean_rho=float(rho.mean()),
            mean_kl=float(kl.mean()),
            far_fraction=float(far.mean()),
            gradient_norm=math.sqrt(float(of.last_gradient @ of.last_gradient)),
        )


@compiled(error_model="numpy")
def _output_gradients(
    outputs: F32,
    sigma: F32,
    action: F32,
    mu_mean: F32,
    mu_std: F32,
    v_tbc: F32,
    advantage: F32,
    weight: F32,
    loss_share: F32,
    kl_share: F32,
    d_outputs: F32,
    clipped: bool,
) -> F32:
    """Differentiate the mean loss with respect to V, m (into ``d_outputs``) and sigma (the result, of its shape).

    ``sigma`` has a row for each step, or one for all, shape (B, A) or (1, A).

    With z = (a - m) / sigma:  d log pi / dm = z / sigma,  d log pi / dsigma = (z^2 - 1) / sigma, and
    d KL / dm = (m - m_mu) / sigma^2,  d KL / dsigma = 1 / sigma - (sigma_mu^2 + (m_mu - m)^2) / sigma^3,
    unless the policies are ``clipped`` (``rl_agent/clipped_normal.py``).
    ``weight`` is rho, or 0 where a clip cuts its gradient off; the shares are the weights of a sample's terms.
    """
    one = np.float32(1.0)
    batch, size = action.shape
    d_sigma = np.zeros(sigma.shape, np.float32)
    for b in range(batch):
        row = b if sigma.shape[0] > 1 else 0
        d_outputs[b, 0] = loss_share[b] * (outputs[b, 0] - v_tbc[b])
        of_log_pi = -loss_share[b] * weight[b] * advantage[b]
        for j in range(size):
            s, s_mu = sigma[row, j], mu_std[b, j]
            m, m_mu = outputs[b, 1 + j], mu_mean[b, j]
            if clipped:
                of_m, of_s, kl_m, kl_s = clipped_normal.slopes(
                    action[b, j], m, s, m_mu, s_mu, -BOUND, BOUND
                )
                d_outputs[b, 1 + j] = np.float32(of_log_pi * of_m + kl_share[b] * kl_m)
                d_sigma[row, j] += np.float32(of_log_pi * of_s + kl_share[b] * kl_s)
                continue
            z = (action[b, j] - m) / s
            d_outputs[b, 1 + j] = of_log_pi * z / s + kl_share[b] * (m - m_mu) / (s * s)
            d_sigma[row, j] += (
                of_log_pi * (z * z - one) / s
                + kl_share[b] * (one - (s_mu * s_mu + (m_mu - m) ** 2) / (s * s)) / s
            )
    return d_sigma
