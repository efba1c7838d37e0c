"""Algorithms that learn from a horizon of steps and forget them: A3C and PPO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from rl_agent.config.agent import (
    Activation,
    Count,
    Few,
    Hidden,
    PositiveStd,
    Rate,
    Replay,
    Share,
    Steps,
)
from rl_agent.config.kinds import HasTrustRegion, WithPolicy


class OnPolicyConfig(WithPolicy):
    """What learns from a horizon of steps and then forgets them.

    Attributes
    ----------
    horizon
        Steps collected for an iteration, over all agents (instead of ``buffer_size`` and ``learning_starts``).
    first_horizon
        Steps of the first iteration, whose statistics scale the states from then on; ``None`` (the papers, which do not
        scale them) takes ``horizon``. Where it is short, the first few steps of every episode would scale all others.
    """

    standardises: ClassVar[bool] = False
    """Whether advantages are standardised over the horizon."""

    replay: Replay = "none"
    horizon: Steps = 480
    first_horizon: Steps | None = None

    @property
    def passes(self) -> int:
        """Passes over the steps of a horizon."""
        return 1

    @property
    def most_steps(self) -> int:
        """Steps of the longest iteration."""
        return max(self.horizon, self.first_horizon or 0)

    @property
    def return_lambda(self) -> float:
        """Lambda of the advantage estimate; 1 takes the returns up to the cut."""
        return 1.0

    @property
    def steps_per_gradient(self) -> float:
        """Environment steps per gradient step."""
        return self.draws / self.passes

    def _incompatibilities(self) -> Iterator[str]:
        name = self.algorithm
        if self.replay != "none" or self.sampler != "uniform":
            yield (
                f"algorithm = {name} is on-policy: it uses every step of the last horizon and then forgets it, so "
                f"replay must be none and sampler uniform, not {self.replay} and {self.sampler}"
            )
        if self.network == "lstm":
            yield (
                f"algorithm = {name} cuts episodes at its horizon, which the windows of network = lstm cannot cross; "
                "use mlp"
            )
        if self.first_horizon is not None and self.first_horizon < self.horizon:
            yield f"first_horizon = {self.first_horizon} must not be below horizon = {self.horizon}"
        yield from super()._incompatibilities()


class A3CConfig(OnPolicyConfig):
    """Synchronous A3C, which learns from its whole horizon at once, instead of ``batch_size``."""

    algorithm: Literal["a3c"] = "a3c"
    sigma: PositiveStd = 0.3

    @property
    def draws(self) -> int:
        """How many steps a gradient takes."""
        return self.horizon


class TrustA3CConfig(A3CConfig, HasTrustRegion):
    """Synchronous A3C in a trust region."""

    algorithm: Literal["trust-a3c"] = "trust-a3c"  # type: ignore[assignment]


class PPOConfig(OnPolicyConfig):
    """PPO, which takes ``batch_size`` steps a gradient, instead of ``env_steps_per_gradient_step``.

    Attributes
    ----------
    epochs, clip, gae_lambda
        Passes over the steps of a horizon, bound of rho - 1, lambda of the advantage estimate.
    """

    policy_share: ClassVar[float] = 1 / 3
    standardises: ClassVar[bool] = True

    algorithm: Literal["ppo"] = "ppo"
    hidden: Hidden | None = (64, 64)
    activation: Activation = "tanh"
    batch_size: Count = 64
    learning_rate: Rate = 3e-4
    horizon: Steps = 2048
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
