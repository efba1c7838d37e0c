"""Settings of PPO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from rl_agent.config.agent import Activation, Count, Few, Hidden, Rate, Share
from rl_agent.config.on_policy import OnPolicyConfig
from rl_agent.config.registry import register
from rl_agent.config.run_length import RunLength


@register("rl_agent.algorithms.ppo.loss:PPO")
class PPOConfig(OnPolicyConfig):
    """PPO; each gradient uses ``batch_size`` steps, and ``env_steps_per_gradient_step`` is not used.

    Attributes
    ----------
    epochs, clip, gae_lambda
        Passes over the steps of a horizon, clip range of rho - 1, lambda of the advantage estimate.
    """

    title: ClassVar[str] = "PPO"
    colour: ClassVar[str] = "#9467bd"
    policy_share: ClassVar[float] = 1 / 3
    fitted_policy_share: ClassVar[float | None] = 1.0
    standardises: ClassVar[bool] = True

    algorithm: Literal["ppo"] = "ppo"
    hidden: Hidden | None = (64, 64)
    activation: Activation = "tanh"
    batch_size: Count = 64
    learning_rate: Rate = 3e-4
    epochs: Few = 10
    clip: Rate = 0.2
    gae_lambda: Share = 0.97

    @property
    def passes(self) -> int:
        """Passes over the steps of a horizon."""
        return self.epochs

    @property
    def return_lambda(self) -> float:
        """Lambda of the advantage estimate."""
        return self.gae_lambda

    def _incompatibilities(self) -> Iterator[str]:
        if self.horizon < self.batch_size:
            yield f"horizon = {self.horizon} must not be below batch_size = {self.batch_size}"
        yield from super()._incompatibilities()

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add a horizon much shorter than the run, and lambda."""
        yield from super().rules(run)
        yield "horizon", min(2048, max(4 * self.batch_size, _horizon(run)))
        # lambda's range is about a quarter of the discount factor's: 0.9 at gamma 0.97, the published value at 0.99
        gamma = self.named("gamma", run.gamma)
        yield "gae_lambda", round(min(0.97, max(0.9, 0.9 + 3.5 * (gamma - 0.97))), 3)


def _horizon(run: RunLength) -> int:
    """Return 1/120 of the run, or if that is no longer than an episode, up to four episodes."""
    length = run.episode_steps
    if length is None or run.steps // 120 > length:
        return run.steps // 120
    return min(4 * length, run.steps // 20)
