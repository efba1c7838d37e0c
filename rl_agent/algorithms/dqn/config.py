"""Settings of DQN, and of Rainbow, which differs only in their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rl_agent.config.agent import (
    Activation,
    Count,
    Few,
    Layer,
    NotNegative,
    Positive,
    Rate,
    Replay,
    Sampler,
    Share,
    Steps,
)
from rl_agent.config.kinds import WithTarget
from rl_agent.config.registry import register
from rl_agent.config.run_length import RunLength

FITTED_GAMMA = 0.97


@register("rl_agent.algorithms.dqn.loss:DQN")
class DQNConfig(WithTarget):
    """DQN.

    Attributes
    ----------
    double, dueling, noisy
        Whether the online network selects the next action, whether V and A have separate streams, and whether noisy
        layers replace random actions.
    noise_sigma
        Initial scale of the noise, divided by the square root of a layer's number of inputs.
    n_step
        Number of rewards in a target before the bootstrap (n).
    atoms, value_limit
        Number of atoms of the return distribution, evenly spaced between minus and plus the limit, in units of scaled
        rewards; with one atom only the mean is learned.
    epsilon, epsilon_steps
        Probability of a random action, which decreases from 1 to ``epsilon`` over ``epsilon_steps`` environment steps
        after learning has started.
    target_update_interval
        Gradient steps between updates of the target network, each with ``tau``.
    adam_epsilon, max_gradient_norm
        Adam's epsilon, and the norm to which gradients are clipped; ``None`` disables clipping.
    clip_rewards
        Whether rewards are clipped to [-1, 1] instead of scaled.
    """

    title: ClassVar[str] = "DQN"
    colour: ClassVar[str] = "#393b79"
    fits_learning_rate: ClassVar[bool] = False
    serves_boxes: ClassVar[bool] = False
    is_stochastic: ClassVar[bool] = False
    unread: ClassVar[tuple[str, ...]] = (*WithTarget.unread, "sigma", "squash", "activation")

    algorithm: Literal["dqn"] = "dqn"
    activation: Activation = "relu"
    gamma: Share = 0.99
    learning_rate: Rate = 2.5e-4
    batch_size: Count = 32
    buffer_size: Steps = 1_000_000
    learning_starts: Count = 50_000
    env_steps_per_gradient_step: float = Field(default=4.0, ge=1e-3, le=1e6)
    replay: Replay = "none"
    annealing: NotNegative = 0.0
    random_start: bool = True
    tau: float = Field(default=1.0, gt=0.0, le=1.0)
    target_update_interval: Count = 10_000
    double: bool = False
    dueling: bool = False
    noisy: bool = False
    noise_sigma: Positive = 0.5
    n_step: Few = 1
    atoms: Few = 1
    value_limit: Positive = 10.0
    epsilon: Share = 0.1
    epsilon_steps: Count = 1_000_000
    adam_epsilon: Positive = 1e-8
    max_gradient_norm: Positive | None = None
    clip_rewards: bool = True

    def _incompatibilities(self) -> Iterator[str]:
        if self.replay != "none":
            yield (
                f"algorithm = {self.algorithm} has no policy whose importance weights could be remembered or "
                f"forgotten: replay must be none, not {self.replay}"
            )
        if self.network == "lstm":
            yield f"algorithm = {self.algorithm} reads single states or stacked pictures; use network = mlp or conv"
        yield from super()._incompatibilities()

    @property
    def fitted_batch(self) -> int:
        """Batch size in a run; larger than the published one unless observations are images or it is set."""
        is_small = self.network == "mlp" and "batch_size" not in self.model_fields_set
        return 128 if is_small else self.batch_size

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add target updates and exploration fitted to the length of the run."""
        yield from super().rules(run)
        published = self.env_steps_per_gradient_step
        ratio = float(
            self.named("env_steps_per_gradient_step", min(published, max(1.0, run.steps // 5000)))
        )
        gamma = float(self.named("gamma", FITTED_GAMMA))
        yield "gamma", gamma
        yield "env_steps_per_gradient_step", ratio
        yield "batch_size", self.fitted_batch
        yield "learning_rate", self.learning_rate if self.network == "conv" else 5e-4
        interval = max(100, int(run.steps / ratio / 20))
        yield "target_update_interval", min(self.target_update_interval, interval)
        yield "n_step", min(self.n_step, 3)
        yield "epsilon_steps", max(1, run.steps // 10)
        if not self.noisy:
            yield "epsilon", 0.05
        yield "clip_rewards", False
        yield "value_limit", round(1.0 / max(1e-2, 1.0 - gamma), 1)


@register("rl_agent.algorithms.dqn.loss:DQN")
class RainbowConfig(DQNConfig):
    """Rainbow, data-efficient."""

    title: ClassVar[str] = "Rainbow"
    colour: ClassVar[str] = "#ad494a"
    conv_hidden: ClassVar[tuple[int, ...]] = (256,)

    algorithm: Literal["rainbow"] = "rainbow"  # type: ignore[assignment]
    learning_rate: Rate = 1e-4
    learning_starts: Count = 1600
    env_steps_per_gradient_step: float = Field(default=1.0, ge=1e-3, le=1e6)
    target_update_interval: Count = 2000
    sampler: Sampler = "proportional"
    priority_exponent: float | None = Field(default=0.5, ge=0.0, le=2.0)
    convolutions: Annotated[tuple[Layer, ...], Field(min_length=1)] = ((32, 5, 5), (64, 5, 5))
    double: bool = True
    dueling: bool = True
    noisy: bool = True
    noise_sigma: Positive = 0.1
    n_step: Few = 20
    atoms: Few = 51
    epsilon: Share = 0.0
    adam_epsilon: Positive = 1.5e-4
    max_gradient_norm: Positive | None = 10.0
