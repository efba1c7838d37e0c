"""The analytic gradient of NAF; its loss is in ``rl_agent/algorithms/naf/loss.py``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Evaluation
from rl_agent.algorithms.critic_gradients import compare_behaviour, evaluate
from rl_agent.replay.batch import Transitions
from rl_agent.replay.refer import Rules
from rl_agent.runtime.jit import compiled

__all__ = ["Gradient"]

F32 = npt.NDArray[np.float32]


class Gradient:
    """Writes dL/dw of a batch into the ``last_gradient`` of an algorithm."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm, self._pass = algorithm, algorithm.parts.passes("network")

    def __call__(self, batch: Transitions, rules: Rules, weight: F32 | None) -> Evaluation:
        """Write dL/dw of a batch of transitions."""
        algorithm = self._algorithm
        action, (size, number) = batch.action, batch.action.shape
        following = self._pass.forward(
            algorithm.host_target["network"], batch.next_windows, batch.next_lengths
        )[:, 0]
        q_target = batch.reward + np.float32(batch.gamma) * batch.nonterminal * following
        outputs = self._pass.forward(
            algorithm.host_weights["network"], batch.windows, batch.lengths
        )
        mean, std = (
            outputs[:, 1 : 1 + number],
            np.full((1, number), algorithm.config.sigma, np.float32),
        )
        near, kept = compare_behaviour(batch, mean, std, rules)

        error_weight = kept if weight is None else kept * weight
        error, grad_outputs = _differentiate(
            outputs, action, q_target, error_weight * np.float32(rules.beta / size)
        )
        grad_outputs[:, 1 : 1 + number] += (
            np.float32((1.0 - rules.beta) / size) * (mean - batch.behaviour_mean) / std**2
        )
        value = outputs[:, 0].copy()
        self._pass.backward(grad_outputs, algorithm.host_gradient["network"])
        return evaluate(
            algorithm,
            near,
            value,
            error,
            kept,
            np.zeros(1, np.float32),
            0.5 * error_weight * error**2,
        )


@compiled(error_model="numpy")
def _differentiate(outputs: F32, action: F32, q_target: F32, share: F32) -> tuple[F32, F32]:
    """Differentiate sum_b share_b (q_b - Q_b)^2 / 2 with respect to the outputs V, m and the entries of L.

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
    lower, projected = np.zeros((size, size), np.float32), np.empty(size, np.float32)
    for b in range(batch):
        entries, mean = outputs[b, 1 + size :], outputs[b, 1 : 1 + size]
        projected[:] = np.float32(0.0)
        k, q = 0, outputs[b, 0]
        for i in range(size):
            for j in range(i + 1):
                x = entries[k]
                lower[i, j] = max(x, np.float32(0.0)) + np.log1p(np.exp(-abs(x))) if i == j else x
                projected[j] += lower[i, j] * (action[b, i] - mean[i])
                k += 1
        for j in range(size):
            q -= projected[j] * projected[j]
        error[b] = q_target[b] - q
        grad_q = -share[b] * error[b]
        slope[b, 0], k = grad_q, 1 + size
        for i in range(size):
            for j in range(i + 1):
                slope[b, 1 + i] += two * grad_q * lower[i, j] * projected[j]
                grad_entry = -two * grad_q * (action[b, i] - mean[i]) * projected[j]
                # d softplus(x) / dx = 1 - exp(-softplus(x))
                slope[b, k] = grad_entry * (one - np.exp(-lower[i, i])) if i == j else grad_entry
                k += 1
    return error, slope
