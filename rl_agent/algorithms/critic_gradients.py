"""Code shared by the analytic gradients of the algorithms with critics Q(s, a)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Evaluation, evaluation_of
from rl_agent.config import ActorCritic
from rl_agent.networks import Pass
from rl_agent.networks.distributions import comparison
from rl_agent.replay.batch import Transitions
from rl_agent.replay.refer import Rules, weigh

__all__ = ["Windows", "compare_behaviour", "evaluate", "min_q", "write_critic_gradient"]

F32 = npt.NDArray[np.float32]
Windows = tuple[F32, npt.NDArray[np.int64]]
"""Windows, shape (T, B, S), and their lengths, shape (B,)."""


def compare_behaviour(
    batch: Transitions, mean: F32, std: F32, rules: Rules
) -> tuple[dict[str, npt.NDArray[Any]], F32]:
    """Compare a Gaussian policy with the stored behaviour policy.

    Returns
    -------
    near
        rho, kl and far by name, each of shape (B,).
    kept
        1 for the steps that rule 1 keeps for the update, else 0, shape (B,).
    """
    behaviour = batch.action, batch.behaviour_mean, batch.behaviour_std
    log_rho, kl = comparison.compare(mean, std, *behaviour)
    rho, far, _ = weigh(log_rho, np.float32(rules.c_max), np.float32(np.inf))
    return {"rho": rho, "kl": kl, "far": far}, (~(far & rules.rule_1)).astype(np.float32)


def write_critic_gradient(
    algorithm: Algorithm,
    critic: Pass,
    name: str,
    windows: Windows,
    action: F32,
    q_target: F32,
    share: F32,
) -> F32:
    """Write the gradient of sum_b share_b (q_b - Q(s_b, a_b))^2 / 2 + l/2 |w|^2 for the weights of critic ``name``.

    Returns
    -------
    F32
        Q(s, a), shape (B,).
    """
    q = critic.forward(algorithm.host_weights[name], *windows, action[None])[:, 0].copy()
    critic.backward((share * (q - q_target))[:, None], algorithm.host_gradient[name])
    config = algorithm.config
    if isinstance(config, ActorCritic) and config.critic_l2:
        block = algorithm.parts.slices[name]
        algorithm.last_gradient[block] += np.float32(config.critic_l2) * algorithm.weights[block]
    return q


def min_q(
    algorithm: Algorithm, critics: dict[str, Pass], windows: Windows, action: F32, share: F32
) -> tuple[F32, F32]:
    """Evaluate actions by the minimum over several critics.

    Returns
    -------
    q
        min Q(s, a), shape (B,).
    slope
        Gradient of sum_b share_b min Q(s_b, a_b) with respect to the actions, shape (B, A).
    """
    values = [
        one.forward(algorithm.host_weights[name], *windows, action[None])[:, 0]
        for name, one in critics.items()
    ]
    least = np.minimum.reduce(values)
    slope, total = np.empty((1, *action.shape), np.float32), np.zeros_like(action)
    for one, value in zip(critics.values(), values, strict=True):
        grad_value = share if len(values) == 1 else np.where(value == least, share, np.float32(0.0))
        one.backward(grad_value[:, None], None, slope)
        total += slope[0]
    return least, total


def evaluate(
    algorithm: Algorithm,
    near: dict[str, npt.NDArray[Any]],
    value: F32,
    error: F32,
    kept: F32,
    policy_loss: F32,
    value_loss: F32,
) -> Evaluation:
    """Build an ``Evaluation`` from ``near`` (rho, kl and far) and the losses of each step, shape (B,)."""
    count = max(1.0, float(kept.sum()))
    return evaluation_of(
        near
        | {
            "value": value,
            "td_error": error,
            "policy_loss": np.asarray(policy_loss.sum() / count),
            "value_loss": np.asarray(value_loss.sum() / count),
            "gradient_norm": np.asarray(np.linalg.norm(algorithm.last_gradient)),
        }
    )
