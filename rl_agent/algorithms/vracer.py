"""V-RACER (Novati & Koumoutsakos 2019, section 2 and algorithm 3), with Remember-and-Forget (section 3).

One network gives V(s) and the mean m(s) of a Gaussian policy; its standard deviation sigma is a
parameter shared by all states. With the importance weight rho_t = pi(a_t|s_t) / mu_t(a_t|s_t) and
rho_bar_t = min(1, rho_t):

    V_tbc_t = V(s_t) + rho_bar_t [ r_{t+1} + gamma V_tbc_{t+1} - V(s_t) ]        value target (eq. 8)
    Q_ret_t = r_{t+1} + gamma V_tbc_{t+1}

    L_pi  = -rho_t ( Q_ret_t - V(s_t) ),  the bracket held constant               policy (eqs. 6, 7)
    L_tbc = ( V(s_t) - V_tbc_t )^2 / 2,   the target held constant                value (eq. 9)
    L     = beta ( L_pi + L_tbc ) [near-policy] + (1 - beta) D_KL( mu_t || pi )    ReF-ER (eq. 10)

averaged over a batch of steps drawn from the memory. The targets come from the V_tbc stored there;
afterwards V, rho and KL of the drawn steps are refreshed, and V_tbc of these and all earlier steps of
their episodes is corrected by a backward sweep (``rl_agent/returns.py``).

Implementation details that the paper leaves open:

1. Log importance weights are clipped to +-20 before the exponential (overflow), far outside of any c_max.
2. The policy gradient takes the current network's V(s_t) in its bracket; Q_ret is the stored one.
3. Options that the paper does not have: ``center_advantages`` and ``sigma_min`` (``rl_agent/config.py``).
4. The densities are those of untruncated normals (``rl_agent/distributions.py``).

``gradient`` is the fast way on a CPU: the derivatives of L with respect to (V, m, sigma) are written out, the
rest is the network's own backward pass. ``loss`` is L as the paper writes it, for autograd: the reference that the
tests hold the fast way to, and the program that a GPU runs (``rl_agent/gradient_step.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import njit

from rl_agent import distributions
from rl_agent.adam import Adam
from rl_agent.config import AgentConfig
from rl_agent.gradient_step import GradientStep
from rl_agent.networks import make_network
from rl_agent.replay.batch import Batch

__all__ = ["Evaluation", "VRacer"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

Tensors = dict[str, torch.Tensor]

LOG_RHO_BOUND = 20.0


@dataclass(frozen=True)
class Evaluation:
    """What the network says about a batch, and the size of the losses.

    Attributes
    ----------
    value, rho, kl
        V(s_t), importance weight (clipped where the replay asks for it) and D_KL(mu_t || pi), shape (B,).
    far
        Whether a step is far-policy, shape (B,).
    policy_loss, value_loss
        Means over the steps that teach of -rho (Q_ret - V) and of (V - V_tbc)^2 / 2.
    mean_rho, mean_kl, far_fraction
        Means over the batch.
    gradient_norm
        Euclidean norm of dL/dw.
    """

    value: F32
    rho: F32
    kl: F32
    far: npt.NDArray[np.bool_]
    policy_loss: float
    value_loss: float
    mean_rho: float
    mean_kl: float
    far_fraction: float
    gradient_norm: float


class VRacer:
    """Weights of V-RACER, and one gradient of them.

    Parameters
    ----------
    config
        The learner's settings.
    observation_size, action_size
        Components of a state and of an action.
    rng
        Draws the first weights.

    Attributes
    ----------
    weights
        Flat vector: the network's weights, then the A parameters of sigma (before the softplus). With a GPU this and
        the moments of ``adam`` are copies on the host: ``torch_step.pull()`` brings them up to date.
    network
        Its outputs are V(s), m_1(s), ... m_A(s).
    torch_step
        The update by autograd, on the device.
    """

    def __init__(self, config: AgentConfig, observation_size: int, action_size: int, rng: np.random.Generator) -> None:
        self.config = config
        self.action_size = action_size
        self.network = make_network(config, observation_size, 1 + action_size)
        spread = np.full(action_size, distributions.inverse_softplus(config.sigma - config.sigma_min), np.float32)
        self.weights: F32 = np.concatenate([self.network.initialise(rng), spread])
        self.adam = Adam(len(self.weights))
        self.last_gradient: F32 = np.zeros_like(self.weights)
        self._tape = self.network.tape(self.network.history + 1, config.batch)
        self._views = self.network.views(self.weights)
        self._gradient_views = self.network.views(self.last_gradient)
        self._is_fast = config.device == "cpu"
        self.torch_step = GradientStep(self.weights, self.adam, self.loss, config.device)

    @property
    def std(self) -> F32:
        """Standard deviation of the policy, shape (A,)."""
        self.torch_step.pull()
        return distributions.shared_std(self.weights[-self.action_size :], self.config.sigma_min)

    def act(self, observations: F32, state: F32) -> tuple[F32, F32, F32]:
        """Values (n,), means (n, A) and next recurrent states for standardised observations (n, S)."""
        self.torch_step.pull()
        outputs, following = self.network.step(self._views, observations, state)
        return outputs[:, 0], outputs[:, 1:], following

    def values(self, windows: F32, lengths: I64) -> F32:
        """V at the end of windows of any lengths, shape (n,)."""
        self.torch_step.pull()
        order = np.argsort(-lengths, kind="stable")
        tape = self.network.tape(windows.shape[0], len(lengths))
        outputs = self.network.forward(self._views, np.ascontiguousarray(windows[:, order]), lengths[order], tape)
        values = np.empty(len(lengths), np.float32)
        values[order] = outputs[:, 0]
        return values

    def update(
        self, batch: Batch, learning_rate: float, *, c_max: float, beta: float, rule_1: bool, rho_clip: float
    ) -> Evaluation:
        """Take an Adam step against the gradient of a batch (arguments of ``gradient``), on the learner's device."""
        if self._is_fast:
            evaluation = self.gradient(batch, c_max=c_max, beta=beta, rule_1=rule_1, rho_clip=rho_clip)
            self.descend(learning_rate)
            return evaluation
        inputs = loss_inputs(batch, c_max=c_max, beta=beta, rule_1=rule_1, rho_clip=rho_clip)
        return _evaluation(self.torch_step(inputs, learning_rate))

    def gradient(self, batch: Batch, *, c_max: float, beta: float, rule_1: bool, rho_clip: float) -> Evaluation:
        """Write dL/dw of a batch into ``last_gradient``, shape of ``weights``.

        Parameters
        ----------
        batch
            ``config.batch`` drawn steps.
        c_max
            Bound of near-policy importance weights.
        beta
            Weight of the loss against the KL penalty.
        rule_1
            Whether far-policy steps contribute no gradient of the loss.
        rho_clip
            Upper bound of the importance weights in the loss; those above it have no gradient of L_pi.
        """
        outputs = self.network.forward(self._views, batch.windows, batch.lengths, self._tape)
        size, sigma = len(outputs), self.std
        d_outputs = np.empty_like(outputs)
        rho, kl = np.empty(size, np.float32), np.empty(size, np.float32)
        moved, far = np.empty(size, np.bool_), np.empty(size, np.bool_)
        behaviour = (batch.action, batch.behaviour_mean, batch.behaviour_std)
        _compare(outputs, sigma, *behaviour, np.float32(c_max), np.float32(rho_clip), rho, kl, moved, far)
        advantage = batch.q_ret - outputs[:, 0]
        if self.config.center_advantages:
            near = rho * ~far
            advantage -= near @ advantage / max(near.sum(), np.float32(1e-6))
        loss_share = np.where(far & rule_1, 0.0, beta / size).astype(np.float32)
        kl_share = np.float32((1.0 - beta) / size)
        d_sigma = _output_gradients(
            outputs, sigma, *behaviour, batch.v_tbc, advantage, rho * moved, loss_share, kl_share, d_outputs
        )
        self.network.backward(self._views, self._tape, batch.lengths, d_outputs, self._gradient_views)
        # d softplus(x) / dx = 1 - exp(-softplus(x))
        self.last_gradient[-self.action_size :] = d_sigma * -np.expm1(np.float32(self.config.sigma_min) - sigma)
        kept = (loss_share > 0) if rule_1 else np.ones(size, np.bool_)
        count = max(1, int(kept.sum()))
        return Evaluation(
            value=outputs[:, 0].copy(),
            rho=rho,
            kl=kl,
            far=far,
            policy_loss=-float((rho * advantage)[kept].sum()) / count,
            value_loss=0.5 * float(((outputs[:, 0] - batch.v_tbc)[kept] ** 2).sum()) / count,
            mean_rho=float(rho.mean()),
            mean_kl=float(kl.mean()),
            far_fraction=float(far.mean()),
            gradient_norm=math.sqrt(float(self.last_gradient @ self.last_gradient)),
        )

    def descend(self, learning_rate: float) -> None:
        """Take an Adam step against ``last_gradient``."""
        self.adam.step(self.weights, self.last_gradient, learning_rate)

    def reference_gradient(
        self,
        batch: Batch,
        *,
        c_max: float,
        beta: float,
        rule_1: bool,
        rho_clip: float,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[npt.NDArray[Any], Evaluation]:
        """Compute the result of ``gradient`` by autograd, from the loss as the paper writes it."""
        weights = torch.tensor(self.weights, dtype=dtype, requires_grad=True)
        inputs = loss_inputs(batch, c_max=c_max, beta=beta, rule_1=rule_1, rho_clip=rho_clip)
        loss, results = self.loss(weights, {n: torch.as_tensor(x, dtype=dtype) for n, x in inputs.items()})
        (gradient,) = torch.autograd.grad(loss, weights)
        results["gradient_norm"] = gradient.norm()
        return gradient.numpy(), _evaluation({n: result.detach().numpy() for n, result in results.items()})

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """L of a batch as a torch graph of ``weights``.

        Parameters
        ----------
        weights
            Flat weights, shape of ``self.weights``.
        inputs
            Tensors of ``loss_inputs``.

        Returns
        -------
        loss
            L, a scalar.
        results
            ``value``, ``rho``, ``kl`` and ``far`` (1 or 0) of shape (B,), ``policy_loss`` and ``value_loss``.
        """
        network, action, beta = self.network, inputs["action"], inputs["beta"]
        outputs = network.reference(weights[: network.size], inputs["windows"], inputs["lengths"])
        value, mean = outputs[:, 0], outputs[:, 1:]
        sigma = self.config.sigma_min + torch.nn.functional.softplus(weights[network.size :])
        pi, mu = _gaussian(mean, sigma), _gaussian(inputs["behaviour_mean"], inputs["behaviour_std"])
        log_rho = (pi.log_prob(action) - mu.log_prob(action)).clamp(-LOG_RHO_BOUND, LOG_RHO_BOUND)
        rho = torch.minimum(log_rho.exp(), inputs["rho_clip"])
        kl = torch.distributions.kl_divergence(mu, pi)
        far = ~((rho > 1.0 / inputs["c_max"]) & (rho < inputs["c_max"]))
        kept = 1.0 - inputs["rule_1"] * far.to(rho.dtype)
        advantage = inputs["q_ret"] - value.detach()
        if self.config.center_advantages:
            near = torch.where(far, 0.0, rho.detach())
            advantage = advantage - (near * advantage).sum() / near.sum().clamp(min=1e-6)
        policy_loss = -rho * advantage * kept
        value_loss = 0.5 * (value - inputs["v_tbc"]) ** 2 * kept
        loss = (beta * (policy_loss + value_loss) + (1.0 - beta) * kl).mean()
        count = kept.sum().clamp(min=1.0)
        results = {"value": value, "rho": rho, "kl": kl, "far": far.to(rho.dtype)}
        return loss, results | {"policy_loss": policy_loss.sum() / count, "value_loss": value_loss.sum() / count}


def loss_inputs(
    batch: Batch, *, c_max: float, beta: float, rule_1: bool, rho_clip: float
) -> dict[str, npt.NDArray[Any] | float]:
    """Collect what ``VRacer.loss`` reads; arguments of ``VRacer.gradient``."""
    return vars(batch) | {"c_max": c_max, "beta": beta, "rule_1": float(rule_1), "rho_clip": rho_clip}


def _gaussian(mean: torch.Tensor, std: torch.Tensor) -> torch.distributions.Independent:
    # checked arguments would make the host wait for the device
    normal = torch.distributions.Normal(mean, std, validate_args=False)
    return torch.distributions.Independent(normal, 1, validate_args=False)


def _evaluation(results: Mapping[str, npt.NDArray[Any]]) -> Evaluation:
    rho, kl, far = results["rho"], results["kl"], results["far"] > 0.5
    return Evaluation(
        value=results["value"],
        rho=rho,
        kl=kl,
        far=far,
        policy_loss=float(results["policy_loss"]),
        value_loss=float(results["value_loss"]),
        mean_rho=float(rho.mean()),
        mean_kl=float(kl.mean()),
        far_fraction=float(far.mean()),
        gradient_norm=float(results["gradient_norm"]),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _compare(
    outputs: F32,
    sigma: F32,
    action: F32,
    mu_mean: F32,
    mu_std: F32,
    c_max: np.float32,
    rho_clip: np.float32,
    rho: F32,
    kl: F32,
    moved: npt.NDArray[np.bool_],
    far: npt.NDArray[np.bool_],
) -> None:
    """Write rho, KL and the far-policy flags of a batch, and where the gradient of rho is not cut off by a clip."""
    half, bound = np.float32(0.5), np.float32(LOG_RHO_BOUND)
    batch, size = action.shape
    for b in range(batch):
        log_rho, divergence = np.float32(0.0), np.float32(0.0)
        for j in range(size):
            s, s_mu = sigma[j], mu_std[b, j]
            m, m_mu = outputs[b, 1 + j], mu_mean[b, j]
            z, z_mu = (action[b, j] - m) / s, (action[b, j] - m_mu) / s_mu
            log_ratio = np.log(s / s_mu)
            log_rho += half * (z_mu * z_mu - z * z) - log_ratio
            divergence += log_ratio + (s_mu * s_mu + (m_mu - m) ** 2) / (np.float32(2.0) * s * s) - half
        weight = np.exp(min(max(log_rho, -bound), bound))
        moved[b] = abs(log_rho) <= bound and weight <= rho_clip
        rho[b], kl[b] = min(weight, rho_clip), divergence
        far[b] = not (np.float32(1.0) / c_max < rho[b] < c_max)


@njit(cache=True, nogil=True, error_model="numpy")
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
    kl_share: np.float32,
    d_outputs: F32,
) -> F32:
    """Differentiate the mean loss with respect to V, m (into ``d_outputs``) and sigma (the result).

    With z = (a - m) / sigma:  d log pi / dm = z / sigma,  d log pi / dsigma = (z^2 - 1) / sigma, and
    d KL / dm = (m - m_mu) / sigma^2,  d KL / dsigma = 1 / sigma - (sigma_mu^2 + (m_mu - m)^2) / sigma^3.
    ``weight`` is rho, or 0 where a clip cuts its gradient off; the shares are the weights of a sample's terms.
    """
    one = np.float32(1.0)
    batch, size = action.shape
    d_sigma = np.zeros(size, np.float32)
    for b in range(batch):
        d_outputs[b, 0] = loss_share[b] * (outputs[b, 0] - v_tbc[b])
        push = -loss_share[b] * weight[b] * advantage[b]
        for j in range(size):
            s, s_mu = sigma[j], mu_std[b, j]
            m, m_mu = outputs[b, 1 + j], mu_mean[b, j]
            z = (action[b, j] - m) / s
            d_outputs[b, 1 + j] = push * z / s + kl_share * (m - m_mu) / (s * s)
            d_sigma[j] += push * (z * z - one) / s + kl_share * (one - (s_mu * s_mu + (m_mu - m) ** 2) / (s * s)) / s
    return d_sigma
