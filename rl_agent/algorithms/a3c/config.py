"""Settings of synchronous A3C, with and without a trust region."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from rl_agent.config.agent import PositiveStd, Steps
from rl_agent.config.kinds import HasTrustRegion
from rl_agent.config.on_policy import OnPolicyConfig
from rl_agent.config.registry import register
from rl_agent.config.run_length import USUAL_AGENTS, RunLength


@register("rl_agent.algorithms.a3c.loss:A3C")
class A3CConfig(OnPolicyConfig):
    """Synchronous A3C; each gradient uses the whole horizon, so ``batch_size`` is not used."""

    title: ClassVar[str] = "A3C"
    colour: ClassVar[str] = "#bcbd22"
    unread: ClassVar[tuple[str, ...]] = (*OnPolicyConfig.unread, "batch_size", "sigma_min")
    learning_rate_factor: ClassVar[float] = 3.0  # a run takes only few gradient steps

    algorithm: Literal["a3c"] = "a3c"
    sigma: PositiveStd = 0.3
    horizon: Steps = 480

    @property
    def sample_size(self) -> int:
        """Number of steps in a gradient."""
        return self.horizon

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add a horizon much shorter than the run, and a first horizon long enough to estimate the state scale."""
        yield from super().rules(run)
        horizon = self.named("horizon", max(5 * USUAL_AGENTS, min(self.horizon, run.steps // 125)))
        yield "horizon", horizon
        yield "first_horizon", max(horizon, run.learning_starts(self.batch_size))


@register("rl_agent.algorithms.a3c.loss:A3C")
class TrustA3CConfig(A3CConfig, HasTrustRegion):
    """Synchronous A3C with a trust region."""

    title: ClassVar[str] = "Trust-A3C"
    colour: ClassVar[str] = "#737300"

    algorithm: Literal["trust-a3c"] = "trust-a3c"  # type: ignore[assignment]
