"""NAF (Gu et al. 2016) as in Novati & Koumoutsakos 2019, section 2, with Remember-and-Forget.

One network gives V(s), the best action m(s) and a lower-triangular L(s) with a positive (softplus) diagonal:

    Q(s, a) = V(s) - (a - m(s))' L(s) L(s)' (a - m(s))                                                       (eq. 4)
    q_t     = r_{t+1} + gamma V~(s_{t+1}),   as max_a Q~ = V~; no second term after a terminal state         (eq. 2)
    L_Q     = ( Q(s_t, a_t) - q_t )^2 / 2
    L       = beta L_Q [near-policy] + (1 - beta) D_KL( mu_t || pi )                                         (eq. 10)

V~ is that of a target network (rate 0.01). The policy is pi = m + N(0, sigma^2), sigma = 0.2. Defaults (appendix A):
the common network, learning rate 1e-4, batch 256; a run takes another learning rate, gamma, memory, start, annealing
and first beta where none are named (``rl_agent/defaults.py``). m is unbounded, and the environment clips; so Q sees the
raw actions.

``gradient`` is L differentiated by hand, for the CPU; ``loss`` is the same for autograd, which the tests hold it to and
a GPU runs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from rl_agent.actor import Actor
from rl_agent.algorithms.advantages import lower_triangular
from rl_agent.algorithms.algorithm import Algorithm, Evaluation, Tensors, compare_gaussians
from rl_agent.algorithms.critics import compare_behaviour, evaluate
from rl_agent.compiling import compiled
from rl_agent.config import AgentConfig
from rl_agent.networks import Parts, make_network
from rl_agent.replay.batch import Transitions
from rl_agent.replay.refer import Rules
from rl_agent.scaling import Sizes

__all__ = ["NAF", "make_actor", "q_value"]

F32 = npt.NDArray[np.float32]


def make_actor(config: AgentConfig, sizes: Sizes) -> Actor:
    """Build the network: V, m and the entries of L; its policy has a fixed sigma."""
    size = sizes.action
    network = make_network(config, sizes.observation, 1 + size + size * (size + 1) // 2)
    std = np.full(size, config.sigma, np.float32)

    def head(outputs: F32, loose: F32) -> tuple[F32, F32, F32]:
        return outputs[:, 0], outputs[:, 1 : 1 + size], std

    return Actor(network, 0, head)


def q_value(outputs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Q(s, a) by eq. 4, shape (B,), from the network's outputs and actions (B, A)."""
    size = action.shape[1]
    lower = lower_triangular(outputs[:, 1 + size :], size)
    pulled = torch.einsum("nij,ni->nj", lower, action - outputs[:, 1 : 1 + size])
    return outputs[:, 0] - (pulled**2).sum(1)


class NAF(Algorithm):
    """The network and its target; see the module."""

    def __init__(self, config: AgentConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        parts = Parts(network=actor.network)
        super().__init__(config, sizes, actor, parts, {"all": ("network", "network")}, rng, has_target=True)
        self.is_written_out = config.device == "cpu"
        self._pass = parts.passes("network")

    def gradient(self, batch: Transitions, rules: Rules, weight: F32 | None = None) -> Evaluation:
        """Write dL/dw of a batch of transitions."""
        action, (size, number) = batch.action, batch.action.shape
        following = self._pass.forward(self.host_target["network"], batch.next_windows, batch.next_lengths)[:, 0]
        q_target = batch.reward + np.float32(self.config.gamma) * batch.goes_on * following
        outputs = self._pass.forward(self.host_weights["network"], batch.windows, batch.lengths)
        mean, std = outputs[:, 1 : 1 + number], np.full((1, number), self.config.sigma, np.float32)
        near, kept = compare_behaviour(batch, mean, std, rules)

        of_error = kept if weight is None else kept * weight
        error, of_outputs = _differentiate(outputs, action, q_target, of_error * np.float32(rules.beta / size))
        of_outputs[:, 1 : 1 + number] += np.float32((1.0 - rules.beta) / size) * (mean - batch.behaviour_mean) / std**2
        value = outputs[:, 0].copy()
        self._pass.backward(of_outputs, self.host_gradient["network"])
        return evaluate(self, near, value, error, kept, np.zeros(1, np.float32), 0.5 * of_error * error**2)

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """L of a batch of transitions."""
        action, beta = inputs["action"], inputs["beta"]
        with torch.no_grad():
            after = inputs["next_windows"], inputs["next_lengths"]
            following = self.parts("network", self.parts.views(inputs["target_weights"]), *after)[:, 0]
            q_target = inputs["reward"] + self.config.gamma * inputs["goes_on"] * following
        outputs = self.parts("network", self.parts.views(weights), inputs["windows"], inputs["lengths"])
        mean = outputs[:, 1 : 1 + action.shape[1]]
        std = torch.full_like(mean[0], self.config.sigma)
        rho, kl, far, kept = compare_gaussians(inputs, mean, std)
        error = q_target - q_value(outputs, action)
        value_loss = 0.5 * inputs["weight"] * error**2 * kept
        count = kept.sum().clamp(min=1.0)
        results = {"value": outputs[:, 0], "rho": rho, "kl": kl, "far": far, "td_error": error}
        # the policy has no loss of its own: it is where Q is largest
        results |= {"policy_loss": torch.zeros_like(count), "value_loss": value_loss.sum() / count}
        return (beta * value_loss + (1.0 - beta) * kl).mean(), results


@compiled(error_model="numpy")
def _differentiate(outputs: F32, action: F32, q_target: F32, share: F32) -> tuple[F32, F32]:
    """Differentiate sum_b share_b (q_b - Q_b)^2 / 2 by the outputs V, m and the entries of L.

    With d = a - m and p = L'd (L_ii is the softplus of its entry):  dQ/dm = 2 L p,  dQ/dL_ij = -2 d_i p_j.

    Parameters
    ----------
    outputs, action
        Shapes (B, 1 + A + A (A + 1) / 2) and (B, A).
    q_target, share
        q, and the weight of each error, shape (B,).

    Returns
    -------
    error, slope
        q - Q, shape (B,), and the gradient, shape of ``outputs``.
    """
    batch, size = action.shape
    one, two = np.float32(1.0), np.float32(2.0)
    error, slope = np.empty(batch, np.float32), np.zeros_like(outputs)
    lower, pulled = np.zeros((size, size), np.float32), np.empty(size, np.float32)
    for b in range(batch):
        entries, mean = outputs[b, 1 + size :], outputs[b, 1 : 1 + size]
        pulled[:] = np.float32(0.0)
        k, q = 0, outputs[b, 0]
        for i in range(size):
            for j in range(i + 1):
                x = entries[k]
                lower[i, j] = max(x, np.float32(0.0)) + np.log1p(np.exp(-abs(x))) if i == j else x
                pulled[j] += lower[i, j] * (action[b, i] - mean[i])
                k += 1
        for j in range(size):
            q -= pulled[j] * pulled[j]
        error[b] = q_target[b] - q
        push = -share[b] * error[b]
        slope[b, 0], k = push, 1 + size
        for i in range(size):
            for j in range(i + 1):
                slope[b, 1 + i] += two * push * lower[i, j] * pulled[j]
                of_entry = -two * push * (action[b, i] - mean[i]) * pulled[j]
                # d softplus(x) / dx = 1 - exp(-softplus(x))
                slope[b, k] = of_entry * (one - np.exp(-lower[i, i])) if i == j else of_entry
                k += 1
    return error, slope
