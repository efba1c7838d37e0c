"""Settings shared by the on-policy algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rl_agent.config.agent import Replay, Steps
from rl_agent.config.kinds import WithPolicy


class OnPolicyConfig(WithPolicy):
    """Settings of on-policy algorithms, which learn from a horizon of steps and then discard them.

    Attributes
    ----------
    horizon
        Steps collected for an iteration, over all agents (instead of ``buffer_size`` and ``learning_starts``).
    first_horizon
        Steps of the first iteration, whose statistics scale the states from then on; ``None`` (the papers, which do not
        scale states) uses ``horizon``. With a short one, the scale would be that of the first few steps of the
        episodes.
    """

    unread: ClassVar[tuple[str, ...]] = (
        "buffer_size",
        "learning_starts",
        "env_steps_per_gradient_step",
        "center_advantages",
    )
    always_weighs: ClassVar[bool] = True
    standardises: ClassVar[bool] = False
    """Whether advantages are standardised over the horizon."""

    replay: Replay = "none"
    horizon: Steps = 2048
    first_horizon: Steps | None = None

    @property
    def passes(self) -> int:
        """Passes over the steps of a horizon."""
        return 1

    @property
    def most_steps(self) -> int:
        """Number of steps of the longest iteration."""
        return max(self.horizon, self.first_horizon or 0)

    @property
    def return_lambda(self) -> float:
        """Lambda of the advantage estimate; with 1, returns run up to the cut."""
        return 1.0

    @property
    def steps_per_gradient(self) -> float:
        """Planned environment steps per gradient step."""
        return self.sample_size / self.passes

    def _incompatibilities(self) -> Iterator[str]:
        name = self.algorithm
        if self.replay != "none" or self.sampler != "uniform":
            yield (
                f"algorithm = {name} is on-policy: it uses every step of the last horizon and then forgets it, so "
                f"replay must be none and sampler uniform, not {self.replay} and {self.sampler}"
            )
        if self.network == "lstm":
            yield (
                f"algorithm = {name} cuts episodes at its horizon, which network = lstm does not support; "
                "use mlp, with frames for a memory"
            )
        if self.first_horizon is not None and self.first_horizon < self.horizon:
            yield f"first_horizon = {self.first_horizon} must not be below horizon = {self.horizon}"
        yield from super()._incompatibilities()
