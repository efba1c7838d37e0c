"""Remember-and-Forget: which sampled steps update the weights, and the penalty for deviating from past policies.

ReF-ER paper, section 3. A step is near-policy while 1/c_max < rho < c_max (strictly).

- Rule 1: far-policy steps contribute no gradient of the loss L (policy and value).
- Rule 2 (eq. 10): the minimised loss of a step is ``beta L + (1 - beta) D_KL(mu_k || pi)``, without L
  where rule 1 applies; beta is controlled by eq. 12 so that about a fraction D of the memory is far-policy.
- Annealing (eq. 13): ``c_max(t) = 1 + C / (1 + A t)`` and ``eta(t) = eta / (1 + A t)``.

``refer-1`` uses only rule 1 (no KL term: beta is 1); ``refer-2`` only rule 2, with importance weights
clipped at 1000 (section 5.3); ``none`` uses neither.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

from rl_agent.config import AgentConfig
from rl_agent.networks.distributions.densities import LOG_RHO_BOUND
from rl_agent.runtime.jit import compiled

__all__ = ["FarWatch", "RememberForget", "Rules", "is_near_policy", "weigh"]

F32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

RHO_CLIP_WITHOUT_RULE_1 = 1e3


@register_jitable(inline="always")
def is_near_policy(rho: Any, least: Any, most: Any) -> Any:
    """Return which importance weights are near-policy: ``least`` = 1 / c_max < rho < ``most`` = c_max, both strictly.

    This is the only implementation, for numbers in compiled loops, arrays and tensors.
    """
    return (rho > least) & (rho < most)


@compiled(error_model="numpy")
def weigh(log_rho: F32, c_max: np.float32, rho_clip: np.float32) -> tuple[F32, Flags, Flags]:
    """Compute importance weights from their logarithms, within their bounds.

    Parameters
    ----------
    log_rho
        Logarithms of the importance weights, shape (B,).
    c_max
        Bound of near-policy importance weights.
    rho_clip
        Upper bound of the importance weights.

    Returns
    -------
    rho
        Importance weights, shape (B,).
    far, moved
        Whether a step is far-policy, and whether its importance weight is not clipped and so depends on pi, shape (B,).
    """
    bound = np.float32(LOG_RHO_BOUND)
    batch = log_rho.shape[0]
    rho, far, moved = (
        np.empty(batch, np.float32),
        np.empty(batch, np.bool_),
        np.empty(batch, np.bool_),
    )
    for b in range(batch):
        weight = np.exp(min(max(log_rho[b], -bound), bound))
        moved[b] = abs(log_rho[b]) <= bound and weight <= rho_clip
        rho[b] = min(weight, rho_clip)
        far[b] = not is_near_policy(rho[b], np.float32(1.0) / c_max, c_max)
    return rho, far, moved


class Rules(NamedTuple):
    """Parameters of Remember-and-Forget for a gradient step.

    Attributes
    ----------
    c_max
        Bound of near-policy importance weights.
    beta
        Weight of the loss relative to the KL penalty.
    rule_1
        Whether far-policy steps contribute no gradient of the loss.
    rho_clip
        Upper bound of the importance weights in the loss.
    """

    c_max: float
    beta: float
    rule_1: bool
    rho_clip: float


class RememberForget:
    """State of Remember-and-Forget: beta, and the schedules of c_max and of the learning rate.

    Parameters
    ----------
    config
        Settings; ``replay``, ``beta``, ``c_max_scale``, ``annealing``, ``far_policy_target`` and ``learning_rate`` are
        used.

    Attributes
    ----------
    rule_1, rule_2
        Whether each rule is used.
    beta
        Weight of the loss relative to the KL penalty.
    rho_clip
        Upper bound of importance weights in the loss (infinite unless ``replay`` is ``refer-2``).
    """

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.rule_1 = config.replay in ("refer", "refer-1")
        self.rule_2 = config.replay in ("refer", "refer-2")
        self.beta = config.beta if self.rule_2 else 1.0
        self.rho_clip = RHO_CLIP_WITHOUT_RULE_1 if config.replay == "refer-2" else float("inf")

    def rules(self, step: int) -> Rules:
        """Return the parameters of a gradient step after ``step`` environment steps."""
        return Rules(self.c_max(step), self.beta, self.rule_1, self.rho_clip)

    def c_max(self, step: int) -> float:
        """Return the bound of near-policy importance weights after ``step`` environment steps."""
        return 1.0 + self.config.c_max_scale / (1.0 + self.config.annealing * step)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate after ``step`` environment steps."""
        return self._annealed(self.config.learning_rate, step)

    def _annealed(self, rate: float, step: int) -> float:
        return rate / (1.0 + self.config.annealing * step)

    def update_beta(self, n_far: int, n: int, step: int) -> None:
        """Update beta by eq. 12 after a gradient step.

        Parameters
        ----------
        n_far, n
            Number of far-policy steps in the memory, and of all steps. Steps after an agent had ended in its
            environment are not counted.
        step
            Environment steps so far.
        """
        if not self.rule_2:
            return
        eta = self.learning_rate(step)
        self.beta *= 1.0 - eta
        if n_far <= self.config.far_policy_target * n:
            self.beta += eta


class FarWatch:
    """Warns if most of the memory stays far-policy, so that nothing is learned from it under rule 1.

    Parameters
    ----------
    config
        Settings of the learner.
    steps
        Environment steps of the run; the warning comes after 1/20 of them, but at least ``LEAST``.
    """

    TOLERATED, LEAST = 0.5, 3000

    def __init__(self, config: AgentConfig, steps: int) -> None:
        self._config, self._patience = config, max(self.LEAST, steps // 20)
        self._since: int | None = None
        self._is_told = config.replay not in ("refer", "refer-1")

    def note(self, step: int, far_fraction: float) -> str | None:
        """Record the fraction of far-policy steps in the memory.

        Returns
        -------
        str or None
            A warning, once per run, if the fraction has stayed above one half.
        """
        if far_fraction <= self.TOLERATED:
            self._since = None
            return None
        self._since = step if self._since is None else self._since
        if self._is_told or step - self._since < self._patience:
            return None
        self._is_told = True
        config = self._config
        return (
            f"for {step - self._since} steps more than half of the memory has been far-policy "
            f"({far_fraction:.0%} now), and agent.replay = {config.replay} learns nothing from that; "
            f"a smaller agent.buffer_size (now {config.buffer_size}), a larger agent.c_max_scale (now "
            f"{config.c_max_scale:g}) or a smaller learning rate of the policy (now {config.policy_rate:g}) keeps more "
            "of it near"
        )
