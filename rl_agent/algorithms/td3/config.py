"""Settings of TD3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from rl_agent.config.agent import Few, PositiveStd
from rl_agent.config.kinds import TwoCritics, tanh_inside
from rl_agent.config.registry import register
from rl_agent.config.run_length import RunLength

SHORT, SHORT_SIGMA = 1_000_000, 0.3
"""Number of steps below which a run is short, and the exploration sigma of short runs."""


@register("rl_agent.algorithms.td3.loss:TD3")
class TD3Config(TwoCritics):
    """TD3.

    Attributes
    ----------
    policy_delay, target_noise, target_noise_clip
        Gradient steps per policy update; standard deviation and bound of the noise on the target action.
    """

    title: ClassVar[str] = "TD3"
    colour: ClassVar[str] = "#e377c2"
    is_stochastic: ClassVar[bool] = False

    algorithm: Literal["td3"] = "td3"
    sigma: PositiveStd = 0.1
    policy_delay: Few = 2
    target_noise: float = Field(default=0.2, ge=0.0, le=10.0)
    target_noise_clip: float = Field(default=0.5, ge=0.0, le=10.0)

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        yield from tanh_inside(self)

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add more exploration for a short run."""
        yield from super().rules(run)
        if run.steps < SHORT:
            yield "sigma", SHORT_SIGMA
