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
3. The densities are those of untruncated normals (``rl_agent/distributions.py``).

``gradient`` is the fast way: the derivatives of L with respect to (V, m, sigma) are written out, the
rest is the network's own backward pass. ``reference_gradient`` gets the same from autograd and
``torch.distributions``; the tests hold both equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from numba import njit

from rl_agent import distributions
from rl_agent.adam import Adam
from rl_agent.config import AgentConfig
from rl_agent.networks import make_network
from rl_agent.replay.batch import Batch

__all__ = ["Evaluation", "VRacer"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

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
        Flat vector: the network's weights, then the A parameters of sigma (before the softplus).
    network
        Its outputs are V(s), m_1(s), ... m_A(s).
    """

    def __init__(self, config: AgentConfig, observation_size: int, action_size: int, rng: np.random.Generator) -> None:
        self.config = config
        self.action_size = action_size
        self.network = make_network(config, observation_size, 1 + action_size)
        spread = np.full(action_size, distributions.inverse_softplus(config.sigma), np.float32)
        self.weights: F32 = np.concatenate([self.network.initialise(rng), spread])
        self.adam = Adam(len(self.weights))
        self.last_gradient: F32 = np.zeros_like(self.weights)
        self._tape = self.network.tape(self.network.history + 1, config.batch)
        self._views = self.network.views(self.weights)
        self._gradient_views = self.network.views(self.last_gradient)

    @property
    def std(self) -> F32:
        """Standard deviation of the policy, shape (A,)."""
        return distributions.softplus(self.weights[-self.action_size :])

    def act(self, observations: F32, state: F32) -> tuple[F32, F32, F32]:
        """Values (n,), means (n, A) and next recurrent states for standardised observations (n, S)."""
        outputs, following = self.network.step(self._views, observations, state)
        return outputs[:, 0], outputs[:, 1:], following

    def values(self, windows: F32, lengths: I64) -> F32:
        """V at the end of windows of any lengths, shape (n,)."""
        order = np.argsort(-lengths, kind="stable")
        tape = self.network.tape(windows.shape[0], len(lengths))
        outputs = self.network.forward(self._views, np.ascontiguousarray(windows[:, order]), lengths[order], tape)
        values = np.empty(len(lengths), np.float32)
        values[order] = outputs[:, 0]
        return values

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
        far = np.empty(size, np.bool_)
        d_sigma, means = _output_gradients(
            outputs,
            sigma,
            batch.action,
            batch.behaviour_mean,
            batch.behaviour_std,
            batch.v_tbc,
            batch.q_ret,
            np.float32(c_max),
            np.float32(beta),
            rule_1,
            np.float32(rho_clip),
            d_outputs,
            rho,
            kl,
            far,
        )
        self.network.backward(self._views, self._tape, batch.lengths, d_outputs, self._gradient_views)
        # d softplus(x) / dx = 1 - exp(-softplus(x))
        self.last_gradient[-self.action_size :] = d_sigma * -np.expm1(-sigma)
        return Evaluation(outputs[:, 0].copy(), rho, kl, far, *map(float, means))

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
    ) -> tuple[F32, Evaluation]:
        """Compute the result of ``gradient`` by autograd, from the loss as the paper writes it."""
        weights = torch.tensor(self.weights, dtype=dtype, requires_grad=True)
        loss, evaluation = self.reference_loss(weights, batch, c_max=c_max, beta=beta, rule_1=rule_1, rho_clip=rho_clip)
        (gradient,) = torch.autograd.grad(loss, weights)
        return gradient.numpy(), evaluation

    def reference_loss(
        self, weights: torch.Tensor, batch: Batch, *, c_max: float, beta: float, rule_1: bool, rho_clip: float
    ) -> tuple[torch.Tensor, Evaluation]:
        """L of a batch as a torch graph of ``weights``; arguments of ``gradient``."""
        as_tensor = lambda array: torch.as_tensor(array, dtype=weights.dtype)  # noqa: E731
        network = self.network
        outputs = network.reference(weights[: network.size], as_tensor(batch.windows), torch.as_tensor(batch.lengths))
        value, mean = outputs[:, 0], outputs[:, 1:]
        sigma = torch.nn.functional.softplus(weights[network.size :])
        pi = torch.distributions.Independent(torch.distributions.Normal(mean, sigma), 1)
        mu = torch.distributions.Independent(
            torch.distributions.Normal(as_tensor(batch.behaviour_mean), as_tensor(batch.behaviour_std)), 1
        )
        action = as_tensor(batch.action)
        log_rho = (pi.log_prob(action) - mu.log_prob(action)).clamp(-LOG_RHO_BOUND, LOG_RHO_BOUND)
        rho = log_rho.exp().clamp(max=rho_clip)
        kl = torch.distributions.kl_divergence(mu, pi)
        far = ~((rho > 1.0 / c_max) & (rho < c_max))
        kept = torch.where(far, 0.0, 1.0).to(weights.dtype) if rule_1 else torch.ones_like(rho)
        policy_loss = -rho * (as_tensor(batch.q_ret) - value.detach()) * kept
        value_loss = 0.5 * (value - as_tensor(batch.v_tbc)) ** 2 * kept
        loss = (beta * (policy_loss + value_loss) + (1.0 - beta) * kl).mean()
        count = max(1.0, float(kept.sum()))
        with torch.no_grad():
            means = [
                policy_loss.sum() / count,
                value_loss.sum() / count,
                rho.mean(),
                kl.mean(),
                far.to(rho).mean(),
            ]
        evaluation = Evaluation(
            value.detach().numpy(), rho.detach().numpy(), kl.detach().numpy(), far.numpy(), *map(float, means)
        )
        return loss, evaluation


@njit(cache=True, nogil=True, error_model="numpy")
def _output_gradients(
    outputs: F32,
    sigma: F32,
    action: F32,
    mu_mean: F32,
    mu_std: F32,
    v_tbc: F32,
    q_ret: F32,
    c_max: np.float32,
    beta: np.float32,
    rule_1: bool,
    rho_clip: np.float32,
    d_outputs: F32,
    rho: F32,
    kl: F32,
    far: npt.NDArray[np.bool_],
) -> tuple[F32, F32]:
    """Differentiate the mean loss with respect to V, m (into ``d_outputs``) and sigma (first result).

    With z = (a - m) / sigma:  d log pi / dm = z / sigma,  d log pi / dsigma = (z^2 - 1) / sigma, and
    d KL / dm = (m - m_mu) / sigma^2,  d KL / dsigma = 1 / sigma - (sigma_mu^2 + (m_mu - m)^2) / sigma^3.
    Also writes rho, KL and the far-policy flags; the second result holds the means of ``Evaluation``.
    """
    one, half, zero = np.float32(1.0), np.float32(0.5), np.float32(0.0)
    bound = np.float32(LOG_RHO_BOUND)
    batch, size = action.shape
    share = one / np.float32(batch)
    d_sigma, sums, kept = np.zeros(size, np.float32), np.zeros(5, np.float32), 0
    for b in range(batch):
        log_rho, divergence = zero, zero
        for j in range(size):
            s, s_mu = sigma[j], mu_std[b, j]
            m, m_mu = outputs[b, 1 + j], mu_mean[b, j]
            z, z_mu = (action[b, j] - m) / s, (action[b, j] - m_mu) / s_mu
            log_ratio = np.log(s / s_mu)
            log_rho += half * (z_mu * z_mu - z * z) - log_ratio
            divergence += log_ratio + (s_mu * s_mu + (m_mu - m) ** 2) / (np.float32(2.0) * s * s) - half
        clipped = abs(log_rho) > bound
        weight = np.exp(min(max(log_rho, -bound), bound))
        clipped = clipped or weight > rho_clip
        weight = min(weight, rho_clip)
        rho[b], kl[b] = weight, divergence
        far[b] = not (one / c_max < weight < c_max)
        loss_share = zero if rule_1 and far[b] else beta * share
        kl_share = (one - beta) * share
        value = outputs[b, 0]
        advantage = q_ret[b] - value
        d_outputs[b, 0] = loss_share * (value - v_tbc[b])
        # the gradient of a clipped weight is zero
        push = zero if clipped else -loss_share * weight * advantage
        for j in range(size):
            s, s_mu = sigma[j], mu_std[b, j]
            m, m_mu = outputs[b, 1 + j], mu_mean[b, j]
            z = (action[b, j] - m) / s
            d_outputs[b, 1 + j] = push * z / s + kl_share * (m - m_mu) / (s * s)
            d_sigma[j] += push * (z * z - one) / s + kl_share * (one - (s_mu * s_mu + (m_mu - m) ** 2) / (s * s)) / s
        if not (rule_1 and far[b]):
            kept += 1
            sums[0] -= weight * advantage
            sums[1] += half * (value - v_tbc[b]) ** 2
        sums[2] += weight
        sums[3] += divergence
        sums[4] += np.float32(far[b])
    sums[:2] /= np.float32(max(1, kept))
    sums[2:] *= share
    return d_sigma, sums
